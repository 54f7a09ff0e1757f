//! From the servers that were named to the transports that reach the nearest of them, and where.

use super::paths::HostNetwork;
use super::reachability::{self, Answer};
use super::server::{ServerName, family};
use super::{AccessArgs, Client, Target, is_quic};
use crate::exit::{Exit, Failure};
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::document::{AddressFamily, Reachability, ServerRecord, UnreachableBecause};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientError;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// What may be used on the way to a server.
#[derive(Clone, Copy)]
pub(crate) struct Approach<'a> {
    pub(crate) client: &'a Client,
    pub(crate) access: &'a AccessArgs,
    /// Those to try.
    pub(crate) transports: &'a [Transport],
    /// Whether the user named them.
    pub(crate) named: bool,
    /// Interfaces asked for; all when empty.
    pub(crate) interfaces: &'a [String],
    /// The family asked for; both when absent.
    pub(crate) family: Option<AddressFamily>,
    pub(crate) stop: &'a AtomicBool,
}

/// A server that was reached.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) server: ServerName,
    /// All that were asked.
    pub(crate) servers: Vec<ServerRecord>,
    pub(crate) reachability: Vec<Reachability>,
    /// Where each transport that works is run.
    pub(crate) places: BTreeMap<Transport, SocketAddr>,
    /// The transports that do not work, with the reason.
    pub(crate) left_out: Vec<String>,
}

impl Approach<'_> {
    /// Asks all servers, and tries every transport on the nearest; `tell` gets a line of each answer.
    pub(crate) fn find(&self, servers: Vec<ServerName>, tell: &dyn Fn(&str)) -> Result<Reached, Failure> {
        let mut asked = self.ask(servers)?;
        let chosen = self.choose(&asked, tell)?;
        let servers = records(&asked, Some(chosen));
        let asked = asked.swap_remove(chosen);
        self.require_paths(&asked)?;
        let reachability = self.reach(&asked, tell);
        let places: BTreeMap<_, _> =
            reachability::choose(&reachability, &asked.addresses).into_iter().collect();
        self.go_on()?;
        if places.is_empty() {
            return Err(nothing_works(&asked.server, &reachability));
        }
        let left_out = self.left_out(&places, &reachability);
        Ok(Reached { server: asked.server, servers, reachability, places, left_out })
    }

    /// The ways to `address` now.
    pub(crate) fn ways(&self, address: SocketAddr) -> Result<Vec<ClientPath>, String> {
        let network = HostNetwork::read().map_err(|error| error.to_string())?;
        network.ways_over(self.interfaces, address)
    }

    fn ask(&self, servers: Vec<ServerName>) -> Result<Vec<Asked>, Failure> {
        let search = Search {
            family: self.family,
            quic_ports: &self.access.quic_ports,
            transports: if self.named { self.transports } else { &[] },
        };
        let mut asked = Vec::new();
        for server in servers {
            asked.push(ask(self.client, server, &search));
            self.go_on()?;
        }
        Ok(asked)
    }

    /// The index of the nearest.
    fn choose(&self, asked: &[Asked], tell: &dyn Fn(&str)) -> Result<usize, Failure> {
        let nearest = nearest(asked);
        let mut lines = lines(asked, nearest);
        let Some(nearest) = nearest else {
            // A server that was reached and said no is the better news, and what this host lacks the worse.
            let exits = || asked.iter().filter_map(|asked| asked.outcome.as_ref().err().map(|no| no.exit));
            let exit =
                [Exit::Refused, Exit::Unreachable].into_iter().find(|exit| exits().any(|one| one == *exit));
            let exit = exit.unwrap_or(Exit::HostCannot);
            if self.access.tls {
                lines.extend(self.access.hint());
            }
            return Err(Failure { exit, message: lines.join("\n") });
        };
        for line in &lines {
            tell(line);
        }
        Ok(nearest)
    }

    /// An error when the interfaces asked for lead to none of the server's addresses.
    fn require_paths(&self, asked: &Asked) -> Result<(), Failure> {
        if self.interfaces.is_empty() {
            return Ok(());
        }
        let mut refusals = Vec::new();
        for &address in &asked.addresses {
            match self.ways(SocketAddr::new(address, asked.server.port)) {
                Ok(_) => return Ok(()),
                Err(why) => refusals.push(why),
            }
        }
        Err(Failure::bad_input(refusals.join("\n")))
    }

    fn reach(&self, asked: &Asked, tell: &dyn Fn(&str)) -> Vec<Reachability> {
        // An address has no name of the other family.
        let given = asked.server.host.parse().ok().map(family);
        let families = match self.family.or(given) {
            Some(family) => vec![family],
            None => vec![AddressFamily::Ipv4, AddressFamily::Ipv6],
        };
        let tries = reachability::tries(
            &asked.server,
            &asked.addresses,
            &families,
            self.transports,
            &self.access.quic_ports,
        );
        let ways = |address| self.ways(address);
        let stopped = || self.stop.load(Ordering::Relaxed);
        reachability::probe_all(self.client, &asked.server, &tries, &ways, &stopped, |one| {
            let place = format!("{} over {}, port {}", one.transport, one.family.name(), one.port);
            match (one.rtt_ms, &one.error) {
                (Some(ms), _) => tell(&format!("{place}: works, first answer after {ms:.1} ms")),
                (None, Some(error)) => tell(&format!("{place}: {error}")),
                (None, None) => tell(&format!("{place}: no answer")),
            }
        })
    }

    fn left_out(
        &self,
        places: &BTreeMap<Transport, SocketAddr>,
        reachability: &[Reachability],
    ) -> Vec<String> {
        let mut words = Vec::new();
        for &transport in self.transports.iter().filter(|transport| !places.contains_key(transport)) {
            let why = reachability.iter().find(|one| one.transport == transport && one.error.is_some());
            let hint = why
                .filter(|why| is_quic(transport) && why.error_kind == Some(UnreachableBecause::Other))
                .and_then(|_| self.access.hint());
            let why = why.and_then(|one| one.error.clone()).unwrap_or_default();
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            words.push(format!("{transport} does not work here and is left out: {why}{hint}"));
        }
        words
    }

    /// An error when the user wants to stop before anything was measured.
    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("stopped by the user before anything was measured"));
        }
        Ok(())
    }
}

fn nothing_works(server: &ServerName, reachability: &[Reachability]) -> Failure {
    let mut lines = vec![format!("{server} answered, but no transport works")];
    lines.extend(reachability.iter().filter_map(|one| {
        let error = one.error.as_ref()?;
        Some(format!("{} over {}, port {}: {error}", one.transport, one.family.name(), one.port))
    }));
    Failure { exit: Exit::Unreachable, message: lines.join("\n") }
}

/// Pings that count, and one before them that does not.
const ROUNDS: u32 = 5;
const WARM_UP: u32 = 1;

/// What came of asking one server.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) server: ServerName,
    /// Its addresses of the families allowed, in the resolver's order.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) outcome: Result<Near, Refusal>,
}

/// A server that answered.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) transport: Transport,
    pub(crate) answer: Answer,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In words.
    pub(crate) message: String,
    /// The exit code that says so: the server itself said no, this host cannot do it, or the server was not reached.
    pub(crate) exit: Exit,
}

impl From<&ClientError> for Refusal {
    fn from(error: &ClientError) -> Self {
        let when = match error {
            ClientError::Refused { retry_after_ms: Some(ms), .. } => {
                format!(" (try again in {} s)", ms.div_ceil(1000))
            }
            _ => String::new(),
        };
        let exit = match error {
            ClientError::Refused { .. } => Exit::Refused,
            ClientError::Incapable { .. } => Exit::HostCannot,
            _ => Exit::Unreachable,
        };
        Self { message: format!("{error}{when}"), exit }
    }
}

/// What may be tried.
#[derive(Debug, Clone)]
pub(crate) struct Search<'a> {
    /// The family asked for; both when absent.
    pub(crate) family: Option<AddressFamily>,
    /// UDP ports beside each server's own.
    pub(crate) quic_ports: &'a [u16],
    /// Transports asked for; all when empty.
    pub(crate) transports: &'a [Transport],
}

/// Pings one server: over tcp, and where that gets nowhere over quic.
pub(crate) fn ask(client: &Client, server: ServerName, search: &Search<'_>) -> Asked {
    let resolved = match server.resolve() {
        Ok(resolved) => resolved,
        Err(error) => {
            let message = format!("the name {} cannot be resolved: {error}", server.host);
            return refused(server, Vec::new(), message);
        }
    };
    let allowed = |at: &IpAddr| search.family.is_none_or(|wanted| family(*at) == wanted);
    let addresses: Vec<IpAddr> = resolved.into_iter().filter(allowed).collect();
    if addresses.is_empty() {
        let wanted = search.family.map_or("IP", AddressFamily::name);
        let message = format!("{server} has no {wanted} address");
        return refused(server, addresses, message);
    }
    let mut first_error: Option<ClientError> = None;
    for (transport, target) in cheap_tries(&server, &addresses, search) {
        match reachability::ping(client, transport, &target, ROUNDS, WARM_UP) {
            Ok(answer) => return Asked { server, addresses, outcome: Ok(Near { transport, answer }) },
            Err(error) => {
                let by_server = matches!(error, ClientError::Refused { .. });
                // The server's own words tell more than a port that does not answer.
                if first_error.is_none() || by_server {
                    first_error = Some(error);
                }
                if by_server {
                    break;
                }
            }
        }
    }
    let outcome = Err(first_error.as_ref().map_or_else(
        || Refusal { message: "no transport to ask it by".to_owned(), exit: Exit::Unreachable },
        Refusal::from,
    ));
    Asked { server, addresses, outcome }
}

fn refused(server: ServerName, addresses: Vec<IpAddr>, message: String) -> Asked {
    Asked { server, addresses, outcome: Err(Refusal { message, exit: Exit::Unreachable }) }
}

/// tcp on every address, then quic on every address and port, as far as they were asked for.
fn cheap_tries(server: &ServerName, addresses: &[IpAddr], search: &Search<'_>) -> Vec<(Transport, Target)> {
    let asked = |transports: [Transport; 2]| {
        search.transports.is_empty() || search.transports.iter().any(|asked| transports.contains(asked))
    };
    let mut tries = Vec::new();
    if asked([Transport::Tcp, Transport::Mptcp]) {
        tries.extend(addresses.iter().map(|&at| (Transport::Tcp, at, server.port)));
    }
    if asked([Transport::Quic, Transport::Mpquic]) {
        for port in std::iter::once(server.port).chain(search.quic_ports.iter().copied()) {
            tries.extend(addresses.iter().map(|&at| (Transport::Quic, at, port)));
        }
    }
    let target = |address, port| Target {
        address: SocketAddr::new(address, port),
        host: server.host.clone(),
        ways: Vec::new(),
    };
    tries.into_iter().map(|(transport, address, port)| (transport, target(address, port))).collect()
}

/// The index of the nearest of those that answered.
pub(crate) fn nearest(asked: &[Asked]) -> Option<usize> {
    let distances = asked.iter().enumerate().filter_map(|(index, asked)| {
        let near = asked.outcome.as_ref().ok()?;
        Some((index, near.answer.median_ms()?))
    });
    distances.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

/// What the result says of each.
pub(crate) fn records(asked: &[Asked], chosen: Option<usize>) -> Vec<ServerRecord> {
    let record = |(index, asked): (usize, &Asked)| {
        let answer = asked.outcome.as_ref().ok().map(|near| &near.answer);
        ServerRecord {
            address: asked.server.to_string(),
            name: None,
            ping_ms: answer.and_then(Answer::median_ms),
            lost: answer.map_or(0, |answer| answer.lost),
            chosen: chosen == Some(index),
            error: asked.outcome.as_ref().err().map(|refusal| refusal.message.clone()),
        }
    };
    asked.iter().enumerate().map(record).collect()
}

/// One line a server, for the person who waits.
pub(crate) fn lines(asked: &[Asked], chosen: Option<usize>) -> Vec<String> {
    let several = asked.len() > 1;
    let line = |(index, asked): (usize, &Asked)| match &asked.outcome {
        Ok(near) => {
            let median = near.answer.median_ms().unwrap_or_default();
            let mark = if chosen == Some(index) && several { ", the nearest" } else { "" };
            format!("{}: {median:.1} ms by {}{mark}", asked.server, near.transport)
        }
        Err(refusal) => format!("{}: {}", asked.server, refusal.message),
    };
    asked.iter().enumerate().map(line).collect()
}
