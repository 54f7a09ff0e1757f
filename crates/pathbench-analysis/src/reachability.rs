//! The attempts that show how a server can be reached, and the address and port for each transport's test.

use pathbench_record::document::{Reachability, UnreachableBecause};
use pathbench_record::network::{AddressFamily, ServerName};
use pathbench_record::transport::Transport;
use std::net::{IpAddr, SocketAddr};

/// The time to the first answer in milliseconds, or the reason of the failure.
pub type Probed = Result<Option<f64>, (UnreachableBecause, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Try {
    pub transport: Transport,
    pub family: AddressFamily,
    /// `None` where the server has no address of the family.
    pub address: Option<IpAddr>,
    pub port: u16,
}

/// All attempts, single-path transports before the multipath one of the same protocol.
pub fn tries(
    server: &ServerName,
    addresses: &[IpAddr],
    families: &[AddressFamily],
    transports: &[Transport],
    quic_ports: &[u16],
) -> Vec<Try> {
    let mut tries = Vec::new();
    for &of in families {
        let address = addresses.iter().copied().find(|&at| AddressFamily::from_address(at) == of);
        for &transport in transports {
            let mut ports = vec![server.port];
            if transport.is_quic() {
                ports.extend(quic_ports.iter().filter(|port| **port != server.port));
            }
            tries.extend(ports.into_iter().map(|port| Try { transport, family: of, address, port }));
        }
    }
    tries
}

/// The single-path transport on the same port, if it got no answer at all.
pub fn silent_sibling(found: &[Reachability], tried: Try) -> Option<Transport> {
    let sibling = match tried.transport {
        Transport::Mptcp => Transport::Tcp,
        Transport::Mpquic => Transport::Quic,
        Transport::Tcp | Transport::Quic | Transport::Udp => return None,
    };
    let same = |one: &&Reachability| {
        (one.transport, one.family, one.port) == (sibling, tried.family, tried.port)
            && one.error_kind == Some(UnreachableBecause::Timeout)
    };
    found.iter().find(same).map(|one| one.transport)
}

pub fn record(server: &ServerName, tried: Try, result: Probed) -> Reachability {
    let reachable = result.is_ok();
    let (rtt_ms, error) = match result {
        Ok(rtt_ms) => (rtt_ms, None),
        Err(error) => (None, Some(error)),
    };
    let (error_kind, error) = error.unzip();
    Reachability {
        server: server.to_string(),
        transport: tried.transport,
        family: tried.family,
        port: tried.port,
        reachable,
        rtt_ms,
        error,
        error_kind,
    }
}

/// The address of each transport that works, preferably of the family in which most transports work (the resolver's
/// order decides between equal families), on the first port that answers.
pub fn choose(found: &[Reachability], addresses: &[IpAddr]) -> Vec<(Transport, SocketAddr)> {
    // In the resolver's order of preference.
    let mut families: Vec<AddressFamily> = Vec::new();
    for &address in addresses {
        if !families.contains(&AddressFamily::from_address(address)) {
            families.push(AddressFamily::from_address(address));
        }
    }
    let working = |of: AddressFamily| {
        Transport::ALL.iter().filter(|transport| found.iter().any(|one| works(one, **transport, of))).count()
    };
    // A stable sort keeps the resolver's order among equals.
    families.sort_by_key(|&of| std::cmp::Reverse(working(of)));
    let address_of = |transport: &Transport| {
        families.iter().find_map(|&of| {
            let one = found.iter().find(|one| works(one, *transport, of))?;
            let address = addresses.iter().copied().find(|&at| AddressFamily::from_address(at) == of)?;
            Some((*transport, SocketAddr::new(address, one.port)))
        })
    };
    Transport::ALL.iter().filter_map(address_of).collect()
}

fn works(one: &Reachability, transport: Transport, family: AddressFamily) -> bool {
    one.transport == transport && one.family == family && one.reachable
}
