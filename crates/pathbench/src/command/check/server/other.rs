//! MPTCP to a server that is not Pathbench's: the handshake, the reply to a request of HTTP, and joins.

use super::prober::{ServerProber, rises, unopened_probe};
use super::transfer::subflow;
use super::window::Window;
use pathbench_check::server::counters::Counters;
use pathbench_check::server::facts::{
    ClientEnd, Ending, MptcpProbe, PathProbe, PlainProbe, ServerFacts, Subflow, Transfer,
};
use pathbench_host::counters::KernelCounters;
use pathbench_record::connection::Negotiation;
use pathbench_record::sample::PathState;
use pathbench_record::transport::Transport;
use pathbench_transport::{ConnectError, ConnectOptions, Connection, ReceiveError, Session};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Joins follow the first data; the kernel opens them within some round trips.
const JOIN_TIME: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(20);
const REPLY_BYTES: usize = 4096;
const PLAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Failed joins of one connection that are compared with plain TCP, all at the same time.
const MOST_PLAIN_PROBES: usize = 8;

fn unconnected(error: &ConnectError) -> Ending {
    let message = error.to_string();
    match error {
        ConnectError::Refused { .. } => Ending::Reset(message),
        ConnectError::TimedOut { .. } | ConnectError::Unreachable { .. } => Ending::NotConnected(message),
        _ => Ending::Failed(message),
    }
}

impl ServerProber<'_> {
    /// MPTCP over one path; the same connection shows the joins of the other paths.
    pub(super) fn other_server(&self, facts: &mut ServerFacts, index: usize) -> Option<MptcpProbe> {
        let path = facts.paths[index].clone();
        let (plain, _) = self.exchange(facts, &path, Transport::Tcp);
        if path.tcp.is_complete() && matches!(plain.ending, Ending::Reset(_)) {
            facts.closes_listener = true;
            return None;
        }
        facts.paths[index].tcp = plain.ending;
        let (probe, is_closed) = self.exchange(facts, &path, Transport::Mptcp);
        if probe.client == ClientEnd::Mptcp && probe.ending.is_complete() {
            if is_closed {
                let name = &path.name;
                facts
                    .left_out
                    .push(format!("the server closed the connection over {name} before joins could be seen"));
            } else {
                facts.transfers.push(Transfer { initial: index, probe: probe.clone() });
            }
        }
        Some(probe)
    }

    /// Connects, sends a request that a web server answers, and waits for any reply and for joins. Returns also whether the
    /// server has closed the connection.
    fn exchange(&self, facts: &ServerFacts, path: &PathProbe, transport: Transport) -> (MptcpProbe, bool) {
        let (window, before) = (Window::open(), KernelCounters::read().ok());
        let options =
            ConnectOptions { local: Some(path.local), ..ConnectOptions::new(path.server, CONNECT_TIMEOUT) };
        let connection = match Session::new(transport, options, Arc::clone(&self.clock)).open() {
            Ok(connection) => connection,
            Err(error) => {
                let ending = unconnected(&error);
                let counters = Counters::new(rises(before.as_ref()), None, 1);
                return (MptcpProbe { counters, ..unopened_probe(ending) }, true);
            }
        };
        let mut telemetry = connection.telemetry().ok();
        telemetry.iter_mut().for_each(pathbench_transport::Telemetry::look_up_interfaces);
        let mut snapshot = || telemetry.as_mut()?.snapshot().ok();
        let at_first = snapshot();
        let ending = self.request(&connection);
        let wanted = if transport == Transport::Mptcp { facts.paths.len() } else { 1 };
        let end = self.clock.now() + JOIN_TIME;
        let mut last = snapshot();
        let is_open = |state: PathState| state == PathState::Open;
        while self.clock.now() < end
            && last.as_ref().is_some_and(|last| {
                last.multipath == Negotiation::Negotiated
                    && last.subflows.iter().filter(|one| is_open(one.state)).count() < wanted
            })
        {
            self.clock.sleep_until(self.clock.now() + TICK);
            last = snapshot();
        }
        let negotiated =
            |state: &pathbench_transport::ConnectionSnapshot| state.multipath == Negotiation::Negotiated;
        let client = match (at_first.as_ref().map(negotiated), last.as_ref().map(negotiated)) {
            (_, Some(true)) => ClientEnd::Mptcp,
            (Some(true), _) => ClientEnd::FellBack,
            _ => ClientEnd::Tcp,
        };
        let subflows: Vec<Subflow> = last.iter().flat_map(|last| &last.subflows).map(subflow).collect();
        let counters = Counters::new(rises(before.as_ref()), None, 1);
        let attempts = window.close(path.server);
        let is_closed = self.is_closed(&connection);
        let mut probe =
            MptcpProbe { ending, client, server: None, counters, subflows, attempts, plain: Vec::new() };
        if client == ClientEnd::Mptcp {
            // While the connection is open: a listener may close after it has accepted one.
            probe.plain = self.plain_to_failed_joins(&facts.paths, path, &probe);
        }
        (probe, is_closed)
    }

    /// Plain TCP over each path whose joins failed, to the addresses of the joins.
    pub(super) fn plain_to_failed_joins(
        &self,
        paths: &[PathProbe],
        initial: &PathProbe,
        probe: &MptcpProbe,
    ) -> Vec<PlainProbe> {
        let joins = paths.iter().flat_map(|path| {
            let is_initial = path.name == initial.name;
            let of_path = |subflow: &&Subflow| path.has_address(subflow.local.ip());
            let is_open = |one: &&Subflow| one.state == PathState::Open;
            let has_open = probe.subflows.iter().filter(of_path).any(|one| is_open(&one));
            let failed = probe.subflows.iter().filter(|one| of_path(one) && !is_open(one));
            let ended = failed.map(|one| one.remote);
            let attempts = probe.attempts.iter().filter(|one| path.has_address(one.local));
            let remotes: BTreeSet<SocketAddr> = ended.chain(attempts.map(|one| one.remote)).collect();
            // The server's own address matters where no join of the path succeeds.
            let is_wanted = move |at: &SocketAddr| {
                !at.ip().is_unspecified() && (*at != path.server || !has_open && !is_initial)
            };
            let remotes = remotes.into_iter().filter(is_wanted);
            remotes.map(|remote| (path.local, remote))
        });
        let joins: Vec<(IpAddr, SocketAddr)> = joins.take(MOST_PLAIN_PROBES).collect();
        thread::scope(|scope| {
            let threads: Vec<_> = joins
                .into_iter()
                .map(|(local, remote)| scope.spawn(move || self.plain_probe(local, remote)))
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }

    fn plain_probe(&self, local: IpAddr, remote: SocketAddr) -> PlainProbe {
        let options = ConnectOptions { local: Some(local), ..ConnectOptions::new(remote, PLAIN_TIMEOUT) };
        let ending = match Session::new(Transport::Tcp, options, Arc::clone(&self.clock)).open() {
            Ok(_) => Ending::Complete,
            Err(error) => unconnected(&error),
        };
        PlainProbe { local, remote, ending }
    }

    /// Whether the server has ended the stream; reads the rest of its reply.
    fn is_closed(&self, connection: &Connection) -> bool {
        let end = self.clock.now() + REPLY_TIMEOUT;
        let mut buffer = [0; REPLY_BYTES];
        while self.clock.now() < end {
            match connection.receive(&mut buffer, Some(Duration::ZERO)) {
                Ok(1..) => {}
                Err(ReceiveError::TimedOut { .. }) => return false,
                Ok(0) | Err(_) => return true,
            }
        }
        false
    }

    fn request(&self, connection: &Connection) -> Ending {
        let host = &self.target.name.host;
        let request = format!("HEAD / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: pathbench\r\n\r\n");
        if let Err(error) = connection.send(request.as_bytes(), Some(REPLY_TIMEOUT)) {
            return Ending::Failed(error.to_string());
        }
        match connection.receive(&mut [0; REPLY_BYTES], Some(REPLY_TIMEOUT)) {
            // The end of the stream is a reply, too.
            Ok(_) => Ending::Complete,
            Err(error) => Ending::Stalled(error.to_string()),
        }
    }
}
