//! A server's own faults, at the server: addresses that it announces (`signal`) and clients do not reach, and its limits.

use crate::address::is_private;
use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_host::mptcp::MptcpEndpoint;
use pathbench_record::mptcp::command::delete_endpoint;
use std::net::{IpAddr, SocketAddr};

/// The MPTCP sockets of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServingSockets {
    /// Addresses and ports of listening MPTCP sockets.
    pub listeners: Vec<SocketAddr>,
    /// Local and remote address of the connections that they accepted.
    pub accepted: Vec<[SocketAddr; 2]>,
}

/// The findings of a host on which programs listen with MPTCP; none for other hosts.
pub fn findings(host: &HostFacts, sockets: &ServingSockets) -> Vec<Finding> {
    let reachable = |at: &&SocketAddr| !at.ip().is_loopback();
    let listeners: Vec<SocketAddr> = sockets.listeners.iter().filter(reachable).copied().collect();
    if listeners.is_empty() {
        return Vec::new();
    }
    let endpoints = host.endpoints.as_deref().unwrap_or_default();
    let is_own =
        |endpoint: &&MptcpEndpoint| endpoint.flags.signal && host.assigned(endpoint.address).is_some();
    let announced = endpoints.iter().filter(is_own);
    let mut found: Vec<Finding> =
        announced.filter_map(|endpoint| examine(host, sockets, &listeners, endpoint)).collect();
    found.extend(limits(host));
    found
}

fn examine(
    host: &HostFacts,
    sockets: &ServingSockets,
    listeners: &[SocketAddr],
    endpoint: &MptcpEndpoint,
) -> Option<Finding> {
    let address = endpoint.address;
    let delete = delete_endpoint(endpoint);
    // The kernel itself listens on the port of an endpoint.
    if endpoint.port.is_none() && !listeners.iter().any(|listener| covers(*listener, address)) {
        let known = listeners.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Some(
            Finding::problem(
                FindingId::AnnouncedAddress,
                format!("this host announces {address}, on which no MPTCP socket listens (there are {known})"),
                "A join to an announced address goes to the port of the connection: the kernel answers it with RST.",
            )
            .with_subject(address.to_string())
            .with_step(format!("let the program listen on {address} as well, or on all addresses"))
            .with_step(delete),
        );
    }
    if !is_private(address) {
        return None;
    }
    if let Some([local, remote]) = sockets.accepted.iter().find(|ends| is_translated(ends)) {
        let (local, remote) = (local.ip(), remote.ip());
        return Some(
            Finding::problem(
                FindingId::AnnouncedAddress,
                format!(
                    "this host announces {address}, a private address, and is behind NAT: {local} has accepted a connection from \
                     {remote}"
                ),
                "Clients beyond the NAT do not reach the address: their joins to it are lost, and paths stay unused.",
            )
            .with_subject(address.to_string())
            .with_step(delete),
        );
    }
    let public = host.network.addresses.iter().map(|one| one.network.addr());
    let public = public.into_iter().find(|at| {
        at.is_ipv4() == address.is_ipv4() && !is_private(*at) && !at.is_unspecified() && !at.is_multicast()
    })?;
    Some(
        Finding::advice(
            FindingId::AnnouncedAddress,
            format!("this host announces {address}, a private address, and has {public}, a public one"),
            "Clients in other networks do not reach the private address: their joins to it are lost.",
        )
        .with_subject(address.to_string())
        .with_step(delete),
    )
}

/// A public client of a private address: a NAT in between translates the address.
fn is_translated([local, remote]: &[SocketAddr; 2]) -> bool {
    is_private(local.ip()) && !is_private(remote.ip())
}

/// A socket that listens on `::` accepts IPv4, too, unless its program forbids that.
fn covers(listener: SocketAddr, address: IpAddr) -> bool {
    match listener.ip() {
        at if at.is_unspecified() => at.is_ipv6() || address.is_ipv4(),
        at => at == address,
    }
}

fn limits(host: &HostFacts) -> Option<Finding> {
    host.limits.as_ref().ok().filter(|limits| limits.subflows == 0)?;
    Some(
        Finding::problem(
            FindingId::ServerLimits,
            "this host's limit of subflows is 0: it rejects every join of its clients (MPJoinRejected)",
            "Connections that programs of this host accept have their initial subflow only.",
        )
        // One command for one limit: a second one could lower what the first has raised.
        .with_step("The command of mptcp-limits raises it."),
    )
}
