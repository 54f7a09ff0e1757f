//! Finds the nearest of the named servers, and the transports that reach it.

use super::reachability::{self, Answer, Try, ping};
use super::server::{ServerName, family};
use super::{Client, Target, is_quic};
use crate::exit::{Exit, Failure};
use crate::session::TransportChoice;
use pathbench_record::document::{AddressFamily, Reachability, ServerRecord, UnreachableBecause};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientError;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pings that count, and one before them that does not.
const PINGS: u32 = 5;
const WARM_UP: u32 = 1;

#[derive(Clone, Copy)]
pub(crate) struct Discovery<'a> {
    pub(crate) client: &'a Client,
    pub(crate) choice: &'a TransportChoice,
    pub(crate) stop: &'a AtomicBool,
}

/// The nearest server, and how to reach it.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) server: ServerName,
    /// All servers that were pinged.
    pub(crate) servers: Vec<ServerRecord>,
    pub(crate) reachability: Vec<Reachability>,
    /// The address and port at which each working transport is tested.
    pub(crate) places: BTreeMap<Transport, SocketAddr>,
    /// The transports that do not work, with the reason.
    pub(crate) left_out: Vec<String>,
}

/// A server and its answer to the pings.
struct Pinged {
    server: ServerName,
    addresses: Vec<IpAddr>,
    outcome: Result<(Transport, Answer), Failure>,
}

impl Pinged {
    fn median_ms(&self) -> Option<f64> {
        self.outcome.as_ref().ok().and_then(|(_, answer)| answer.median_ms())
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
                let median = answer.median_ms().unwrap_or_default();
                format!("{}: {median:.1} ms by {transport}{mark}", self.server)
            }
            Err(failure) => format!("{}: {}", self.server, failure.message),
        }
    }
}

impl Discovery<'_> {
    /// Pings all servers, and tries every transport on the nearest; `report` gets a line for each result.
    pub(crate) fn run(&self, servers: Vec<ServerName>, report: &dyn Fn(&str)) -> Result<Reached, Failure> {
        let mut pinged = Vec::new();
        for server in servers {
            pinged.push(self.ping_server(server));
            self.go_on()?;
        }
        let nearest = self.nearest(&pinged, report)?;
        let servers = pinged.iter().enumerate().map(|(index, one)| one.record(index == nearest)).collect();
        let Pinged { server, addresses, .. } = pinged.swap_remove(nearest);
        self.require_paths(&server, &addresses)?;
        let reachability = self.try_transports(&server, &addresses, report);
        let places: BTreeMap<_, _> = reachability::choose(&reachability, &addresses).into_iter().collect();
        self.go_on()?;
        if places.is_empty() {
            return Err(nothing_works(&server, &reachability));
        }
        let left_out = self.left_out(&places, &reachability);
        Ok(Reached { server, servers, reachability, places, left_out })
    }

    /// Pings over tcp, and where tcp gets no answer over quic.
    fn ping_server(&self, server: ServerName) -> Pinged {
        let addresses = match server.addresses(self.client.arguments.server.family()) {
            Ok(addresses) => addresses,
            Err(failure) => return Pinged { server, addresses: Vec::new(), outcome: Err(failure) },
        };
        let mut first_error: Option<ClientError> = None;
        for (transport, address) in self.ping_targets(&server, &addresses) {
            let target = Target { address, host: server.host.clone(), paths: Vec::new() };
            match ping(self.client, transport, &target, PINGS, WARM_UP) {
                Ok(answer) => return Pinged { server, addresses, outcome: Ok((transport, answer)) },
                Err(error) => {
                    let by_server = matches!(error, ClientError::Refused { .. });
                    // The server's message explains more than a port that does not answer.
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
            || Failure { exit: Exit::Unreachable, message: "no transport to ping it over".to_owned() },
            failure_of,
        ));
        Pinged { server, addresses, outcome }
    }

    /// tcp on every address, then quic on every address and port, as far as the user named them.
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
            // A refusal is better news than an unreachable server, and a host that lacks a feature is worse.
            let exits = || pinged.iter().filter_map(|one| one.outcome.as_ref().err().map(|no| no.exit));
            let exit =
                [Exit::Refused, Exit::Unreachable].into_iter().find(|exit| exits().any(|one| one == *exit));
            if self.client.arguments.tls {
                lines.extend(self.client.arguments.hint().map(str::to_owned));
            }
            return Err(Failure { exit: exit.unwrap_or(Exit::HostCannot), message: lines.join("\n") });
        };
        for line in &lines {
            report(line);
        }
        Ok(nearest)
    }

    /// An error when none of the interfaces that the user named has a route to the server.
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
        // A server given by its address has no address of the other family.
        let given = server.host.parse().ok().map(family);
        let families = match self.client.arguments.server.family().or(given) {
            Some(family) => vec![family],
            None => vec![AddressFamily::Ipv4, AddressFamily::Ipv6],
        };
        let quic_ports = &self.client.arguments.quic_ports;
        let tries: Vec<Try> =
            reachability::tries(server, addresses, &families, &self.choice.transports, quic_ports);
        let stopped = || self.stop.load(Ordering::Relaxed);
        reachability::probe_all(self.client, server, &tries, &stopped, |one| {
            let place = place(one);
            match (one.rtt_ms, &one.error) {
                (Some(ms), _) => report(&format!("{place}: works, first answer after {ms:.1} ms")),
                (None, Some(error)) => report(&format!("{place}: {error}")),
                (None, None) => report(&format!("{place}: no answer")),
            }
        })
    }

    fn left_out(
        &self,
        places: &BTreeMap<Transport, SocketAddr>,
        reachability: &[Reachability],
    ) -> Vec<String> {
        let missing = self.choice.transports.iter().filter(|transport| !places.contains_key(transport));
        let line = |&transport: &Transport| {
            let why = reachability.iter().find(|one| one.transport == transport && one.error.is_some());
            let hint = why
                .filter(|why| is_quic(transport) && why.error_kind == Some(UnreachableBecause::Other))
                .and_then(|_| self.client.arguments.hint());
            let why = why.and_then(|one| one.error.clone()).unwrap_or_default();
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{transport} does not work here and is left out: {why}{hint}")
        };
        missing.map(line).collect()
    }

    /// An error when the user stops the command before it measured anything.
    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("stopped by the user before anything was measured"));
        }
        Ok(())
    }
}

fn failure_of(error: &ClientError) -> Failure {
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
    Failure { exit, message: format!("{error}{when}") }
}

fn place(one: &Reachability) -> String {
    format!("{} over {}, port {}", one.transport, one.family.name(), one.port)
}

fn nothing_works(server: &ServerName, reachability: &[Reachability]) -> Failure {
    let mut lines = vec![format!("{server} answered, but no transport works")];
    let failed = reachability.iter().filter_map(|one| Some((one, one.error.as_ref()?)));
    lines.extend(failed.map(|(one, error)| format!("{}: {error}", place(one))));
    Failure { exit: Exit::Unreachable, message: lines.join("\n") }
}
