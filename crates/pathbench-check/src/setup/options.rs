//! The options of a set-up.

use serde::Serialize;

/// The role of a host in MPTCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Opens connections, and opens subflows from its addresses.
    #[default]
    Client,
    /// Accepts connections, and announces its addresses (`ADD_ADDR`).
    Server,
}

#[derive(Debug, Clone, Default)]
pub struct SetupOptions {
    pub role: Role,
    /// Names of the interfaces to use; empty: all that lead out of this host.
    pub interfaces: Vec<String>,
    /// Names of interfaces that are backup paths, besides cellular and metered ones.
    pub backup: Vec<String>,
    /// Subflows from every endpoint to every address of the server.
    pub fullmesh: bool,
    /// Whether endpoints may bypass a VPN that takes new connections.
    pub bypass_vpn: bool,
    /// Whether a named interface may be absent or down: a watch waits for it.
    pub may_be_absent: bool,
}
