//! Endpoints and limits of the kernel's MPTCP path manager.

pub mod command;
pub mod remedy;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// The kernel's maximum of endpoints, and the largest limits that it accepts (`MPTCP_PM_ADDR_MAX`, net/mptcp/protocol.h).
pub const MOST_ENDPOINTS: usize = 8;

/// A local address from which the path manager opens subflows, or which it announces to peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MptcpEndpoint {
    pub address: IpAddr,
    /// Port to listen on and announce, if different from the connection's port; only with `signal`.
    pub port: Option<u16>,
    /// 1 to 255; `None`: assigned by the kernel.
    pub id: Option<u8>,
    /// Index of the interface to which its subflows are bound.
    pub interface: Option<u32>,
    pub flags: EndpointFlags,
}

/// `MPTCP_PM_ADDR_FLAG_*` of linux/mptcp.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct EndpointFlags {
    /// Announced to peers by `ADD_ADDR`.
    pub signal: bool,
    pub subflow: bool,
    /// Its subflows carry data only when no other subflow works.
    pub backup: bool,
    /// Opens a subflow to every address of the peer, not just one; only with `subflow`.
    pub fullmesh: bool,
    /// Created by the kernel for a subflow's local address; read-only.
    pub implicit: bool,
    /// Subflows to announced addresses use it (Linux 6.18).
    pub laminar: bool,
}

impl EndpointFlags {
    fn flag_names(self) -> [(&'static str, bool); 6] {
        [
            ("signal", self.signal),
            ("subflow", self.subflow),
            ("backup", self.backup),
            ("fullmesh", self.fullmesh),
            ("implicit", self.implicit),
            ("laminar", self.laminar),
        ]
    }

    pub fn bits(self) -> u32 {
        self.flag_names().iter().enumerate().map(|(bit, (_, set))| u32::from(*set) << bit).sum()
    }

    pub const fn from_bits(bits: u32) -> Self {
        Self {
            signal: bits & 1 != 0,
            subflow: bits & 2 != 0,
            backup: bits & 4 != 0,
            fullmesh: bits & 8 != 0,
            implicit: bits & 16 != 0,
            laminar: bits & 32 != 0,
        }
    }
}

impl fmt::Display for EndpointFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.flag_names().into_iter().filter_map(|(name, set)| set.then_some(name));
        f.write_str(&set.collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for MptcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(port) = self.port {
            write!(f, " port {port}")?;
        }
        if let Some(id) = self.id {
            write!(f, " id {id}")?;
        }
        if let Some(interface) = self.interface {
            write!(f, " on interface {interface}")?;
        }
        write!(f, " ({})", self.flags)
    }
}

/// Limits of each connection beyond its first subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct MptcpLimits {
    /// Further subflows, 0 to 8.
    pub subflows: u32,
    /// Addresses announced by the peer to which subflows are opened, 0 to 8.
    pub add_addr_accepted: u32,
}
