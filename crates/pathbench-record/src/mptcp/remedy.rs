//! Remedies of the path manager's configuration, computed against the limits and endpoints in force: a command neither
//! lowers a limit nor removes a flag.

use super::command::{add_endpoint, change_endpoint, delete_endpoint, set_limits};
use super::{EndpointFlags, MOST_ENDPOINTS, MptcpEndpoint, MptcpLimits};
use std::net::IpAddr;

/// `endpoint add` for an address of another host, which is known there.
pub const ANNOUNCE: &str = "ip mptcp endpoint add ADDRESS dev INTERFACE signal";

/// Why no command makes an address an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEndpoint {
    #[error("the address is valid on this host or link only, and no subflow can start from it")]
    Unsuitable,
    #[error(
        "the kernel keeps at most {MOST_ENDPOINTS} endpoints: delete one that has no use (ip mptcp endpoint show)"
    )]
    Full,
    #[error(
        "its endpoint has the flag `laminar`, which the installed ip(8) cannot restore: update iproute2, then delete the \
         endpoint and add it with `subflow`"
    )]
    Laminar,
}

/// Whether subflows can start from `address`: it is valid beyond this host and its links.
pub fn is_suitable(address: IpAddr) -> bool {
    let is_of_link = match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let address = address.to_canonical();
    !(is_of_link || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

impl MptcpLimits {
    /// The largest limits that the kernel accepts.
    pub const MOST: Self = Self { subflows: MOST_ENDPOINTS as u32, add_addr_accepted: MOST_ENDPOINTS as u32 };

    /// The limits that suffice for these and for `needed`.
    #[must_use]
    pub fn raised_to(self, needed: Self) -> Self {
        let raised = |in_force: u32, needed: u32, most: u32| in_force.max(needed.min(most));
        Self {
            subflows: raised(self.subflows, needed.subflows, Self::MOST.subflows),
            add_addr_accepted: raised(
                self.add_addr_accepted,
                needed.add_addr_accepted,
                Self::MOST.add_addr_accepted,
            ),
        }
    }

    /// The command that raises these limits, which are in force, to those needed; `None` if they suffice.
    pub fn remedy(self, needed: Self) -> Option<String> {
        let raised = self.raised_to(needed);
        (raised != self).then(|| set_limits(raised))
    }
}

/// The endpoint of a path: an address of this host, the interface that has it, and the flags that it needs.
#[derive(Debug, Clone, Copy)]
pub struct NeededEndpoint<'a> {
    pub address: IpAddr,
    pub device: &'a str,
    pub flags: EndpointFlags,
}

/// The path manager's configuration in force, and the language of the commands that change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathManagerState {
    /// Unknown where they could not be read.
    pub limits: Option<MptcpLimits>,
    pub endpoints: Vec<MptcpEndpoint>,
    /// Whether the installed `ip` knows the flag `laminar`.
    pub ip_knows_laminar: bool,
}

impl PathManagerState {
    /// The endpoint of this address that announces no port of its own.
    pub fn find(&self, address: IpAddr) -> Option<&MptcpEndpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.address == address && endpoint.port.is_none())
    }

    /// The command that raises the limits to those needed; `None` if they suffice or are unknown.
    pub fn limits_remedy(&self, needed: MptcpLimits) -> Option<String> {
        self.limits.and_then(|limits| limits.remedy(needed))
    }

    /// Adds the effect of [`Self::endpoint_remedy`], for the remedies that follow it.
    pub fn assume(&mut self, needed: &NeededEndpoint<'_>) {
        let at = |endpoint: &MptcpEndpoint| endpoint.address == needed.address && endpoint.port.is_none();
        match self.endpoints.iter_mut().find(|endpoint| at(endpoint)) {
            Some(there) => there.flags = there.flags.union(needed.flags),
            None => self.endpoints.push(MptcpEndpoint {
                address: needed.address,
                port: None,
                id: None,
                interface: None,
                flags: needed.flags,
            }),
        }
    }

    /// The commands that bind an endpoint to another interface.
    pub fn binding_remedy(&self, endpoint: &MptcpEndpoint, device: &str) -> Result<Vec<String>, NoEndpoint> {
        if endpoint.flags.laminar && !self.ip_knows_laminar {
            return Err(NoEndpoint::Laminar);
        }
        Ok(vec![delete_endpoint(endpoint), add_endpoint(endpoint, Some(device))])
    }

    /// The commands after which the endpoint of an address has the needed flags beside its own; none if it has them.
    pub fn endpoint_remedy(&self, needed: &NeededEndpoint<'_>) -> Result<Vec<String>, NoEndpoint> {
        if !is_suitable(needed.address) {
            return Err(NoEndpoint::Unsuitable);
        }
        let add = |id, flags| {
            let endpoint = MptcpEndpoint { address: needed.address, port: None, id, interface: None, flags };
            add_endpoint(&endpoint, Some(needed.device))
        };
        let Some(there) = self.find(needed.address) else {
            let is_full = self.endpoints.len() >= MOST_ENDPOINTS;
            return if is_full { Err(NoEndpoint::Full) } else { Ok(vec![add(None, needed.flags)]) };
        };
        // The kernel replaces an implicit endpoint if the request has no id.
        if there.flags.implicit {
            return Ok(vec![delete_endpoint(there), add(None, needed.flags)]);
        }
        let flags = there.flags.union(needed.flags);
        let changed = EndpointFlags { backup: flags.backup, fullmesh: flags.fullmesh, ..there.flags };
        if flags == there.flags {
            return Ok(Vec::new());
        }
        if flags == changed {
            return Ok(vec![change_endpoint(there, there.flags, flags)]);
        }
        if flags.laminar && !self.ip_knows_laminar {
            return Err(NoEndpoint::Laminar);
        }
        Ok(vec![delete_endpoint(there), add(there.id, flags)])
    }
}

impl EndpointFlags {
    /// The flags of an endpoint from which connections open subflows.
    pub const SUBFLOW: Self = Self {
        signal: false,
        subflow: true,
        backup: false,
        fullmesh: false,
        implicit: false,
        laminar: false,
    };

    /// Whether connections open subflows from the endpoint.
    pub const fn opens_subflows(self) -> bool {
        self.subflow || self.fullmesh
    }

    /// The flags of both; the kernel refuses `fullmesh` beside `signal`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        let signal = self.signal || other.signal;
        Self {
            signal,
            subflow: self.subflow || other.subflow,
            backup: self.backup || other.backup,
            fullmesh: (self.fullmesh || other.fullmesh) && !signal,
            implicit: self.implicit || other.implicit,
            laminar: self.laminar || other.laminar,
        }
    }
}
