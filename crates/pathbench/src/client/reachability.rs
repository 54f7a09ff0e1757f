//! Which transport reaches the server: each × IPv4 and IPv6 × each port, one connection and one ping.

use super::server::{ServerName, family};
use super::{Client, Target, is_quic};
use crate::session::TRANSPORTS;
use pathbench_record::document::{AddressFamily, Reachability, UnreachableBecause};
use pathbench_record::pattern::{PatternParameters, PingParameters};
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientError;
use pathbench_transport::mptcp_available;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Try {
    pub(crate) transport: Transport,
    pub(crate) family: AddressFamily,
    /// `None` where the server has no address of the family.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
}

/// All attempts, single-path transports before the multipath one of the same protocol.
pub(crate) fn tries(
    server: &ServerName,
    addresses: &[IpAddr],
    families: &[AddressFamily],
    transports: &[Transport],
    quic_ports: &[u16],
) -> Vec<Try> {
    let mut tries = Vec::new();
    for &of in families {
        let address = addresses.iter().copied().find(|&at| family(at) == of);
        for &transport in transports {
            let mut ports = vec![server.port];
            if is_quic(transport) {
                ports.extend(quic_ports.iter().filter(|port| **port != server.port));
            }
            tries.extend(ports.into_iter().map(|port| Try { transport, family: of, address, port }));
        }
    }
    tries
}

/// Tries one after the other, until `stopped`; a multipath transport is skipped where the single-path one got no answer.
pub(crate) fn probe_all(
    client: &Client,
    server: &ServerName,
    tries: &[Try],
    stopped: &dyn Fn() -> bool,
    mut report: impl FnMut(&Reachability),
) -> Vec<Reachability> {
    let mut found: Vec<Reachability> = Vec::new();
    for &tried in tries {
        if stopped() {
            break;
        }
        let result = match silent_sibling(&found, tried) {
            Some(sibling) => Err((
                UnreachableBecause::Timeout,
                format!("not tried, because {sibling} got no answer there either"),
            )),
            None => probe_one(client, server, tried),
        };
        let reachability = record(server, tried, result);
        report(&reachability);
        found.push(reachability);
    }
    found
}

/// The single-path transport on the same port that got no answer at all.
fn silent_sibling(found: &[Reachability], tried: Try) -> Option<Transport> {
    let sibling = match tried.transport {
        Transport::Mptcp => Transport::Tcp,
        Transport::Mpquic => Transport::Quic,
        Transport::Tcp | Transport::Quic => return None,
    };
    let same = |one: &&Reachability| {
        (one.transport, one.family, one.port) == (sibling, tried.family, tried.port)
            && one.error_kind == Some(UnreachableBecause::Timeout)
    };
    found.iter().find(same).map(|one| one.transport)
}

type Probed = Result<Answer, (UnreachableBecause, String)>;

fn probe_one(client: &Client, server: &ServerName, tried: Try) -> Probed {
    let Some(address) = tried.address else {
        let message = format!("{server} has no {} address", tried.family.name());
        return Err((UnreachableBecause::NoRoute, message));
    };
    if tried.transport == Transport::Mptcp
        && let Err(unavailable) = mptcp_available()
    {
        return Err((UnreachableBecause::Other, unavailable.to_string()));
    }
    let address = SocketAddr::new(address, tried.port);
    let paths = client.paths_to(address).map_err(|why| (UnreachableBecause::NoRoute, why))?;
    let target = Target { address, host: server.host.clone(), paths };
    ping(client, tried.transport, &target, 1, 0)
        .map_err(|error: ClientError| (class_of(&error), error.to_string()))
}

fn record(server: &ServerName, tried: Try, result: Probed) -> Reachability {
    let (answer, error) = match result {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error)),
    };
    let (error_kind, error) = error.unzip();
    Reachability {
        server: server.to_string(),
        transport: tried.transport,
        family: tried.family,
        port: tried.port,
        reachable: answer.is_some(),
        rtt_ms: answer.as_ref().and_then(Answer::first_ms),
        error,
        error_kind,
    }
}

/// The address of each transport that works: all on the family on which most work, IPv6 only where IPv4 is not
/// better (as the resolver prefers), on the first port that answers.
pub(crate) fn choose(found: &[Reachability], addresses: &[IpAddr]) -> Vec<(Transport, SocketAddr)> {
    // In the resolver's order of preference.
    let mut families: Vec<AddressFamily> = Vec::new();
    for &address in addresses {
        if !families.contains(&family(address)) {
            families.push(family(address));
        }
    }
    let working = |of: AddressFamily| {
        TRANSPORTS.iter().filter(|transport| found.iter().any(|one| works(one, **transport, of))).count()
    };
    // A stable sort keeps the resolver's order among equals.
    families.sort_by_key(|&of| std::cmp::Reverse(working(of)));
    let place = |transport: &Transport| {
        families.iter().find_map(|&of| {
            let one = found.iter().find(|one| works(one, *transport, of))?;
            let address = addresses.iter().copied().find(|&at| family(at) == of)?;
            Some((*transport, SocketAddr::new(address, one.port)))
        })
    };
    TRANSPORTS.iter().filter_map(place).collect()
}

fn works(one: &Reachability, transport: Transport, family: AddressFamily) -> bool {
    one.transport == transport && one.family == family && one.reachable
}

const TIMEOUT: Duration = Duration::from_secs(3);
/// Between two requests.
const INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) rtts: Vec<Duration>,
    pub(crate) lost: u32,
    pub(crate) handshake: Option<Duration>,
}

impl Answer {
    pub(crate) fn median_ms(&self) -> Option<f64> {
        let rtts_ms: Vec<f64> = self.rtts.iter().map(|rtt| rtt.as_secs_f64() * 1e3).collect();
        median(&rtts_ms)
    }

    /// From opening the connection to the first answer on it, in milliseconds.
    pub(crate) fn first_ms(&self) -> Option<f64> {
        let time = self.handshake.unwrap_or_default() + *self.rtts.first()?;
        Some(time.as_secs_f64() * 1e3)
    }
}

/// Sends `count` requests, after `warm_up` that do not count.
pub(crate) fn ping(
    client: &Client,
    transport: Transport,
    target: &Target,
    count: u32,
    warm_up: u32,
) -> Result<Answer, ClientError> {
    let ping =
        PingParameters { count, warm_up, interval: INTERVAL, timeout: TIMEOUT, ..PingParameters::default() };
    let outcome = client.run_short(transport, target, PatternParameters::Ping(ping), TIMEOUT);
    let answered: Vec<Option<Duration>> =
        outcome.client.messages.iter().map(pathbench_record::end::MessageRecord::round_trip).collect();
    let rtts: Vec<Duration> = answered.iter().flatten().copied().collect();
    match outcome.error {
        Some(error) if rtts.is_empty() => Err(error),
        _ if rtts.is_empty() => Err(ClientError::Unreachable {
            because: UnreachableBecause::Timeout,
            message: format!("{} opened the connection but answered nothing", target.address),
        }),
        _ => Ok(Answer {
            lost: (answered.len() - rtts.len()) as u32,
            rtts,
            handshake: outcome.client.handshake,
        }),
    }
}

pub(crate) const fn class_of(error: &ClientError) -> UnreachableBecause {
    match error {
        ClientError::Unreachable { because, .. } => *because,
        _ => UnreachableBecause::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [AddressFamily; 2] = [AddressFamily::Ipv4, AddressFamily::Ipv6];

    fn server() -> ServerName {
        ServerName::parse("example.net", 443).unwrap()
    }

    fn addresses() -> Vec<IpAddr> {
        ["2001:db8::7", "192.0.2.7"].iter().map(|text| text.parse().unwrap()).collect()
    }

    fn found(works: impl Fn(&Try) -> bool) -> Vec<Reachability> {
        let tries = tries(&server(), &addresses(), &BOTH, &TRANSPORTS, &[6121, 443]);
        let answer = Answer { rtts: vec![Duration::from_millis(3)], lost: 0, handshake: None };
        tries
            .into_iter()
            .map(|tried| {
                let result = if works(&tried) {
                    Ok(answer.clone())
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
        // IPv6 lets no UDP through; IPv4 lets QUIC through on its second port only.
        let works = |tried: &Try| match tried.family {
            AddressFamily::Ipv6 => !is_quic(tried.transport),
            AddressFamily::Ipv4 => !is_quic(tried.transport) || tried.port == 6121,
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
}
