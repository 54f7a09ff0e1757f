//! One test, from the first connection to both ends' records.

use super::news::Listener;
use super::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, Connected, PathProgress, Progress, Wish,
};
use crate::protocol::{Frame, Hello, Refusal};
use crate::record::{check_peer, most_record_bytes};
use crate::request::Request;
use crate::stream::{Channel, Companions, Stream, StreamError, TICK, TestPlan, Wait};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::document::UnreachableBecause;
use pathbench_record::end::EndRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use pathbench_record::text;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{ConnectError, ConnectOptions, Connection, Session, contain_panic};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What a test may take beyond its duration, for a server that paces, and a queue that drains slowly.
const OVERTIME: Duration = Duration::from_secs(120);

/// How long a server may take to close after a test that is complete.
const CLOSING_TIME: Duration = Duration::from_millis(500);

/// Characters of an error of a connection, which may quote what the peer said at its end.
const MOST_CHARACTERS: usize = 500;

struct StreamOutcome {
    client: EndRecord,
    server: Option<EndRecord>,
    error: Option<String>,
}

/// Runs a test. It always comes back with the client's record, however the test went.
pub fn run_client(plan: &ClientPlan, clock: &Arc<dyn Clock>, observer: &dyn ClientObserver) -> ClientOutcome {
    let started = clock.now();
    let mut test = test_plan(plan, started);
    let session = Session::new(plan.transport, connect_options(plan), Arc::clone(clock));
    let connections = match open_all(&mut test, &session, clock.as_ref(), observer) {
        Ok(connections) => connections,
        Err(error) => return not_begun(&test, clock.now(), error),
    };
    test.deadline = deadline(plan, &test.parameters, clock.now());
    let mut channels: Vec<Channel<'_>> =
        connections.iter().map(|connection| Channel::new(connection, clock.as_ref())).collect();
    let streams = match shake_hands(plan, &test, clock, &connections, &mut channels) {
        Ok(streams) => streams,
        Err(error) => {
            for connection in &connections {
                connection.abort();
            }
            return not_begun(&test, clock.now(), error);
        }
    };
    let outcomes = run_streams(&streams, channels, clock.as_ref(), observer);
    outcome(&test, outcomes, clock.now())
}

fn test_plan(plan: &ClientPlan, started: Timestamp) -> TestPlan {
    TestPlan {
        side: Side::Client,
        test: plan.test,
        transport: plan.transport,
        parameters: plan.parameters.clone().for_transport(plan.transport),
        started,
        handshake: None,
        patience: plan.patience,
        ceiling_bytes: None,
        pacers: None,
        // Counts from the first handshake on.
        deadline: started,
    }
}

/// When the client gives a test up that goes on without an end: a server may be slow, but not for ever.
fn deadline(plan: &ClientPlan, parameters: &PatternParameters, now: Timestamp) -> Timestamp {
    let patience = plan.patience.saturating_mul(2).saturating_add(OVERTIME);
    now + parameters.longest_duration().saturating_add(patience)
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
        ..ConnectOptions::to(plan.server, plan.connect_timeout)
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
    let mut connections = Vec::new();
    for stream in 0..test.parameters.streams() {
        let connection = session.open().map_err(|error| connect_error(&error))?;
        let at = clock.now();
        test.handshake.get_or_insert(at.since(test.started));
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

pub(super) fn connect_error(error: &ConnectError) -> ClientError {
    let message = text::plain(&error.to_string(), MOST_CHARACTERS);
    let unreachable = |because| ClientError::Unreachable { because, message: message.clone() };
    match error {
        ConnectError::Refused { .. } => unreachable(UnreachableBecause::Refused),
        ConnectError::Unreachable { .. } => unreachable(UnreachableBecause::NoRoute),
        ConnectError::TimedOut { .. } => unreachable(UnreachableBecause::Timeout),
        // Somebody is there, but not the server that was meant, or not one that encrypts.
        ConnectError::Untrusted { .. } | ConnectError::NotEncrypted { .. } => {
            unreachable(UnreachableBecause::Other)
        }
        ConnectError::NoSuchTransport { .. } | ConnectError::Mptcp(_) | ConnectError::Congestion(_) => {
            ClientError::Incapable { message }
        }
        _ => ClientError::Plan { message },
    }
}

/// HELLO on every stream, ACCEPT from every stream, and only then START.
fn shake_hands(
    plan: &ClientPlan,
    test: &TestPlan,
    clock: &Arc<dyn Clock>,
    connections: &[Arc<Connection>],
    channels: &mut [Channel<'_>],
) -> Result<Vec<Stream>, ClientError> {
    let request = Request {
        transport: plan.transport,
        patience: plan.patience,
        parameters: test.parameters.clone(),
        token: plan.token.clone(),
        sample_interval: plan.server_sample_interval.unwrap_or_default(),
    }
    .to_json();
    let failed = |error| handshake_error(plan, error);
    // For all streams together, or a slow server could take as long for each.
    let wait = || Wait::within(clock.now(), plan.connect_timeout, "answer");
    let mut hellos = wait();
    for (index, channel) in channels.iter_mut().enumerate() {
        let hello = Frame::Hello(Hello::new(plan.test, index as u32, request.clone()));
        channel.write(&hello, &mut hellos).map_err(failed)?;
    }
    // Only now, so that many streams cost no more round trips than one.
    let mut answers = wait();
    for channel in channels.iter_mut() {
        match channel.frame(&mut answers).map_err(failed)? {
            Frame::Accept => {}
            frame => return Err(failed(StreamError::unexpected("ACCEPT", frame))),
        }
    }
    let companions = Companions::new(test.parameters.streams());
    let streams = connections
        .iter()
        .enumerate()
        .map(|(index, connection)| {
            let connection = Arc::clone(connection);
            let member = companions.member();
            Stream::new(test.clone(), index as u32, connection, member, clock, plan.sample_interval)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    let mut starts = wait();
    for channel in channels {
        channel.write(&Frame::Start, &mut starts).map_err(failed)?;
    }
    Ok(streams)
}

pub(super) fn refused(refusal: Refusal) -> ClientError {
    let Refusal { code, message, retry_after_ms } = refusal;
    ClientError::Refused { code, message, retry_after_ms }
}

fn handshake_error(plan: &ClientPlan, error: StreamError) -> ClientError {
    match error {
        StreamError::Refused(refusal) => refused(refusal),
        StreamError::Telemetry(_) | StreamError::Sampler(_) => {
            ClientError::Plan { message: error.to_string() }
        }
        error => ClientError::Handshake { server: plan.server, message: error.line() },
    }
}

/// One thread per stream; this thread tells the observer how far they are.
fn run_streams(
    streams: &[Stream],
    channels: Vec<Channel<'_>>,
    clock: &dyn Clock,
    observer: &dyn ClientObserver,
) -> Vec<StreamOutcome> {
    let begun = AtomicBool::new(false);
    let on_first_byte = |at| {
        if !begun.swap(true, Ordering::Relaxed) {
            observer.on_first_byte(at);
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
        let mut listener = observer.wants_news().then(|| Listener::of(streams));
        loop {
            match finished.recv_timeout(TICK) {
                Ok(outcome) => outcomes.push(outcome),
                Err(RecvTimeoutError::Timeout) if begun.load(Ordering::Relaxed) => {
                    let now = clock.now();
                    observer.on_progress(&progress(streams, now));
                    if let Some(listener) = &mut listener {
                        listener.tell(streams, now, observer);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return outcomes,
            }
            match observer.wish() {
                Wish::GoOn => {}
                Wish::Stop => streams.iter().for_each(|stream| stream.stop(clock.now())),
                Wish::Abort => streams.iter().for_each(|stream| stream.connection.abort()),
            }
        }
    })
}

fn run_stream(
    stream: &Stream,
    channel: &mut Channel<'_>,
    on_first_byte: &(dyn Fn(Timestamp) + Sync),
) -> StreamOutcome {
    let clock = channel.clock();
    let result = stream.run(channel, on_first_byte);
    let client = stream.finish(clock);
    match result.and_then(|()| receive_record(stream, channel, &client)) {
        Ok(server) => StreamOutcome { client, server: Some(server), error: None },
        Err(error) => {
            // Nothing more is to be expected of it; a peer that still lives hears of it at once.
            stream.connection.abort();
            let error = error.line() + &of_several(stream);
            StreamOutcome { client, server: None, error: Some(error) }
        }
    }
}

fn of_several(stream: &Stream) -> String {
    if stream.is_one_of_several() { format!(" (stream {})", stream.index()) } else { String::new() }
}

/// The server's record of the stream, as far as the test allows it, and the end.
fn receive_record(
    stream: &Stream,
    channel: &mut Channel<'_>,
    client: &EndRecord,
) -> Result<EndRecord, StreamError> {
    let clock = channel.clock();
    channel.accept_bodies_of(most_record_bytes(client, clock.now(), stream.record_bytes()));
    let server: EndRecord = match channel.frame(&mut stream.record_wait(clock))? {
        Frame::Record(json) => serde_json::from_slice(&json).map_err(StreamError::Record)?,
        frame => return Err(StreamError::unexpected("RECORD", frame)),
    };
    check_peer(client, &server, clock.now())?;
    stream.connection.finish_sending();
    // The server closes once it is read.
    channel.drain(CLOSING_TIME);
    Ok(server)
}

fn progress(streams: &[Stream], at: Timestamp) -> Progress {
    let (mut sent_bytes, mut received_bytes) = (0, 0);
    let mut paths: BTreeMap<_, PathProgress> = BTreeMap::new();
    for stream in streams {
        let (sent, received) = stream.progress();
        sent_bytes += sent;
        received_bytes += received;
        for figures in stream.latest().into_iter().flat_map(|snapshot| snapshot.subflows) {
            let (local, remote) = (figures.local.ip(), figures.remote.ip());
            let path = paths.entry((local, remote)).or_insert(PathProgress {
                local,
                remote,
                acknowledged_bytes: 0,
                received_bytes: 0,
            });
            path.acknowledged_bytes += figures.payload_acked();
            path.received_bytes += figures.bytes_received;
        }
    }
    Progress { at, sent_bytes, received_bytes, paths: paths.into_values().collect() }
}

fn outcome(test: &TestPlan, outcomes: Vec<StreamOutcome>, ended: Timestamp) -> ClientOutcome {
    let streams = outcomes.len();
    let error = outcomes.iter().find_map(|outcome| outcome.error.clone());
    let (client, server): (Vec<_>, Vec<_>) =
        outcomes.into_iter().map(|outcome| (outcome.client, outcome.server)).unzip();
    let server: Vec<EndRecord> = server.into_iter().flatten().collect();
    let server = if server.len() == streams { EndRecord::of_streams(server) } else { None };
    let client = EndRecord::of_streams(client).unwrap_or_else(|| empty_record(test, ended));
    let completed = error.is_none() && client.completed && server.as_ref().is_some_and(|end| end.completed);
    ClientOutcome {
        hung: if completed { None } else { client.hung() },
        error: match error {
            None if completed => None,
            None => Some(ClientError::Broken {
                message: match server {
                    Some(_) => "the server's record is not complete",
                    None => "the records of the server's streams do not begin at the same time",
                }
                .to_owned(),
            }),
            Some(message) => Some(ClientError::Broken { message }),
        },
        completed,
        client,
        server,
    }
}

fn not_begun(test: &TestPlan, ended: Timestamp, error: ClientError) -> ClientOutcome {
    let mut client = empty_record(test, ended);
    client.errors.push(error.to_string());
    ClientOutcome { client, server: None, completed: false, error: Some(error), hung: None }
}

fn empty_record(test: &TestPlan, ended: Timestamp) -> EndRecord {
    EndRecord {
        side: test.side,
        test: test.test,
        transport: test.transport,
        parameters: test.parameters.clone(),
        started: test.started,
        ended,
        deliveries: DeliverySeries::starting_at(test.started),
        offered: DeliverySeries::starting_at(test.started),
        messages: Vec::new(),
        path_events: Vec::new(),
        handshake: test.handshake,
        completion: None,
        rate_limit_bps: None,
        streams: Vec::new(),
        samples: Vec::new(),
        samples_thinned_by: 1,
        completed: false,
        errors: Vec::new(),
    }
}
