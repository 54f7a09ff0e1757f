//! Wi-Fi interfaces and their networks: generic netlink family `nl80211` (linux/nl80211.h).
//!
//! Requires no privilege. A kernel without wireless networking lacks the family; the host then has no Wi-Fi, which is
//! not an error.

use crate::netlink::NetlinkError;
use crate::netlink::message::{Attributes, Encoder};
use crate::netlink::{GENERIC_HEADER, GenericSocket};
use pathbench_record::kernel_event::{Bssid, WifiNetwork};
use rustix::io::Errno;

/// The version that the kernel's own tools send; the kernel does not check it.
const VERSION: u8 = 0;
// Commands of linux/nl80211.h.
const CMD_GET_INTERFACE: u8 = 5;
const CMD_GET_STATION: u8 = 17;
// Attributes.
const ATTR_IFINDEX: u16 = 3;
const ATTR_IFNAME: u16 = 4;
const ATTR_IFTYPE: u16 = 5;
const ATTR_MAC: u16 = 6;
const ATTR_STA_INFO: u16 = 21;
const ATTR_WIPHY_FREQ: u16 = 38;
const ATTR_SSID: u16 = 52;
// Attributes nested in `NL80211_ATTR_STA_INFO`.
const STA_INFO_SIGNAL: u16 = 7;
const STA_INFO_TX_BITRATE: u16 = 8;
const STA_INFO_SIGNAL_AVG: u16 = 13;
const STA_INFO_RX_BITRATE: u16 = 14;
// Attributes nested in a bit rate.
const RATE_INFO_BITRATE: u16 = 1;
const RATE_INFO_BITRATE32: u16 = 5;
// Types of interfaces that join a network.
const IFTYPE_STATION: u32 = 2;
const IFTYPE_P2P_CLIENT: u32 = 8;

const RATE_UNIT_BPS: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WifiInterface {
    pub index: u32,
    pub name: String,
    /// `None` if not connected.
    pub network: Option<WifiNetwork>,
}

impl WifiInterface {
    /// Parses an answer to `NL80211_CMD_GET_INTERFACE`; `None` for an interface of another type. The kernel reports the
    /// network only while the interface is associated.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
        let kind = attributes.u32(ATTR_IFTYPE)?;
        if kind != IFTYPE_STATION && kind != IFTYPE_P2P_CLIENT {
            return None;
        }
        let ssid = attributes.get(ATTR_SSID).filter(|ssid| !ssid.is_empty());
        let ssid = ssid.map(|ssid| String::from_utf8_lossy(ssid).into_owned());
        Some(Self {
            index: attributes.u32(ATTR_IFINDEX)?,
            name: attributes.text(ATTR_IFNAME)?,
            network: ssid.map(|ssid| WifiNetwork {
                ssid: Some(ssid),
                frequency_mhz: attributes.u32(ATTR_WIPHY_FREQ),
                ..WifiNetwork::default()
            }),
        })
    }
}

/// Queries the Wi-Fi interfaces of one network namespace.
#[derive(Debug)]
pub struct WifiSocket {
    socket: GenericSocket,
}

impl WifiSocket {
    /// For the calling thread's network namespace; `None` if this kernel has no wireless networking.
    pub fn open() -> Result<Option<Self>, NetlinkError> {
        let socket = GenericSocket::open("nl80211", VERSION, "find the kernel's Wi-Fi configuration")?;
        Ok(socket.map(|socket| Self { socket }))
    }

    /// Every interface that joins networks (no access points, no monitors), with its network.
    pub fn interfaces(&mut self) -> Result<Vec<WifiInterface>, NetlinkError> {
        let message = self.socket.message(CMD_GET_INTERFACE, Encoder::default());
        let mut interfaces =
            self.socket.channel.dump("list the Wi-Fi interfaces", &message, WifiInterface::parse)?;
        for interface in &mut interfaces {
            self.add_station(interface)?;
        }
        Ok(interfaces)
    }

    /// Adds the driver's data about the access point, the only station of such an interface.
    fn add_station(&mut self, interface: &mut WifiInterface) -> Result<(), NetlinkError> {
        let selection = Encoder::default().u32(ATTR_IFINDEX, interface.index);
        let message = self.socket.message(CMD_GET_STATION, selection);
        let request = format!("ask what {} is connected to", interface.name);
        match self.socket.channel.dump(&request, &message, parse_station) {
            Ok(stations) => {
                if let Some(station) = stations.into_iter().next() {
                    let WifiNetwork { ssid, frequency_mhz, .. } =
                        interface.network.take().unwrap_or_default();
                    interface.network = Some(WifiNetwork { ssid, frequency_mhz, ..station });
                }
                Ok(())
            }
            // The driver does not report it, or the interface was removed in the meantime.
            Err(error) if error.is_absent() || error.errno() == Some(Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// An answer to `NL80211_CMD_GET_STATION`.
pub fn parse_station(payload: &[u8]) -> Option<WifiNetwork> {
    let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
    let bssid = attributes.get(ATTR_MAC)?.try_into().ok().map(Bssid)?;
    let information = attributes.nested(ATTR_STA_INFO).unwrap_or(Attributes::new(&[]));
    // Zero means unknown: no received signal is that strong.
    let signal = |kind| information.u8(kind).map(u8::cast_signed).filter(|dbm| *dbm != 0);
    Some(WifiNetwork {
        bssid: Some(bssid),
        signal_dbm: signal(STA_INFO_SIGNAL_AVG).or_else(|| signal(STA_INFO_SIGNAL)),
        tx_bps: information.nested(STA_INFO_TX_BITRATE).and_then(rate),
        rx_bps: information.nested(STA_INFO_RX_BITRATE).and_then(rate),
        ..WifiNetwork::default()
    })
}

/// The older 16-bit attribute is limited to 6.5 Gbit/s.
fn rate(attributes: Attributes<'_>) -> Option<u64> {
    let units = attributes
        .u32(RATE_INFO_BITRATE32)
        .or_else(|| attributes.u16(RATE_INFO_BITRATE).map(u32::from))
        .filter(|units| *units > 0)?;
    Some(u64::from(units) * RATE_UNIT_BPS)
}
