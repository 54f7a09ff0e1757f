//! One test, from the first connection to both ends' records, and the later FETCH of the server's record.

use super::observer::{ClientControl, ClientObserver, Connected};
use super::plan::ClientPlan;
use super::progress::ProgressMeter;
use crate::datagram::{FlowError, UdpFlows};
use crate::meter::Wait;
use crate::protocol::{
    ControlFrame, Fetch, FrameKind, HelloFrame, RefusalCode, TestRefusal, TestRequest, VERSION,
};
use crate::record::{InvalidRecord, check_peer, most_record_bytes};
use crate::stream::{
    Cursor, DatagramCarrier, GroupMember, RECORD_TIME, StreamChannel, StreamError, StreamGroup, TICK,
    TestPlan, TestStream, Update, processor,
};
use crate::throughput::ALTERED;
use pathbench_record::document::UnreachableBecause;
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES, TestId};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use pathbench_record::text;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_transport::{
    ConnectError, ConnectOptions, Connection, Security, Session, SocketOptions, contain_panic,
};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use thiserror::Error;
use tracing::{info, info_span};

/// Longest time of a test beyond its duration, for a server that paces or a queue that drains slowly.
const OVERTIME: Duration = Duration::from_secs(120);

/// Limit of the time a server takes to close after a complete test.
const CLOSING_TIME: Duration = Duration::from_millis(500);

/// Longest error of a connection, in characters; it may quote the peer.
const MOST_CHARACTERS: usize = 500;

struct StreamOutcome {
    client: EndRecord,
    server: Option<EndRecord>,
    error: Option<String>,
}

/// Runs one test without probes beside it. It always returns the client's record, even after an error.
pub(super) fn run_test(
    plan: &ClientPlan,
    clock: &Arc<dyn Clock>,
    observer: &dyn ClientObserver,
) -> ClientOutcome {
    let _span =
        info_span!("test", id = %plan.test, transport = %plan.transport, server = %plan.server).entered();
    let started = clock.now();
    let mut test = TestPlan {
        side: Side::Client,
        test: plan.test,
        transport: plan.transport,
        parameters: plan.parameters_in_use(),
        started,
        handshake: None,
        patience: plan.patience,
        ceiling_bytes: None,
        pacers: None,
        // Set after the connections are open.
        deadline: started,
    };
    let not_begun = |test: &TestPlan, error: ClientError| {
        info!(%error, "test not begun");
        let client = EndRecord { errors: vec![error.to_string()], ..test.record(clock.now()) };
        ClientOutcome { client, server: None, completed: false, error: Some(error), hung: None }
    };
    if let Err(error) = check_options(plan, &test.parameters) {
        return not_begun(&test, error);
    }
    let session = Session::new(plan.transport, connect_options(plan), Arc::clone(clock));
    let connections = match open_all(&mut test, &session, clock.as_ref(), observer) {
        Ok(connections) => connections,
        Err(error) => return not_begun(&test, error),
    };
    // The client abandons a test that a slow server does not end.
    let patience = plan.patience.saturating_mul(2).saturating_add(OVERTIME);
    test.deadline = clock.now() + test.parameters.longest_duration().saturating_add(patience);
    let mut channels: Vec<StreamChannel<'_>> =
        connections.iter().map(|connection| StreamChannel::new(connection, clock.as_ref())).collect();
    let streams = match handshake(plan, &test, clock, &connections, &mut channels) {
        Ok(streams) => streams,
        Err(error) => {
            for connection in &connections {
                connection.abort();
            }
            return not_begun(&test, error);
        }
    };
    info!(pattern = test.parameters.name(), streams = streams.len(), "test started");
    let outcomes = run_streams(&streams, channels, clock.as_ref(), observer);
    info!("test ended");
    outcome(&test, outcomes, clock.now())
}

/// Whether this end can send and receive as the parameters ask.
fn check_options(plan: &ClientPlan, parameters: &PatternParameters) -> Result<(), ClientError> {
    let incapable = |message| ClientError::Incapable { message };
    if let PatternParameters::Throughput(throughput) = parameters {
        let is_encrypted = matches!(plan.security, Security::Tls(_));
        let checked = throughput.check_copying(plan.transport, is_encrypted);
        checked.map_err(|error| incapable(error.to_string()))?;
    }
    let processor = processor::requested(parameters, Side::Client);
    let checked = processor.map_or(Ok(()), processor::check);
    checked.map_err(|error| incapable(format!("client: {error}")))
}

fn connect_options(plan: &ClientPlan) -> ConnectOptions {
    let mut socket = plan.socket.clone();
    socket.no_delay |= plan.parameters.sends_at_once();
    ConnectOptions {
        local: plan.local,
        interface: plan.interface.clone(),
        socket,
        security: plan.security.clone(),
        quic: plan.quic.clone(),
        ..ConnectOptions::new(plan.server, plan.connect_timeout)
    }
}

fn open_all(
    test: &mut TestPlan,
    session: &Session,
    clock: &dyn Clock,
    observer: &dyn ClientObserver,
) -> Result<Vec<Arc<Connection>>, ClientError> {
    test.parameters.validate().map_err(|wrong| ClientError::Plan {
        message: wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    })?;
    if let Some(message) = test.parameters.misfit(test.transport) {
        return Err(ClientError::Plan { message: message.to_owned() });
    }
    let mut connections = Vec::new();
    for stream in 0..test.parameters.streams() {
        let connection = session.open().map_err(|error| connect_error(&error))?;
        let at = clock.now();
        test.handshake.get_or_insert(at.duration_since(test.started));
        observer.on_connected(&Connected {
            at,
            stream,
            local: connection.local_addr(),
            peer: connection.peer_addr(),
        });
        connections.push(Arc::new(connection));
    }
    Ok(connections)
}

fn connect_error(error: &ConnectError) -> ClientError {
    let message = text::printable(&error.to_string(), MOST_CHARACTERS);
    let unreachable = |because| ClientError::Unreachable { because, message: message.clone() };
    match error {
        ConnectError::Refused { .. } => unreachable(UnreachableBecause::Refused),
        ConnectError::Unreachable { .. } => unreachable(UnreachableBecause::NoRoute),
        ConnectError::TimedOut { .. } => unreachable(UnreachableBecause::Timeout),
        ConnectError::Untrusted { .. } => ClientError::Untrusted { message },
        // The peer answers, but does not encrypt.
        ConnectError::NotEncrypted { .. } => unreachable(UnreachableBecause::Other),
        ConnectError::Mptcp(_) | ConnectError::Congestion(_) => ClientError::Incapable { message },
        _ => ClientError::Plan { message },
    }
}

/// HELLO on every stream, ACCEPT from every stream, and only then START.
fn handshake(
    plan: &ClientPlan,
    test: &TestPlan,
    clock: &Arc<dyn Clock>,
    connections: &[Arc<Connection>],
    channels: &mut [StreamChannel<'_>],
) -> Result<Vec<TestStream>, ClientError> {
    let request = TestRequest {
        transport: plan.transport,
        patience: plan.patience,
        parameters: test.parameters.clone(),
        token: plan.token.clone(),
        sample_interval: plan.server_sample_interval.unwrap_or_default(),
    }
    .to_json();
    let failed = |error| handshake_error(plan, error);
    // One wait for all streams together, or a slow server could take this time for each stream.
    let wait = || Wait::with_timeout(clock.now(), plan.connect_timeout, "answer");
    let mut hellos = wait();
    for (index, channel) in channels.iter_mut().enumerate() {
        let hello = ControlFrame::Hello(HelloFrame::new(plan.test, index as u32, request.clone()));
        channel.write(&hello, &mut hellos).map_err(failed)?;
    }
    // After all HELLOs, so that many streams take as many round trips as one.
    let mut answers = wait();
    channels
        .iter_mut()
        .try_for_each(|one| one.expect(&ControlFrame::Accept, &mut answers))
        .map_err(failed)?;
    let group = StreamGroup::new(test.parameters.streams());
    let streams = connections
        .iter()
        .enumerate()
        .map(|(index, connection)| {
            let connection = Arc::clone(connection);
            let member = GroupMember(Arc::clone(&group));
            TestStream::new(test.clone(), index as u32, connection, member, clock, plan.sample_interval)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    if let (PatternParameters::Datagrams(_), Some(stream)) = (&test.parameters, streams.first()) {
        stream.set_carrier(carrier(plan, test, &stream.connection, clock.as_ref())?);
    }
    let mut starts = wait();
    for channel in channels {
        channel.write(&ControlFrame::Start, &mut starts).map_err(failed)?;
    }
    Ok(streams)
}

/// How the datagrams of the test travel. Over udp each path joins the test, which the server has accepted.
fn carrier(
    plan: &ClientPlan,
    test: &TestPlan,
    connection: &Connection,
    clock: &dyn Clock,
) -> Result<DatagramCarrier, ClientError> {
    if plan.transport != Transport::Udp {
        let incapable = || ClientError::Plan { message: StreamError::NoDatagrams.to_string() };
        return connection.datagrams().map(DatagramCarrier::Quic).ok_or_else(incapable);
    }
    let failed = |error: FlowError| {
        let message = text::printable(&error.to_string(), MOST_CHARACTERS);
        match error {
            FlowError::Silent { .. } => {
                ClientError::Unreachable { because: UnreachableBecause::Timeout, message }
            }
            FlowError::Refused { .. } | FlowError::Socket(_) => ClientError::Plan { message },
        }
    };
    let flows = UdpFlows::open(&plan.udp_paths(), plan.server, test.test, plan.token.as_deref());
    let flows = flows.map_err(failed)?;
    flows.join(clock).map_err(failed)?;
    Ok(DatagramCarrier::Client(flows))
}

fn handshake_error(plan: &ClientPlan, error: StreamError) -> ClientError {
    match error {
        StreamError::Refused(TestRefusal { code, message, retry_after_ms }) => {
            ClientError::Refused { code, message, retry_after_ms }
        }
        StreamError::Telemetry(_) | StreamError::Sampler(_) => {
            ClientError::Plan { message: error.to_string() }
        }
        error => ClientError::Handshake { server: plan.server, message: error.line() },
    }
}

/// One thread per stream; this thread reports their progress to the observer.
fn run_streams(
    streams: &[TestStream],
    channels: Vec<StreamChannel<'_>>,
    clock: &dyn Clock,
    observer: &dyn ClientObserver,
) -> Vec<StreamOutcome> {
    let begun = OnceLock::new();
    let on_first_byte = |at| {
        if begun.set(at).is_ok() {
            observer.on_first_byte(at);
        }
    };
    let mut meter: Option<ProgressMeter<'_>> = None;
    let mut report_progress = |now: Timestamp| {
        if let Some(first_byte) = begun.get() {
            let meter = meter.get_or_insert_with(|| ProgressMeter::new(streams, *first_byte));
            observer.on_progress(&meter.take(now));
        }
    };
    let (done, finished) = channel();
    thread::scope(|scope| {
        let mut outcomes = Vec::new();
        for (stream, mut channel) in streams.iter().zip(channels) {
            let done = done.clone();
            let on_first_byte = &on_first_byte;
            let run = move || {
                let outcome = contain_panic(|| run_stream(stream, &mut channel, on_first_byte));
                let outcome = outcome.unwrap_or_else(|message| {
                    stream.abandon();
                    let error = Some(StreamError::Panic { message }.to_string());
                    StreamOutcome { client: stream.finish(clock), server: None, error }
                });
                // The receiver outlives every sender.
                let _ = done.send(outcome);
            };
            if let Err(error) = thread::Builder::new().name("stream".to_owned()).spawn_scoped(scope, run) {
                stream.abandon();
                let error = Some(StreamError::Thread(error).to_string());
                outcomes.push(StreamOutcome { client: stream.finish(clock), server: None, error });
            }
        }
        drop(done);
        let mut cursors = vec![Cursor::default(); streams.len()];
        loop {
            match finished.recv_timeout(TICK) {
                Ok(outcome) => outcomes.push(outcome),
                Err(RecvTimeoutError::Timeout) if begun.get().is_some() => {
                    let now = clock.now();
                    report_progress(now);
                    if observer.wants_updates() {
                        let records = || streams.iter().map(|stream| stream.record_so_far(now)).collect();
                        let update = Update::collect_since(&mut cursors, streams, now);
                        observer.on_update(update, &|| EndRecord::of_streams(records()));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    report_progress(clock.now());
                    return outcomes;
                }
            }
            match observer.control() {
                ClientControl::Continue => {}
                ClientControl::Stop => streams.iter().for_each(|stream| stream.stop(clock.now())),
                ClientControl::Abort => streams.iter().for_each(|stream| stream.connection.abort()),
            }
        }
    })
}

fn run_stream(
    stream: &TestStream,
    channel: &mut StreamChannel<'_>,
    on_first_byte: &(dyn Fn(Timestamp) + Sync),
) -> StreamOutcome {
    let clock = channel.clock;
    let processor = processor::requested(&stream.plan.parameters, Side::Client);
    let pinned = processor.map_or(Ok(()), processor::pin_thread);
    let result = pinned.map_err(StreamError::from).and_then(|()| stream.run(channel, on_first_byte));
    let client = stream.finish(clock);
    match result.and_then(|()| receive_record(stream, channel, &client)) {
        Ok(server) => StreamOutcome { client, server: Some(server), error: None },
        Err(error) => {
            // Notifies a peer that is still connected.
            stream.connection.abort();
            let is_one_of_several = stream.plan.parameters.streams() > 1;
            let suffix =
                if is_one_of_several { format!(" (stream {})", stream.index) } else { String::new() };
            StreamOutcome { client, server: None, error: Some(error.line() + &suffix) }
        }
    }
}

/// The server's record of the stream, checked against the test's bounds, and the end of the connection.
fn receive_record(
    stream: &TestStream,
    channel: &mut StreamChannel<'_>,
    client: &EndRecord,
) -> Result<EndRecord, StreamError> {
    let clock = channel.clock;
    channel.decoder.set_body_limit(most_record_bytes(client, clock.now(), stream.record_bytes()));
    let server: EndRecord = match channel.frame(&mut stream.record_wait(clock))? {
        ControlFrame::Record(json) => serde_json::from_slice(&json).map_err(StreamError::Record)?,
        frame => return Err(StreamError::from_unexpected(FrameKind::Record, frame)),
    };
    check_peer(client, &server, clock.now())?;
    stream.connection.finish_sending();
    // The server closes after it has read the end of the stream.
    channel.drain(CLOSING_TIME);
    Ok(server)
}

fn outcome(test: &TestPlan, outcomes: Vec<StreamOutcome>, ended: Timestamp) -> ClientOutcome {
    let streams = outcomes.len();
    let error = outcomes.iter().find_map(|outcome| outcome.error.clone());
    let (client, server): (Vec<_>, Vec<_>) =
        outcomes.into_iter().map(|outcome| (outcome.client, outcome.server)).unzip();
    let server: Vec<EndRecord> = server.into_iter().flatten().collect();
    let server = if server.len() == streams { EndRecord::of_streams(server) } else { None };
    let client = EndRecord::of_streams(client).unwrap_or_else(|| test.record(ended));
    let completed = error.is_none() && client.completed && server.as_ref().is_some_and(|end| end.completed);
    let reason = || match server {
        Some(_) => "the server's record is not complete".to_owned(),
        None => "the records of the server's streams do not begin at the same time".to_owned(),
    };
    let error = (!completed).then(|| ClientError::Broken { message: error.unwrap_or_else(reason) });
    let hung = if completed { None } else { client.hung() };
    ClientOutcome { client, server, completed, error, hung }
}

#[derive(Debug, Error)]
pub enum FetchError {
    #[error("fetching the server's record of the test: {0}")]
    Connection(#[from] ClientError),
    #[error("{server} has no record of the test {test}: it never began there, or its record has expired")]
    NotFound { server: SocketAddr, test: TestId },
    #[error("the server's record of the test is invalid: {0}")]
    Invalid(#[from] InvalidRecord),
}

/// Fetches the server's record of the test whose client record is `client`, over the path in `plan`. Socket options and
/// the token are not used: the server requires the test's id, which only this client knows.
///
/// With `end_test` the client has abandoned the test: if it still runs, the server ends it first, so that its record is
/// complete and its slot is free. Otherwise the server refuses while the test runs.
pub fn fetch_record(
    plan: &ClientPlan,
    end_test: bool,
    client: &EndRecord,
    clock: &Arc<dyn Clock>,
) -> Result<EndRecord, FetchError> {
    let options = ConnectOptions { socket: SocketOptions::default(), ..connect_options(plan) };
    let session = Session::new(plan.transport, options, Arc::clone(clock));
    let clock = clock.as_ref();
    let connection = session.open().map_err(|error| connect_error(&error))?;
    let mut channel = StreamChannel::new(&connection, clock);
    channel.decoder.set_body_limit(MAX_RECORD_BYTES);
    let mut wait =
        Wait::with_timeout(clock.now(), RECORD_TIME, "hand over its record").or_silence(plan.connect_timeout);
    let failed = |error| handshake_error(plan, error);
    let fetch = ControlFrame::Fetch(Fetch { version: VERSION, test: client.test, end_test });
    channel.write(&fetch, &mut wait).map_err(failed)?;
    match channel.frame(&mut wait).map_err(failed)? {
        ControlFrame::Record(json) => {
            let server = serde_json::from_slice(&json).map_err(|error| failed(StreamError::Record(error)))?;
            check_peer(client, &server, clock.now())?;
            Ok(server)
        }
        ControlFrame::NotFound => Err(FetchError::NotFound { server: plan.server, test: client.test }),
        frame => Err(failed(StreamError::from_unexpected(FrameKind::Record, frame)).into()),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientOutcome {
    pub client: EndRecord,
    /// The server's record of all streams; `None` if the record of any stream is missing ([`fetch_record`] gets it over
    /// another path).
    pub server: Option<EndRecord>,
    /// Whether every stream completed and both ends agree on every byte.
    pub completed: bool,
    pub error: Option<ClientError>,
    /// For a test that began and did not complete: the time from the last progress to its end.
    pub hung: Option<Duration>,
}

impl ClientOutcome {
    /// Whether either end received data that differs from the sent data.
    pub fn is_altered(&self) -> bool {
        let errors = self.client.errors.iter().chain(self.server.iter().flat_map(|server| &server.errors));
        errors.into_iter().any(|error| error.contains(ALTERED))
    }

    /// Appends the reason why the server's record could not be fetched to the test's error.
    pub fn report_fetch(&mut self, failure: &dyn Display) {
        if let Some(ClientError::Broken { message }) = &mut self.error {
            *message = format!("{message}; {failure}");
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ClientError {
    #[error("{message}")]
    Unreachable { because: UnreachableBecause, message: String },
    /// The peer's certificate is not that of the intended server.
    #[error("{message}")]
    Untrusted { message: String },
    #[error("{message}")]
    Incapable { message: String },
    #[error("the server refused the test: {message}")]
    Refused { code: RefusalCode, message: String, retry_after_ms: Option<u64> },
    #[error("{server} does not answer as a Pathbench server of this version does: {message}")]
    Handshake { server: SocketAddr, message: String },
    #[error("{message}")]
    Plan { message: String },
    #[error("{message}")]
    Broken { message: String },
}

impl ClientError {
    /// Why no connection could be opened; `None` for other errors.
    pub const fn unreachable_because(&self) -> Option<UnreachableBecause> {
        match self {
            Self::Unreachable { because, .. } => Some(*because),
            _ => None,
        }
    }
}
