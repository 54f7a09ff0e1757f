//! What a kernel reports of its MPTCP connections, interfaces and Wi-Fi associations.

use crate::event::EventKind;
use crate::network::IpNetwork;
use std::fmt;
use std::net::SocketAddr;

/// What happened (`enum mptcp_event_type` of `linux/mptcp_pm.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MptcpEventKind {
    /// A connection is being set up.
    Created,
    /// A connection is set up; further subflows can follow.
    Established,
    Closed,
    Announced,
    /// The peer withdrew an address.
    Removed,
    /// A further subflow is set up.
    SubEstablished,
    SubClosed,
    /// A subflow became a backup or stopped being one.
    SubPriority,
    /// The kernel listens on an endpoint's own port.
    ListenerCreated,
    /// The kernel stopped doing so.
    ListenerClosed,
    /// Something that kernels began to tell later.
    Other(u8),
    /// Not from the kernel: events were lost because they came faster than they were read.
    Overrun,
}

impl MptcpEventKind {
    /// The kernel's name of it, as `ip mptcp monitor` prints it: `SUB_ESTABLISHED`.
    pub fn event_kind(self) -> EventKind {
        match self {
            Self::Created => EventKind::Created,
            Self::Established => EventKind::Established,
            Self::Closed => EventKind::Closed,
            Self::Announced => EventKind::Announced,
            Self::Removed => EventKind::Removed,
            Self::SubEstablished => EventKind::SubEstablished,
            Self::SubClosed => EventKind::SubClosed,
            Self::SubPriority => EventKind::SubPriority,
            Self::ListenerCreated => EventKind::ListenerCreated,
            Self::ListenerClosed => EventKind::ListenerClosed,
            Self::Other(number) => EventKind::Other(format!("EVENT_{number}")),
            Self::Overrun => EventKind::Overrun,
        }
    }
}

/// Something that happened to an MPTCP connection. Which fields are there depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MptcpEvent {
    pub kind: MptcpEventKind,
    /// This host's number of the connection (`mptcpi_token`).
    pub token: Option<u32>,
    /// Local address and port (0 where the event has none) of the subflow; of a connection: of its first.
    pub local: Option<SocketAddr>,
    /// Remote address and port (0 where the event has none).
    pub remote: Option<SocketAddr>,
    /// Address id on this side; 0 is the first subflow's.
    pub local_id: Option<u8>,
    /// Address id on the peer's side.
    pub remote_id: Option<u8>,
    pub backup: Option<bool>,
    /// Error number with which the subflow ended; `None` or 0 when it ended in order.
    pub error: Option<u8>,
    /// Reason in the `MP_TCPRST` option that was sent or received (RFC 8684, 3.6).
    pub reset_reason: Option<u32>,
    pub reset_flags: Option<u32>,
    /// Index of the interface that the subflow is bound to; `None` when to none.
    pub interface_index: Option<u32>,
    pub server_side: Option<bool>,
}

impl MptcpEvent {
    pub const fn of_kind(kind: MptcpEventKind) -> Self {
        Self {
            kind,
            token: None,
            local: None,
            remote: None,
            local_id: None,
            remote_id: None,
            backup: None,
            error: None,
            reset_reason: None,
            reset_flags: None,
            interface_index: None,
            server_side: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkEvent {
    /// The interface's index; 0 for [`LinkChange::Overrun`].
    pub index: u32,
    /// The interface's name; `None` when it was never seen.
    pub name: Option<String>,
    pub change: LinkChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkChange {
    /// It came into being, or into this namespace.
    Appeared,
    /// It is gone, or in another namespace.
    Disappeared,
    Up,
    Down,
    CarrierUp,
    CarrierDown,
    /// Its MTU is this many bytes now.
    Mtu(u32),
    AddressAdded(IpNetwork),
    AddressRemoved(IpNetwork),
    /// Not from the kernel: changes were lost because they came faster than they were read.
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

/// The access point that an interface is associated with. What the driver does not tell is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WifiNetwork {
    /// The network's name, as text: bytes that are none are replaced.
    pub ssid: Option<String>,
    /// The access point's address.
    pub bssid: Option<Bssid>,
    /// Centre frequency of the primary channel.
    pub frequency_mhz: Option<u32>,
    /// Strength at which the access point is received: a smoothed one where the driver has it.
    pub signal_dbm: Option<i8>,
    /// Bit rate of the last frame sent, before the overhead of the medium.
    pub tx_bps: Option<u64>,
    /// Bit rate of the last frame received.
    pub rx_bps: Option<u64>,
}

/// An access point's MAC address.
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
