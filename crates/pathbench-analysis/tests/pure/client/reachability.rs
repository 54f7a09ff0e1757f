//! Which transport reaches a server, and where.

use pathbench_analysis::reachability::{Try, choose, record, silent_sibling, tries};
use pathbench_record::document::{Reachability, UnreachableBecause};
use pathbench_record::network::{AddressFamily, ServerName};
use pathbench_record::transport::Transport;
use std::net::IpAddr;

const BOTH: [AddressFamily; 2] = [AddressFamily::Ipv4, AddressFamily::Ipv6];

fn server() -> ServerName {
    ServerName::parse("example.net", 443).unwrap()
}

fn addresses() -> Vec<IpAddr> {
    ["2001:db8::7", "192.0.2.7"].iter().map(|text| text.parse().unwrap()).collect()
}

fn found(works: impl Fn(&Try) -> bool) -> Vec<Reachability> {
    let tries = tries(&server(), &addresses(), &BOTH, &Transport::ALL, &[6121, 443]);
    tries
        .into_iter()
        .map(|tried| {
            let result = if works(&tried) {
                Ok(Some(3.0))
            } else {
                Err((UnreachableBecause::Timeout, "no answer".to_owned()))
            };
            record(&server(), tried, result)
        })
        .collect()
}

#[test]
fn every_transport_is_tried_on_every_family_and_quic_on_every_port() {
    let found = found(|_| true);
    assert_eq!(found.len(), 2 * (2 + 2 * 2));
    assert!(found.iter().all(|one| one.reachable && one.rtt_ms == Some(3.0)));
}

#[test]
fn the_resolvers_first_family_is_taken_when_both_serve_alike() {
    let places = choose(&found(|_| true), &addresses());
    assert_eq!(places.len(), 4);
    assert!(places.iter().all(|(_, at)| at.is_ipv6() && at.port() == 443));
}

#[test]
fn transports_are_compared_on_one_family_as_far_as_that_goes() {
    // IPv6 drops UDP; IPv4 passes QUIC on its second port only.
    let works = |tried: &Try| match tried.family {
        AddressFamily::Ipv6 => !tried.transport.is_quic(),
        AddressFamily::Ipv4 => !tried.transport.is_quic() || tried.port == 6121,
    };
    let places = choose(&found(works), &addresses());
    assert!(places.iter().all(|(_, at)| at.is_ipv4()), "{places:?}");
    let ports: Vec<u16> = places.iter().map(|(_, at)| at.port()).collect();
    assert_eq!(ports, [443, 443, 6121, 6121]);
}

#[test]
fn a_multipath_transport_is_not_tried_where_its_sibling_timed_out() {
    let found = found(|tried| tried.transport == Transport::Tcp);
    let tried = |transport| Try { transport, family: AddressFamily::Ipv4, address: None, port: 443 };
    assert_eq!(silent_sibling(&found, tried(Transport::Mpquic)), Some(Transport::Quic));
    assert_eq!(silent_sibling(&found, tried(Transport::Mptcp)), None);
    assert_eq!(silent_sibling(&found, tried(Transport::Quic)), None);
}
