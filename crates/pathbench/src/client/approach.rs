//! From the servers that were named to the transports that reach the nearest of them, and where.

use super::address::{self, ServerName};
use super::selection::{self, Asked, Search};
use super::ways::HostNetwork;
use super::{AccessArgs, Client, is_quic, reachability};
use crate::exit::{Exit, Failure};
use pathbench_lab::assembly::ClientPath;
use pathbench_record::document::{AddressFamily, Reachability, ServerRecord, UnreachableBecause};
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;
use std::net::SocketAddr;
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
        let servers = selection::records(&asked, Some(chosen));
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
            asked.push(selection::ask(self.client, server, &search));
            self.go_on()?;
        }
        Ok(asked)
    }

    /// The index of the nearest.
    fn choose(&self, asked: &[Asked], tell: &dyn Fn(&str)) -> Result<usize, Failure> {
        let nearest = selection::nearest(asked);
        let mut lines = selection::lines(asked, nearest);
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
        let given = asked.server.host.parse().ok().map(address::family);
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
