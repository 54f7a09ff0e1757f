//! Short tests against a Pathbench server: over plain TCP, over an MPTCP connection that begins on one path, and over all
//! paths. A test over plain TCP that lasts longer brackets each MPTCP test: its record has the server's counters.

use super::prober::{ServerProber, rises};
use super::window::Window;
use pathbench_check::server::counters::{Counters, Rises};
use pathbench_check::server::facts::{
    ClientEnd, Ending, MptcpProbe, PathProbe, PathRates, ServerEnd, Subflow,
};
use pathbench_host::counters::KernelCounters;
use pathbench_host::paths::ProbedPath;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::random;
use pathbench_record::connection::{FallbackReason, Negotiation};
use pathbench_record::direction::DataDirection;
use pathbench_record::document::UnreachableBecause;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{
    ClientControl, ClientError, ClientObserver, ClientOutcome, ClientPlan, Unobserved, fetch_record,
    run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use pathbench_transport::{CertificateFingerprint, Security, Trust};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Bytes in each direction: enough for packets of full size.
const BYTES: u64 = 64 * 1024;
/// The kernel connects without `MP_CAPABLE` after about 3 s without an answer to its SYN packets.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A transfer without progress for this long has stalled.
const PATIENCE: Duration = Duration::from_secs(2);
const TRANSFER: Duration = Duration::from_secs(1);
/// The longest bracket; each ends as soon as the test inside has ended.
const BRACKET: Duration = Duration::from_secs(30);
const BRACKET_INTERVAL: Duration = Duration::from_millis(200);
const BRACKET_BYTES: u32 = 16;
/// Attempts and pause while the server still ends the previous test.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);
/// Attempts of a test during which a subflow's join may lose bytes.
const JOIN_ATTEMPTS: u32 = 3;

const UPLOAD: BulkParameters = BulkParameters { bytes: 0, upload_bytes: BYTES, streams: 1 };

/// A transfer over plain TCP.
pub(super) struct TcpProbe {
    pub(super) ending: Ending,
    /// Whether the server speaks the test protocol; `None` if it is not reachable.
    pub(super) speaks: Option<bool>,
    failed: Option<ClientOutcome>,
    /// `None` unless both transfers completed and both ends measured.
    pub(super) rates: Option<PathRates>,
}

/// The end of a bracket: its control, and the first byte.
struct Bracket {
    end: AtomicBool,
    begun: Sender<()>,
}

impl ClientObserver for Bracket {
    fn on_first_byte(&self, _at: Timestamp) {
        // The receiver waits for a limited time.
        let _ = self.begun.send(());
    }

    fn control(&self) -> ClientControl {
        if self.end.load(Ordering::Acquire) { ClientControl::Stop } else { ClientControl::Continue }
    }
}

impl ServerProber<'_> {
    fn plan(
        &self,
        transport: Transport,
        [local, server]: [SocketAddr; 2],
        parameters: PatternParameters,
    ) -> ClientPlan {
        ClientPlan {
            local: Some(local.ip()),
            token: self.arguments.token.clone(),
            patience: PATIENCE,
            connect_timeout: if transport == Transport::Mptcp {
                CONNECT_TIMEOUT
            } else {
                TCP_CONNECT_TIMEOUT
            },
            sample_interval: Duration::from_millis(50),
            ..ClientPlan::new(transport, server, TestId(random::bytes()), parameters)
        }
    }

    /// Plain TCP over a path: a download, and then an upload.
    pub(super) fn tcp(&self, path: &ProbedPath) -> Result<TcpProbe, Failure> {
        let ends = [SocketAddr::new(path.local, 0), path.server];
        let directions = [BulkParameters { bytes: BYTES, ..BulkParameters::default() }, UPLOAD];
        let mut probe = TcpProbe { ending: Ending::Complete, speaks: Some(true), failed: None, rates: None };
        let mut senders = Vec::new();
        for parameters in directions {
            let plan = self.plan(Transport::Tcp, ends, PatternParameters::Bulk(parameters));
            let outcome = self.run_test(&plan, ends);
            match &outcome.error {
                None => {
                    senders.push(outcome);
                    continue;
                }
                Some(ClientError::Handshake { .. }) => probe.speaks = Some(false),
                Some(ClientError::Refused { message, .. }) => {
                    let message = format!("{} refuses the test: {message}", self.target.name);
                    return Err(Failure { exit: Exit::Refused, message });
                }
                Some(error) => {
                    if matches!(error, ClientError::Unreachable { .. }) {
                        probe.speaks = None;
                    }
                    probe.ending = ending(&outcome);
                    probe.failed = Some(outcome);
                }
            }
            break;
        }
        probe.rates = rates(&senders);
        Ok(probe)
    }

    /// One ping over TCP with TLS on a path, after which the server has proved its identity.
    pub(super) fn authenticate(
        &self,
        path: &ProbedPath,
        fingerprint: CertificateFingerprint,
    ) -> Result<Ending, Failure> {
        let ends = [SocketAddr::new(path.local, 0), path.server];
        let ping = PingParameters { count: 1, warm_up: 0, ..PingParameters::default() };
        let plan = ClientPlan {
            security: Security::Tls(Trust::Fingerprint(fingerprint)),
            ..self.plan(Transport::Tcp, ends, PatternParameters::Ping(ping))
        };
        let (outcome, _) = self.repeat_while_busy(&plan);
        match &outcome.error {
            Some(ClientError::Untrusted { message }) => {
                Err(Failure { exit: Exit::Unreachable, message: message.clone() })
            }
            Some(ClientError::Refused { message, .. }) => {
                let message = format!("{} refuses the test: {message}", self.target.name);
                Err(Failure { exit: Exit::Refused, message })
            }
            _ => Ok(ending(&outcome)),
        }
    }

    /// Fetches the server's record of a failed upload over `sound`: the server may have received altered data, and the
    /// failed path may alter its record.
    pub(super) fn look_at_server(&self, probe: &mut TcpProbe, sound: &ProbedPath) {
        let Some(outcome) = &mut probe.failed else { return };
        if outcome.server.is_none() && !outcome.client.streams.is_empty() {
            let ends = [SocketAddr::new(sound.local, 0), sound.server];
            let plan = self.plan(Transport::Tcp, ends, outcome.client.parameters.clone());
            outcome.server = fetch_record(&plan, true, &outcome.client, &self.clock).ok();
            probe.ending = ending(outcome);
        }
    }

    /// An MPTCP connection that begins on `path`.
    pub(super) fn handshake(&self, paths: &[PathProbe], path: &PathProbe) -> MptcpProbe {
        let both = BulkParameters { bytes: BYTES, ..UPLOAD };
        self.measure_rises(paths, path, &PatternParameters::Bulk(both))
    }

    /// A transfer by time in both directions that begins on `path`.
    pub(super) fn all_paths(&self, paths: &[PathProbe], path: &PathProbe) -> MptcpProbe {
        let parameters = ThroughputParameters {
            direction: DataDirection::Both,
            amount: Amount::Duration(TRANSFER),
            ..ThroughputParameters::default()
        };
        self.measure_rises(paths, path, &parameters.into())
    }

    fn measure_rises(
        &self,
        paths: &[PathProbe],
        path: &PathProbe,
        parameters: &PatternParameters,
    ) -> MptcpProbe {
        let is_altered = paths.iter().any(|path| path.tcp.is_altered());
        repeat_probe(
            || !is_altered && self.has_time(),
            || self.bracketed_once(paths, path, parameters.clone()),
        )
    }

    fn bracketed_once(
        &self,
        paths: &[PathProbe],
        path: &PathProbe,
        parameters: PatternParameters,
    ) -> MptcpProbe {
        let ends_of = |path: &PathProbe| [SocketAddr::new(path.local, 0), path.server];
        let ends = ends_of(path);
        // The record of the bracket passes over a path that does not change it.
        let sound = paths.iter().find(|path| path.tcp.is_complete()).map_or(ends, ends_of);
        let (begun, begins) = channel();
        let bracket = Bracket { end: AtomicBool::new(false), begun };
        let (outcome, attempts, client_rises, opened, server_rises) = thread::scope(|scope| {
            let outer = scope.spawn(|| self.bracket(&bracket, sound));
            await_begin(&begins, outer.is_finished());
            let (window, before) = (Window::open(), KernelCounters::read().ok());
            let plan = self.plan(Transport::Mptcp, ends, parameters);
            let (outcome, opened) = self.repeat_while_busy(&plan);
            let client_rises = rises(before.as_ref());
            // Before the server's record is fetched over plain TCP.
            let attempts = window.close(path.server);
            let outcome = self.with_server_record(outcome, &plan, sound);
            bracket.end.store(true, Ordering::Release);
            (outcome, attempts, client_rises, opened, outer.join().ok().flatten())
        });
        MptcpProbe {
            ending: ending(&outcome),
            client: client_end(&outcome, &client_rises),
            server: outcome.server.as_ref().and_then(server_end),
            subflows: subflows(&outcome.client),
            counters: Counters::new(client_rises, server_rises, opened),
            attempts,
            plain: Vec::new(),
        }
    }

    /// Exchanges a small message now and then until the bracket ends, and returns the server's counters.
    fn bracket(&self, bracket: &Bracket, ends: [SocketAddr; 2]) -> Option<Rises> {
        let parameters = InteractiveParameters {
            duration: BRACKET,
            interval: BRACKET_INTERVAL,
            request_bytes: BRACKET_BYTES,
            response_bytes: BRACKET_BYTES,
            linger: PATIENCE,
        };
        let plan = self.plan(Transport::Tcp, ends, PatternParameters::Interactive(parameters));
        run_client(&plan, &self.clock, bracket).server?.mptcp_counters.map(Rises)
    }

    /// Runs a test; while the server still ends the previous one, again. Returns also the number of attempts.
    fn repeat_while_busy(&self, plan: &ClientPlan) -> (ClientOutcome, u64) {
        let mut outcome = run_client(plan, &self.clock, &Unobserved);
        let mut attempts = 1;
        for _ in 1..ATTEMPTS {
            if !matches!(&outcome.error, Some(ClientError::Refused { code: RefusalCode::Busy, .. })) {
                break;
            }
            self.clock.sleep_until(self.clock.now() + PAUSE);
            let again = ClientPlan { test: TestId(random::bytes()), ..plan.clone() };
            outcome = run_client(&again, &self.clock, &Unobserved);
            attempts += 1;
        }
        (outcome, attempts)
    }

    /// Runs a test until the server is not busy.
    fn run_test(&self, plan: &ClientPlan, sound: [SocketAddr; 2]) -> ClientOutcome {
        let (outcome, _) = self.repeat_while_busy(plan);
        self.with_server_record(outcome, plan, sound)
    }

    /// Fetches the server's record over plain TCP between `sound` if the test did not complete, which also ends the test at
    /// the server.
    fn with_server_record(
        &self,
        mut outcome: ClientOutcome,
        plan: &ClientPlan,
        sound: [SocketAddr; 2],
    ) -> ClientOutcome {
        let is_open =
            matches!(outcome.error, Some(ClientError::Broken { .. } | ClientError::Handshake { .. }));
        if is_open && outcome.server.is_none() {
            let fetch = self.plan(Transport::Tcp, sound, plan.parameters.clone());
            outcome.server = fetch_record(&fetch, true, &outcome.client, &self.clock).ok();
        }
        outcome
    }
}

/// The figures of the sender in a download and in an upload that completed.
fn rates(completed: &[ClientOutcome]) -> Option<PathRates> {
    let [download, upload] = completed else { return None };
    let figures = |record: &EndRecord| record.streams.first()?.paths.first().cloned();
    let (sent_down, sent_up) = (figures(download.server.as_ref()?)?, figures(&upload.client)?);
    Some(PathRates {
        min_rtt_ms: sent_up.min_rtt_ms?,
        upload_bps: sent_up.delivery_rate_bps?,
        download_bps: sent_down.delivery_rate_bps?,
    })
}

/// A probe over MPTCP; again if it failed while other programs raised the same counters, and if bytes were wrong or the server ended it, because Linux 6.18 can lose bytes that arrive while
/// a subflow joins (see `pathbench_traffic::protocol`). What a path alters, which plain TCP shows, is altered each time.
fn repeat_probe(may_repeat: impl Fn() -> bool, mut attempt: impl FnMut() -> MptcpProbe) -> MptcpProbe {
    let mut probe = attempt();
    for _ in 1..JOIN_ATTEMPTS {
        let is_disturbed = probe.client != ClientEnd::Mptcp && probe.counters.is_disturbed();
        let may_differ = matches!(probe.ending, Ending::Altered(_) | Ending::Failed(_)) || is_disturbed;
        if !may_differ || !may_repeat() {
            break;
        }
        probe = attempt();
    }
    probe
}

/// Waits until the server has read its counters for the bracket; not at all if the bracket has failed.
fn await_begin(begins: &Receiver<()>, is_over: bool) {
    if !is_over {
        // Without a bracket the server's counters stay unknown.
        let _ = begins.recv_timeout(TCP_CONNECT_TIMEOUT);
    }
}

fn ending(outcome: &ClientOutcome) -> Ending {
    if outcome.is_altered() {
        return Ending::Altered("the received data differs from the sent data".to_owned());
    }
    let Some(error) = &outcome.error else { return Ending::Complete };
    let message = error.to_string();
    match error {
        ClientError::Unreachable { because: UnreachableBecause::Refused, .. } => Ending::Reset(message),
        ClientError::Unreachable { .. } => Ending::NotConnected(message),
        ClientError::Handshake { .. } => Ending::Stalled(message),
        ClientError::Broken { .. } if outcome.hung.is_some_and(|hung| hung >= PATIENCE / 2) => {
            Ending::Stalled(message)
        }
        _ => Ending::Failed(message),
    }
}

fn client_end(outcome: &ClientOutcome, rises: &Rises) -> ClientEnd {
    if matches!(outcome.error, Some(ClientError::Unreachable { .. })) {
        return ClientEnd::Unopened;
    }
    let first = outcome.client.streams.first().map(|stream| stream.multipath);
    // A connection without a reading, or with a late one: the counters of the handshake.
    let rose = |name: &str| rises.0.get(name).is_some_and(|rise| *rise > 0);
    let answered = rose("MPCapableSYNACKRX") && !rose("MPCapableFallbackSYNACK");
    match first {
        Some(Negotiation::Negotiated) => ClientEnd::Mptcp,
        Some(Negotiation::FellBack { reason: FallbackReason::InMidLife }) => ClientEnd::FellBack,
        Some(_) if answered => ClientEnd::FellBack,
        None if answered && rose("MPCapableDataFallback") => ClientEnd::FellBack,
        None if answered => ClientEnd::Mptcp,
        Some(_) | None => ClientEnd::Tcp,
    }
}

fn server_end(record: &EndRecord) -> Option<ServerEnd> {
    let stream = record.streams.first()?;
    Some(match stream.multipath {
        Negotiation::Negotiated => ServerEnd::Mptcp,
        Negotiation::FellBack { reason: FallbackReason::PeerAskedForPlainTcp } => ServerEnd::PlainSyn,
        Negotiation::FellBack { .. } => ServerEnd::FellBack,
        Negotiation::NotAsked | Negotiation::NotNegotiated => ServerEnd::TcpListener,
    })
}

pub(super) fn subflow(figures: &pathbench_record::sample::PathFigures) -> Subflow {
    Subflow {
        local: figures.local,
        remote: figures.remote,
        state: figures.state,
        bytes: figures.payload_acked().saturating_add(figures.bytes_received),
        sent_bytes: figures.payload_acked(),
        interface: figures.interface.clone(),
    }
}

/// The subflows of the connection at its end, closed ones included.
fn subflows(record: &EndRecord) -> Vec<Subflow> {
    record.streams.iter().flat_map(|stream| &stream.paths).map(subflow).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ending, JOIN_ATTEMPTS, repeat_probe};
    use crate::command::check::server::prober::unopened_probe;
    use std::slice::from_ref;

    fn attempts(is_altered_over_tcp: bool, endings: &[Ending]) -> (usize, Ending) {
        let mut made = 0;
        let probe = repeat_probe(
            || !is_altered_over_tcp,
            || {
                made += 1;
                unopened_probe(endings[(made - 1).min(endings.len() - 1)].clone())
            },
        );
        (made, probe.ending)
    }

    #[test]
    fn bytes_that_are_lost_while_a_subflow_joins_are_no_fault_of_a_path() {
        let altered = Ending::Altered("byte 7 is wrong".to_owned());
        let ended = Ending::Failed("the server ended the test".to_owned());
        let stalled = Ending::Stalled("no byte for 2 s".to_owned());
        assert_eq!(attempts(false, &[altered.clone(), Ending::Complete]), (2, Ending::Complete));
        assert_eq!(
            attempts(false, &[ended.clone(), altered.clone(), Ending::Complete]),
            (3, Ending::Complete)
        );
        assert_eq!(attempts(false, from_ref(&altered)), (JOIN_ATTEMPTS as usize, altered.clone()));
        assert_eq!(attempts(true, &[altered.clone(), Ending::Complete]), (1, altered));
        assert_eq!(attempts(false, &[stalled.clone(), Ending::Complete]), (1, stalled));
    }
}
