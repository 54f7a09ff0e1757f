//! Properties of interfaces that rtnetlink does not report: offloads and speed (generic netlink family `ethtool`, Linux
//! 5.6), and the kind of modem (sysfs). Requires no privilege.

use crate::netlink::message::{Attributes, Encoder};
use crate::netlink::{GENERIC_HEADER, GenericSocket, NetlinkError, NetworkInterface};
use pathbench_record::file;
use std::path::PathBuf;

/// `ETHTOOL_GENL_VERSION`
const VERSION: u8 = 1;
// linux/ethtool_netlink.h
const MSG_LINKMODES_GET: u8 = 4;
const MSG_FEATURES_GET: u8 = 11;
const ATTR_HEADER: u16 = 1;
const HEADER_DEV_INDEX: u16 = 1;
const LINKMODES_SPEED: u16 = 5;
const FEATURES_ACTIVE: u16 = 4;
const BITSET_BITS: u16 = 3;
const BITSET_BIT_NAME: u16 = 2;
const SPEED_UNKNOWN: u32 = u32::MAX;

/// The offloads of an interface (`netdev_features_strings`, net/ethtool/common.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceFeatures {
    pub gso: bool,
    pub tso: bool,
    pub gro: bool,
}

impl DeviceFeatures {
    /// Parses an answer to `ETHTOOL_MSG_FEATURES_GET`. The kernel lists the active features by name.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
        let bits = attributes.nested(FEATURES_ACTIVE)?.nested(BITSET_BITS)?;
        let names: Vec<String> =
            bits.iter().filter_map(|(_, bit)| Attributes::new(bit).text(BITSET_BIT_NAME)).collect();
        let is_active = |name: &str| names.iter().any(|active| active == name);
        Some(Self {
            gso: is_active("tx-generic-segmentation"),
            tso: is_active("tx-tcp-segmentation"),
            gro: is_active("rx-gro"),
        })
    }
}

/// Queries the interfaces of one network namespace.
#[derive(Debug)]
pub struct DeviceSocket {
    socket: GenericSocket,
}

impl DeviceSocket {
    /// For the calling thread's network namespace; `None` if this kernel lacks the family.
    pub fn open() -> Result<Option<Self>, NetlinkError> {
        let socket = GenericSocket::open("ethtool", VERSION, "find the kernel's interface settings")?;
        Ok(socket.map(|socket| Self { socket }))
    }

    pub fn features(&mut self, index: u32) -> Result<Option<DeviceFeatures>, NetlinkError> {
        self.get("read the offloads of an interface", MSG_FEATURES_GET, index, DeviceFeatures::parse)
    }

    /// The speed of the link, where the driver reports it.
    pub fn speed_bps(&mut self, index: u32) -> Result<Option<u64>, NetlinkError> {
        let parse = |payload: &[u8]| {
            let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
            let mbps = attributes.u32(LINKMODES_SPEED).filter(|speed| !matches!(*speed, 0 | SPEED_UNKNOWN));
            mbps.map(|mbps| u64::from(mbps) * 1_000_000)
        };
        self.get("read the speed of an interface", MSG_LINKMODES_GET, index, parse)
    }

    /// The answer; `None` if the driver has none, or the interface was removed in the meantime.
    fn get<T>(
        &mut self,
        request: &str,
        command: u8,
        index: u32,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        let header = Encoder::default().u32(HEADER_DEV_INDEX, index);
        let message = self.socket.message(command, Encoder::default().nested(ATTR_HEADER, header));
        match self.socket.channel.get(request, 0, &message, parse) {
            Err(error) if error.is_absent() || error.errno() == Some(rustix::io::Errno::OPNOTSUPP) => {
                Ok(None)
            }
            answer => answer,
        }
    }
}

/// The directory of `link` in sysfs; `None` if sysfs was mounted in another network namespace, whose interface of this
/// name is another one.
pub fn sysfs(link: &NetworkInterface) -> Option<PathBuf> {
    let directory = PathBuf::from("/sys/class/net").join(&link.name);
    let read = |file: &str| file::read_text(directory.join(file), file::SMALL_FILE_BYTES).unwrap_or_default();
    let mac = link.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")).unwrap_or_default();
    let same = read("ifindex").trim() == link.index.to_string() && read("address").trim() == mac;
    same.then_some(directory)
}

/// Whether `link` is a cellular modem: of the kernel's WWAN subsystem, or with `DEVTYPE=wwan`.
pub fn is_cellular(link: &NetworkInterface) -> bool {
    let by_kind = matches!(link.kind.as_deref(), Some("wwan" | "rmnet"));
    let uevent = sysfs(link)
        .and_then(|directory| file::read_text(directory.join("uevent"), file::SMALL_FILE_BYTES).ok());
    by_kind || uevent.is_some_and(|text| text.lines().any(|line| line == "DEVTYPE=wwan"))
}
