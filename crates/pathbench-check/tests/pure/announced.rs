//! A server's own faults: each row changes a server without a fault.

use crate::host::facts::{ETH0, ETH0_ADDRESS, WLAN0_ADDRESS, address, healthy, ip};
use pathbench_check::facts::HostFacts;
use pathbench_check::finding::{FindingId, Level};
use pathbench_check::server::announced::{ServingSockets, findings};
use pathbench_host::mptcp::MptcpLimits;
use std::net::SocketAddr;

fn sockets(listeners: &[&str]) -> ServingSockets {
    let listeners = listeners.iter().map(|at| at.parse().unwrap()).collect();
    ServingSockets { listeners, accepted: Vec::new() }
}

/// A server that listens on all addresses, and announces the address of `wlan0`.
fn announcing() -> (HostFacts, ServingSockets) {
    let mut host = healthy();
    for endpoint in host.endpoints.as_mut().unwrap() {
        endpoint.flags.signal = endpoint.address == ip(WLAN0_ADDRESS);
    }
    (host, sockets(&["0.0.0.0:443"]))
}

fn accepted(local: &str, remote: &str) -> Vec<[SocketAddr; 2]> {
    let at = |address| SocketAddr::new(ip(address), 443);
    vec![[at(local), at(remote)]]
}

#[test]
fn each_fault_of_a_server_has_its_finding() {
    type Change = fn(&mut HostFacts, &mut ServingSockets);
    type Expected = Option<(FindingId, Level, &'static str)>;
    let announced = FindingId::AnnouncedAddress;
    let problem = Level::Problem;
    let rows: [(&str, Change, Expected); 10] = [
        ("a private network", |_, _| {}, None),
        ("all addresses by IPv6", |_, sockets| sockets.listeners = vec!["[::]:443".parse().unwrap()], None),
        (
            "no listener on the announced address",
            |_, sockets| sockets.listeners = vec![SocketAddr::new(ip(ETH0_ADDRESS), 443)],
            Some((announced, problem, "no MPTCP socket listens")),
        ),
        (
            "IPv6 alone",
            |_, sockets| sockets.listeners = vec!["[2001:db8::1]:443".parse().unwrap()],
            Some((announced, problem, "no MPTCP socket listens")),
        ),
        (
            "a port of its own, on which the kernel listens",
            |host, sockets| {
                host.endpoints.as_mut().unwrap().iter_mut().for_each(|endpoint| endpoint.port = Some(8443));
                sockets.listeners = vec![SocketAddr::new(ip(ETH0_ADDRESS), 443)];
            },
            None,
        ),
        (
            "behind NAT",
            |_, sockets| sockets.accepted = accepted(ETH0_ADDRESS, "203.0.113.9"),
            Some((announced, problem, "is behind NAT")),
        ),
        (
            "clients of the private network",
            |_, sockets| sockets.accepted = accepted(ETH0_ADDRESS, "10.9.9.9"),
            None,
        ),
        (
            "a public address beside it",
            |host, _| host.network.addresses.push(address(ETH0, "198.51.100.7/24")),
            Some((announced, Level::Advice, "and has 198.51.100.7, a public one")),
        ),
        (
            "limits 0",
            |host, _| host.limits = Ok(MptcpLimits { subflows: 0, add_addr_accepted: 4 }),
            Some((FindingId::ServerLimits, problem, "rejects every join")),
        ),
        (
            "no server",
            |host, sockets| {
                host.limits = Ok(MptcpLimits { subflows: 0, add_addr_accepted: 4 });
                sockets.listeners = vec!["127.0.0.1:443".parse().unwrap()];
            },
            None,
        ),
    ];
    for (row, change, expected) in rows {
        let (mut host, mut sockets) = announcing();
        change(&mut host, &mut sockets);
        let found = findings(&host, &sockets);
        let Some((id, level, words)) = expected else {
            assert!(found.is_empty(), "{row}: {found:?}");
            continue;
        };
        assert_eq!((found.len(), found[0].id, found[0].level), (1, id, level), "{row}: {found:?}");
        assert!(found[0].found.contains(words), "{row}: {found:?}");
        assert!(!found[0].remedy.is_empty(), "{row}");
    }
    // The remedy of the limit keeps the other one.
    let (mut host, sockets) = announcing();
    host.limits = Ok(MptcpLimits { subflows: 0, add_addr_accepted: 4 });
    assert_eq!(findings(&host, &sockets)[0].remedy, ["The command of mptcp-limits raises it."]);
}
