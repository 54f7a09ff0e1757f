//! Finds the nearest of the given servers, and the transports that reach it.

use super::{ServerTarget, TestClient, addresses_of};
use crate::arguments::TransportChoice;
use pathbench_analysis::reachability::{self, Probed, Try};
use pathbench_program::exit::{Exit, Failure};
use pathbench_record::document::{Reachability, ServerRecord, UnreachableBecause};
use pathbench_record::end::MessageRecord;
use pathbench_record::network::{AddressFamily, MOST_TEST_PATHS, ServerName};
use pathbench_record::pattern::{PatternParameters, PingParameters};
use pathbench_record::statistics::median;
use pathbench_record::text::{duration, duration_ms};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientError;
use pathbench_transport::mptcp_available;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pings that find the nearest server: measured ones, and a warm-up ping before them.
const PINGS: [u32; 2] = [5, 1];
/// Pings that test whether a transport works.
const ONE_PING: [u32; 2] = [1, 0];
const TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between requests.
const INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct Discovery<'a> {
    pub(crate) client: &'a TestClient,
    pub(crate) choice: &'a TransportChoice,
    pub(crate) stop: &'a AtomicBool,
    /// Where a server has proved its identity.
    proven: RefCell<BTreeSet<SocketAddr>>,
    /// The addresses and kinds of port (QUIC or TCP) that gave no answer over any path.
    silent: RefCell<BTreeSet<(IpAddr, bool)>>,
}

/// The nearest server, and how to reach it.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) server: ServerName,
    /// All servers that were pinged.
    pub(crate) servers: Vec<ServerRecord>,
    pub(crate) reachability: Vec<Reachability>,
    /// The address and port for each working transport's test.
    pub(crate) endpoints: BTreeMap<Transport, SocketAddr>,
    /// The first path, if it is dead; and the transports that do not work, with the reason.
    pub(crate) notes: Vec<String>,
}

/// Why no transport works, and the attempts.
#[derive(Debug)]
pub(crate) struct NotReached {
    pub(crate) failure: Failure,
    pub(crate) reachability: Vec<Reachability>,
}

impl From<Failure> for NotReached {
    fn from(failure: Failure) -> Self {
        Self { failure, reachability: Vec::new() }
    }
}

/// The answers to pings.
#[derive(Debug, Clone, Copy)]
struct Answer {
    median_ms: f64,
    /// Time from the start of the connection to its first answer.
    first_ms: f64,
    lost: u32,
}

/// A server and its answer to the pings.
struct Pinged {
    server: ServerName,
    addresses: Vec<IpAddr>,
    outcome: Result<(Transport, Answer), Failure>,
    /// The pings without an answer.
    failed: Vec<Reachability>,
    /// Whether its certificate was rejected.
    is_untrusted: bool,
}

impl Pinged {
    fn median_ms(&self) -> Option<f64> {
        self.outcome.as_ref().ok().map(|(_, answer)| answer.median_ms)
    }

    fn record(&self, is_nearest: bool) -> ServerRecord {
        ServerRecord {
            address: self.server.to_string(),
            name: None,
            ping_ms: self.median_ms(),
            lost: self.outcome.as_ref().map_or(0, |(_, answer)| answer.lost),
            chosen: is_nearest,
            error: self.outcome.as_ref().err().map(|failure| failure.message.clone()),
        }
    }

    fn line(&self, mark: &str) -> String {
        match &self.outcome {
            Ok((transport, answer)) => {
                let rtt = duration_ms(answer.median_ms);
                format!("{}: {rtt} by {transport}{mark}", self.server)
            }
            Err(failure) => format!("{}: {}", self.server, failure.message),
        }
    }
}

impl Reached {
    /// The address for datagrams of this program's own protocols: that of QUIC, if it works.
    pub(crate) fn udp_address(&self) -> Option<SocketAddr> {
        let of_quic = [Transport::Quic, Transport::Mpquic].iter().find_map(|one| self.endpoints.get(one));
        of_quic.or_else(|| self.endpoints.values().next()).copied()
    }
}

impl<'a> Discovery<'a> {
    pub(crate) fn new(client: &'a TestClient, choice: &'a TransportChoice, stop: &'a AtomicBool) -> Self {
        Self { client, choice, stop, proven: RefCell::default(), silent: RefCell::default() }
    }

    /// Pings all servers, and tries every transport on the nearest one; `report` gets a line per result.
    pub(crate) fn run(&self, servers: Vec<ServerName>, report: &dyn Fn(&str)) -> Result<Reached, NotReached> {
        let mut pinged = Vec::new();
        for server in servers {
            pinged.push(self.ping_server(server));
            self.go_on()?;
        }
        let nearest = self.nearest(&pinged, report).map_err(|failure| NotReached {
            failure,
            reachability: pinged.iter().flat_map(|one| one.failed.clone()).collect(),
        })?;
        let servers = pinged.iter().enumerate().map(|(index, one)| one.record(index == nearest)).collect();
        let Pinged { server, addresses, .. } = pinged.swap_remove(nearest);
        self.require_paths(&server, &addresses)?;
        let reachability = self.try_transports(&server, &addresses, report);
        let endpoints: BTreeMap<_, _> = reachability::choose(&reachability, &addresses).into_iter().collect();
        self.go_on()?;
        if endpoints.is_empty() {
            let failure = nothing_works(&server, &reachability);
            return Err(NotReached { failure, reachability });
        }
        let notes = self.notes(&endpoints, &reachability);
        Ok(Reached { server, servers, reachability, endpoints, notes })
    }

    /// Pings over tcp; if tcp gets no answer, over quic.
    fn ping_server(&self, server: ServerName) -> Pinged {
        let addresses = match addresses_of(&server, self.client.arguments.server.family()) {
            Ok(addresses) => addresses,
            Err(failure) => {
                let (addresses, failed) = (Vec::new(), Vec::new());
                return Pinged { server, addresses, outcome: Err(failure), failed, is_untrusted: false };
            }
        };
        let mut first_error: Option<ClientError> = None;
        let mut failed = Vec::new();
        for (transport, address) in self.ping_targets(&server, &addresses) {
            match self.ping(transport, address, &server.host, PINGS) {
                Ok(answer) => {
                    let outcome = Ok((transport, answer));
                    return Pinged { server, addresses, outcome, failed, is_untrusted: false };
                }
                Err(error) => {
                    // Another address or transport of the same server answers no better.
                    let by_server =
                        matches!(error, ClientError::Refused { .. } | ClientError::Untrusted { .. });
                    if !by_server {
                        let (ip, port) = (address.ip(), address.port());
                        let family = AddressFamily::from_address(ip);
                        let tried = Try { transport, family, address: Some(ip), port };
                        failed.push(reachability::record(&server, tried, Err(reason(&error))));
                    }
                    // The server's message explains more than an unanswered port.
                    if first_error.is_none() || by_server {
                        first_error = Some(error);
                    }
                    if by_server {
                        break;
                    }
                }
            }
        }
        let is_untrusted = matches!(first_error, Some(ClientError::Untrusted { .. }));
        let outcome = Err(first_error.as_ref().map_or_else(
            || Failure { exit: Exit::Unreachable, message: "no transport to ping it over".to_owned() },
            failure_of,
        ));
        Pinged { server, addresses, outcome, failed, is_untrusted }
    }

    /// tcp on every address, then quic on every address and port, limited to the transports that the user named.
    fn ping_targets(&self, server: &ServerName, addresses: &[IpAddr]) -> Vec<(Transport, SocketAddr)> {
        let wanted = |transports: [Transport; 2]| {
            !self.choice.named || self.choice.transports.iter().any(|one| transports.contains(one))
        };
        let mut targets = Vec::new();
        if wanted([Transport::Tcp, Transport::Mptcp]) {
            targets.extend(addresses.iter().map(|&at| (Transport::Tcp, SocketAddr::new(at, server.port))));
        }
        if wanted([Transport::Quic, Transport::Mpquic]) {
            for port in std::iter::once(&server.port).chain(&self.client.arguments.quic_ports) {
                targets.extend(addresses.iter().map(|&at| (Transport::Quic, SocketAddr::new(at, *port))));
            }
        }
        targets
    }

    /// The index of the nearest server.
    fn nearest(&self, pinged: &[Pinged], report: &dyn Fn(&str)) -> Result<usize, Failure> {
        let distances = pinged.iter().enumerate().filter_map(|(index, one)| Some((index, one.median_ms()?)));
        let nearest = distances.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index);
        let mark = |index| if nearest == Some(index) && pinged.len() > 1 { ", the nearest" } else { "" };
        let mut lines: Vec<String> =
            pinged.iter().enumerate().map(|(index, one)| one.line(mark(index))).collect();
        let Some(nearest) = nearest else {
            // A refusal takes precedence over an unreachable server, and that over a missing feature of this host.
            let exits = || pinged.iter().filter_map(|one| one.outcome.as_ref().err().map(|no| no.exit));
            let exit =
                [Exit::Refused, Exit::Unreachable].into_iter().find(|exit| exits().any(|one| one == *exit));
            if pinged.iter().any(|one| one.is_untrusted) {
                lines.extend(self.client.arguments.hint().map(str::to_owned));
            }
            return Err(Failure { exit: exit.unwrap_or(Exit::HostCannot), message: lines.join("\n") });
        };
        for line in &lines {
            report(line);
        }
        Ok(nearest)
    }

    /// Returns an error if no interface that the user named has a route to the server.
    fn require_paths(&self, server: &ServerName, addresses: &[IpAddr]) -> Result<(), Failure> {
        if self.client.arguments.server.interfaces.is_empty() {
            return Ok(());
        }
        let mut refusals = Vec::new();
        for &address in addresses {
            match self.client.paths_to(SocketAddr::new(address, server.port)) {
                Ok(_) => return Ok(()),
                Err(why) => refusals.push(why),
            }
        }
        Err(Failure::bad_input(refusals.join("\n")))
    }

    fn try_transports(
        &self,
        server: &ServerName,
        addresses: &[IpAddr],
        report: &dyn Fn(&str),
    ) -> Vec<Reachability> {
        // A server given as an address has no address of the other family.
        let given = server.host.parse().ok().map(AddressFamily::from_address);
        let families = match self.client.arguments.server.family().or(given) {
            Some(family) => vec![family],
            None => vec![AddressFamily::Ipv4, AddressFamily::Ipv6],
        };
        let quic_ports = &self.client.arguments.quic_ports;
        let mut found = Vec::new();
        for tried in reachability::tries(server, addresses, &families, &self.choice.transports, quic_ports) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let result = match reachability::silent_sibling(&found, tried) {
                Some(sibling) => Err((
                    UnreachableBecause::Timeout,
                    format!("not tried, because {sibling} got no answer there either"),
                )),
                None => self.probe(server, tried),
            };
            let one = reachability::record(server, tried, result);
            let endpoint = endpoint_name(&one);
            match (one.rtt_ms, &one.error) {
                (Some(ms), _) => {
                    report(&format!("{endpoint}: works, first answer after {}", duration_ms(ms)));
                }
                (None, Some(error)) => report(&format!("{endpoint}: {error}")),
                (None, None) => report(&format!("{endpoint}: no answer")),
            }
            found.push(one);
        }
        found
    }

    /// One connection and one ping.
    fn probe(&self, server: &ServerName, tried: Try) -> Probed {
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
        self.client.paths_to(address).map_err(|why| (UnreachableBecause::NoRoute, why))?;
        let answer =
            self.ping(tried.transport, address, &server.host, ONE_PING).map_err(|error| reason(&error))?;
        Ok(Some(answer.first_ms))
    }

    /// Pings over the first path; if it is dead, over the other paths, and the first of these that gets an answer is
    /// the initial path of this command from then on.
    fn ping(
        &self,
        transport: Transport,
        address: SocketAddr,
        host: &str,
        pings: [u32; 2],
    ) -> Result<Answer, ClientError> {
        let paths = self.client.paths_to(address).unwrap_or_default();
        let is_bound = self.client.initial.get().is_some();
        let target = ServerTarget { address, host: host.to_owned(), paths, is_bound };
        let error = match self.ping_over(transport, &target, pings) {
            Err(error) if is_silent(&error) && !is_bound => error,
            answer => return answer,
        };
        let kind = (address.ip(), transport.is_quic());
        if self.silent.borrow().contains(&kind) {
            return Err(error);
        }
        for first in target.paths.iter().skip(1).take(MOST_TEST_PATHS - 1) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let mut over = ServerTarget { is_bound: true, ..target.clone() };
            over.paths.sort_by_key(|path| path.interface != first.interface);
            if let Ok(answer) = self.ping_over(transport, &over, pings) {
                // Set by this thread only.
                let _already_set = self.client.initial.set(first.interface.clone());
                return Ok(answer);
            }
        }
        self.silent.borrow_mut().insert(kind);
        Err(error)
    }

    fn ping_over(
        &self,
        transport: Transport,
        target: &ServerTarget,
        [count, warm_up]: [u32; 2],
    ) -> Result<Answer, ClientError> {
        let is_clear = !transport.is_quic() && !self.client.arguments.tls;
        if is_clear
            && self.client.arguments.authenticates(self.choice)
            && !self.proven.borrow().contains(&target.address)
        {
            self.client.authenticate(target, TIMEOUT)?;
            self.proven.borrow_mut().insert(target.address);
        }
        let ping = PingParameters {
            count,
            warm_up,
            interval: INTERVAL,
            timeout: TIMEOUT,
            ..PingParameters::default()
        };
        let outcome = self.client.run_short(transport, target, PatternParameters::Ping(ping), TIMEOUT);
        let messages = &outcome.client.messages;
        let rtts: Vec<Duration> = messages.iter().filter_map(MessageRecord::round_trip).collect();
        let rtts_ms: Vec<f64> = rtts.iter().map(|rtt| rtt.as_secs_f64() * 1e3).collect();
        let Some((&first, median_ms)) = rtts.first().zip(median(&rtts_ms)) else {
            return Err(outcome.error.unwrap_or_else(|| ClientError::Unreachable {
                because: UnreachableBecause::Timeout,
                message: format!("{} opened the connection but answered nothing", target.address),
            }));
        };
        let first = outcome.client.handshake.unwrap_or_default() + first;
        let lost = (messages.len() - rtts.len()) as u32;
        Ok(Answer { median_ms, first_ms: first.as_secs_f64() * 1e3, lost })
    }

    fn notes(
        &self,
        endpoints: &BTreeMap<Transport, SocketAddr>,
        reachability: &[Reachability],
    ) -> Vec<String> {
        let missing = self.choice.transports.iter().filter(|transport| !endpoints.contains_key(transport));
        let line = |&transport: &Transport| {
            let why = reachability.iter().find(|one| one.transport == transport && one.error.is_some());
            let hint = why
                .filter(|why| transport.is_quic() && why.error_kind == Some(UnreachableBecause::Other))
                .and_then(|_| self.client.arguments.hint());
            let why = why.and_then(|one| one.error.clone()).unwrap_or_default();
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{transport} does not work here and is left out: {why}{hint}")
        };
        let initial = self.client.initial.get().map(|path| {
            format!(
                "initial path: no answer came over the first path, so connections over several paths begin on {path}"
            )
        });
        initial.into_iter().chain(missing.map(line)).collect()
    }

    /// Returns an error if the user stops the command before any measurement.
    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("stopped by the user before anything was measured"));
        }
        Ok(())
    }
}

/// Whether no packet came back; a refusal is an answer.
const fn is_silent(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Unreachable { because: UnreachableBecause::Timeout | UnreachableBecause::NoRoute, .. }
    )
}

fn reason(error: &ClientError) -> (UnreachableBecause, String) {
    let because = match error {
        ClientError::Unreachable { because, .. } => *because,
        _ => UnreachableBecause::Other,
    };
    (because, error.to_string())
}

fn failure_of(error: &ClientError) -> Failure {
    let when = match error {
        ClientError::Refused { retry_after_ms: Some(ms), .. } => {
            format!(" (try again in {})", duration(Duration::from_millis(*ms)))
        }
        _ => String::new(),
    };
    let exit = match error {
        ClientError::Refused { .. } => Exit::Refused,
        ClientError::Incapable { .. } => Exit::HostCannot,
        _ => Exit::Unreachable,
    };
    Failure { exit, message: format!("{error}{when}") }
}

fn endpoint_name(one: &Reachability) -> String {
    format!("{} over {}, port {}", one.transport, one.family.name(), one.port)
}

fn nothing_works(server: &ServerName, reachability: &[Reachability]) -> Failure {
    let mut lines = vec![format!("{server} answered, but no transport works")];
    let failed = reachability.iter().filter_map(|one| Some((one, one.error.as_ref()?)));
    lines.extend(failed.map(|(one, error)| format!("{}: {error}", endpoint_name(one))));
    Failure { exit: Exit::Unreachable, message: lines.join("\n") }
}
