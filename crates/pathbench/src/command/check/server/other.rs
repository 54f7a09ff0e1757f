//! MPTCP to a server that is not Pathbench's: the handshake, the reply to a request of HTTP, and joins.

use super::prober::{ServerProber, rises, unopened_probe};
use super::transfer::subflow;
use pathbench_check::server::facts::{ClientEnd, Ending, MptcpProbe, PathProbe, ServerFacts, Transfer};
use pathbench_host::counters::KernelCounters;
use pathbench_record::connection::Negotiation;
use pathbench_record::sample::PathState;
use pathbench_record::transport::Transport;
use pathbench_transport::{ConnectError, ConnectOptions, Connection, ReceiveError, Session};
use std::sync::Arc;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Joins follow the first data; the kernel opens them within some round trips.
const JOIN_TIME: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(20);
const REPLY_BYTES: usize = 4096;

impl ServerProber<'_> {
    /// MPTCP over one path; the same connection shows the joins of the other paths.
    pub(super) fn other_server(&self, facts: &mut ServerFacts, index: usize) -> MptcpProbe {
        let path = facts.paths[index].clone();
        let (plain, _) = self.exchange(facts, &path, Transport::Tcp);
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
        probe
    }

    /// Connects, sends a request that a web server answers, and waits for any reply and for joins. Returns also whether the
    /// server has closed the connection.
    fn exchange(&self, facts: &ServerFacts, path: &PathProbe, transport: Transport) -> (MptcpProbe, bool) {
        let before = KernelCounters::read().ok();
        let options =
            ConnectOptions { local: Some(path.local), ..ConnectOptions::new(path.server, CONNECT_TIMEOUT) };
        let connection = match Session::new(transport, options, Arc::clone(&self.clock)).open() {
            Ok(connection) => connection,
            Err(error) => {
                let message = error.to_string();
                let ending = match error {
                    ConnectError::Refused { .. } => Ending::Reset(message),
                    ConnectError::TimedOut { .. } | ConnectError::Unreachable { .. } => {
                        Ending::NotConnected(message)
                    }
                    _ => Ending::Failed(message),
                };
                return (MptcpProbe { client_rises: rises(before.as_ref()), ..unopened_probe(ending) }, true);
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
        let subflows = last.iter().flat_map(|last| &last.subflows).map(subflow).collect();
        let client_rises = rises(before.as_ref());
        let is_closed = self.is_closed(&connection);
        (MptcpProbe { ending, client, server: None, client_rises, server_rises: None, subflows }, is_closed)
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
