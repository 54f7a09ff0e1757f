//! Kernel events of MPTCP connections, interfaces and Wi-Fi associations.

use crate::event::EventKind;
use crate::network::IpNet;
use std::fmt;
use std::net::SocketAddr;

/// An event of an MPTCP connection. Its kind determines which fields are present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MptcpEvent {
    /// As in `enum mptcp_event_type` of `linux/mptcp_pm.h`, or [`EventKind::Overrun`] if events were lost because they
    /// arrived faster than they were read.
    pub kind: EventKind,
    /// This host's token of the connection (`mptcpi_token`).
    pub token: Option<u32>,
    /// Local address and port (0 if the event has none) of the subflow, or of the connection's first subflow.
    pub local: Option<SocketAddr>,
    /// Remote address and port (0 if the event has none).
    pub remote: Option<SocketAddr>,
    /// Address ID on this side; 0 is the first subflow's.
    pub local_id: Option<u8>,
    pub remote_id: Option<u8>,
    pub backup: Option<bool>,
    /// Error number of the subflow's end; `None` or 0 after a regular end.
    pub error: Option<u8>,
    /// Reason in the sent or received `MP_TCPRST` option (RFC 8684, 3.6).
    pub reset_reason: Option<u32>,
    pub reset_flags: Option<u32>,
    /// Index of the interface to which the subflow is bound; `None` if it is not bound.
    pub interface_index: Option<u32>,
    pub server_side: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkEvent {
    /// The interface's index; 0 for [`LinkChange::Overrun`].
    pub index: u32,
    /// The interface's name; `None` if unknown.
    pub name: Option<String>,
    pub change: LinkChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkChange {
    /// The interface was created in, or moved into, this namespace.
    Appeared,
    /// The interface was removed, or moved to another namespace.
    Disappeared,
    Up,
    Down,
    CarrierUp,
    CarrierDown,
    /// The new MTU in bytes.
    Mtu(u32),
    AddressAdded(IpNet),
    AddressRemoved(IpNet),
    /// Not from the kernel: changes were lost because they arrived faster than they were read.
    Overrun,
}

impl LinkChange {
    pub const fn event_kind(self) -> EventKind {
        match self {
            Self::Appeared => EventKind::Appeared,
            Self::Disappeared => EventKind::Disappeared,
            Self::Up => EventKind::Up,
            Self::Down => EventKind::Down,
            Self::CarrierUp => EventKind::CarrierUp,
            Self::CarrierDown => EventKind::CarrierDown,
            Self::Mtu(_) => EventKind::Mtu,
            Self::AddressAdded(_) => EventKind::AddressAdded,
            Self::AddressRemoved(_) => EventKind::AddressRemoved,
            Self::Overrun => EventKind::Overrun,
        }
    }
}

/// `down`, `up`, `mtu 1400`, `address 10.0.1.2/24 removed`, ….
impl fmt::Display for LinkChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CarrierUp => f.write_str("carrier up"),
            Self::CarrierDown => f.write_str("carrier down"),
            Self::Mtu(mtu) => write!(f, "mtu {mtu}"),
            Self::AddressAdded(network) => write!(f, "address {network} added"),
            Self::AddressRemoved(network) => write!(f, "address {network} removed"),
            other => other.event_kind().fmt(f),
        }
    }
}

/// The access point that an interface is associated with. Fields that the driver does not report are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WifiNetwork {
    /// The network's name as text; invalid bytes are replaced.
    pub ssid: Option<String>,
    pub bssid: Option<Bssid>,
    /// Centre frequency of the primary channel.
    pub frequency_mhz: Option<u32>,
    /// Received signal strength of the access point, smoothed if the driver provides that.
    pub signal_dbm: Option<i8>,
    /// Bit rate of the last sent frame, before the overhead of the medium.
    pub tx_bps: Option<u64>,
    pub rx_bps: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bssid(pub [u8; 6]);

impl fmt::Display for Bssid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}
