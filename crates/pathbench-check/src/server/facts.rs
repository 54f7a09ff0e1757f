//! Facts about a server and the paths to it, as probes measured them.

use super::counters::{Counters, JoinAttempt};
use super::hops::PathHops;
use pathbench_record::mptcp::remedy::PathManagerState;
use pathbench_record::network::AddressFamily;
use pathbench_record::resource::BufferLimits;
use pathbench_record::sample::PathState;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// A path carries data from this share of the bytes on.
const USED_SHARE: f64 = 0.01;

/// A server, and the results of the probes to it.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    /// As the user named it.
    pub server: String,
    pub kind: ServerKind,
    /// Why this host can open no MPTCP socket.
    pub no_mptcp: Option<String>,
    /// The path manager of this host, for remedies.
    pub path_manager: PathManagerState,
    /// The kernel's choice for new connections first.
    pub paths: Vec<PathProbe>,
    /// Interfaces with a default route of a family in which the server has no address, and without another path to it.
    pub other_family: Vec<(String, AddressFamily)>,
    /// Transfers over all paths, each with another initial path.
    pub transfers: Vec<Transfer>,
    /// The server answered over plain TCP, and refused a later connection over the same path.
    pub closes_listener: bool,
    /// The limits of this host's socket buffers; `None` if they could not be read.
    pub buffers: Option<BufferLimits>,
    /// The objects that were not examined, and why: a sentence each.
    pub left_out: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    Pathbench,
    /// A server with another protocol, of which TCP and MPTCP alone are examined.
    Other,
}

/// A path: a local address and an address of the server.
#[derive(Debug, Clone)]
pub struct PathProbe {
    pub name: String,
    pub interface: String,
    pub local: IpAddr,
    /// All addresses of the interface in the subnet of `local`, temporary ones included.
    pub addresses: Vec<IpAddr>,
    pub server: SocketAddr,
    /// Its MPTCP endpoint has the flag `backup`.
    pub backup: bool,
    /// One of its addresses is an MPTCP endpoint with `subflow` or `fullmesh`.
    pub has_endpoint: bool,
    /// A VPN or another tunnel.
    pub is_tunnel: bool,
    /// A transfer over plain TCP.
    pub tcp: Ending,
    /// As the transfers over plain TCP measured them.
    pub rates: Option<PathRates>,
    /// A transfer over an MPTCP connection that begins on this path.
    pub mptcp: Option<MptcpProbe>,
    pub udp: Vec<UdpProbe>,
    pub mtu: Option<MtuProbe>,
    /// Where MPTCP options are lost; absent where none is.
    pub hops: Option<PathHops>,
    /// The commands that make packets from its address leave by its interface.
    pub source_route: Vec<String>,
}

/// Figures of short transfers over plain TCP: the rates are those of slow start, so that the path may be faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathRates {
    pub min_rtt_ms: f64,
    /// As the sender's kernel estimated it (`tcpi_delivery_rate`).
    pub upload_bps: u64,
    pub download_bps: u64,
}

/// The end of a connection, of which every byte was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Complete,
    /// The server, or a router in its name, answered the SYN with RST.
    Reset(String),
    /// No answer to the SYN, or no route.
    NotConnected(String),
    /// The connection was open, and data stopped.
    Stalled(String),
    /// The received data differs from the sent data.
    Altered(String),
    Failed(String),
}

impl Ending {
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    pub const fn is_altered(&self) -> bool {
        matches!(self, Self::Altered(_))
    }

    pub fn message(&self) -> &str {
        match self {
            Self::Complete => "every byte was delivered",
            Self::Reset(message)
            | Self::NotConnected(message)
            | Self::Stalled(message)
            | Self::Altered(message)
            | Self::Failed(message) => message,
        }
    }
}

/// An MPTCP connection, as both ends saw it.
#[derive(Debug, Clone)]
pub struct MptcpProbe {
    pub ending: Ending,
    pub client: ClientEnd,
    /// Absent where the server reported nothing.
    pub server: Option<ServerEnd>,
    pub counters: Counters,
    pub subflows: Vec<Subflow>,
    /// Sockets to the server that the kernel destroyed meanwhile.
    pub attempts: Vec<JoinAttempt>,
    /// Plain TCP to the addresses of failed joins, over the path of each and while the connection was open.
    pub plain: Vec<PlainProbe>,
}

/// A connection over plain TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainProbe {
    pub local: IpAddr,
    pub remote: SocketAddr,
    pub ending: Ending,
}

/// The connection at the client (`TCP_IS_MPTCP`, `MPTCP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnd {
    /// The connection did not open.
    Unopened,
    Mptcp,
    /// Plain TCP when the connection was open.
    Tcp,
    /// MPTCP when the connection was open, plain TCP later.
    FellBack,
}

/// The accepted connection at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEnd {
    Mptcp,
    /// A listener without MPTCP.
    TcpListener,
    /// An MPTCP listener received a SYN without `MP_CAPABLE`.
    PlainSyn,
    FellBack,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subflow {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub state: PathState,
    /// Bytes that the server acknowledged and bytes received.
    pub bytes: u64,
    /// Bytes that the server acknowledged.
    pub sent_bytes: u64,
    /// The interface by which its packets leave, where known.
    pub interface: Option<String>,
}

/// Small datagrams to one UDP port of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct UdpProbe {
    pub port: u16,
    /// The round-trip time in ms, or the reason without an answer.
    pub answer: Result<f64, String>,
}

/// The path MTU in both directions, as probes found it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MtuProbe {
    pub interface_mtu_bytes: u32,
    pub upload: MtuDirection,
    pub download: MtuDirection,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MtuDirection {
    pub mtu_bytes: Option<u32>,
    /// Larger packets are dropped without an ICMP message.
    pub silent: bool,
    pub error: Option<String>,
}

/// A transfer over all paths.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Index of the initial path.
    pub initial: usize,
    pub probe: MptcpProbe,
}

impl Transfer {
    pub fn subflows(&self, path: &PathProbe) -> impl Iterator<Item = &Subflow> {
        self.probe.subflows.iter().filter(|subflow| path.has_address(subflow.local.ip()))
    }

    /// The bytes that this host sent; where it sent none, those that it received.
    fn bytes_of(&self, of: impl Fn(&Subflow) -> bool) -> u64 {
        let has_sent = self.probe.subflows.iter().any(|subflow| subflow.sent_bytes > 0);
        let bytes = |subflow: &Subflow| if has_sent { subflow.sent_bytes } else { subflow.bytes };
        let own = self.probe.subflows.iter().filter(|subflow| of(subflow));
        own.map(bytes).fold(0, u64::saturating_add)
    }
}

impl PathProbe {
    pub fn has_address(&self, address: IpAddr) -> bool {
        address == self.local || self.addresses.contains(&address)
    }
}

impl ServerFacts {
    /// The path of a subflow's packets: the one of the interface by which they leave, which their address does not determine.
    pub fn path_of(&self, subflow: &Subflow) -> Option<&PathProbe> {
        let local = subflow.local.ip();
        let of_address = self.paths.iter().find(|path| path.has_address(local));
        let Some(interface) = &subflow.interface else { return of_address };
        let by_interface = |path: &&PathProbe| path.interface == *interface;
        let of_family = |path: &&PathProbe| path.local.is_ipv4() == local.is_ipv4();
        let others = || self.paths.iter().filter(by_interface);
        of_address.filter(by_interface).or_else(|| others().find(of_family)).or_else(|| others().next())
    }

    /// The bytes on a path.
    pub fn bytes(&self, transfer: &Transfer, path: &PathProbe) -> u64 {
        transfer.bytes_of(|subflow| self.path_of(subflow).is_some_and(|of| of.name == path.name))
    }

    /// Whether the path carried at least 1 % of the bytes.
    pub fn is_used(&self, transfer: &Transfer, path: &PathProbe) -> bool {
        let bytes = self.bytes(transfer, path);
        bytes > 0 && bytes as f64 >= transfer.bytes_of(|_| true) as f64 * USED_SHARE
    }

    /// Interfaces without a path to an address of the server's name, over which subflows to announced addresses carried at
    /// least 1 % of the bytes, with their bytes.
    pub fn announced_paths<'a>(&'a self, transfer: &'a Transfer) -> BTreeMap<&'a str, u64> {
        let is_without_path = |subflow: &Subflow| self.path_of(subflow).is_none();
        let all = transfer.bytes_of(|_| true) as f64;
        let subflows = transfer.probe.subflows.iter().filter(|subflow| is_without_path(subflow));
        let names: BTreeSet<&str> = subflows.filter_map(|subflow| subflow.interface.as_deref()).collect();
        let bytes_by = |name: &str| {
            transfer
                .bytes_of(|subflow| is_without_path(subflow) && subflow.interface.as_deref() == Some(name))
        };
        let carried = names.into_iter().map(|name| (name, bytes_by(name)));
        carried.filter(|(_, bytes)| *bytes > 0 && *bytes as f64 >= all * USED_SHARE).collect()
    }

    /// The paths over which a transfer can be expected.
    pub fn usable(&self) -> impl Iterator<Item = (usize, &PathProbe)> {
        self.paths.iter().enumerate().filter(|(_, path)| path.tcp.is_complete())
    }
}
