//! One connection of a server: its request, then its stream of a test or the record that it fetches.

use super::options::{EXTRA_PATIENCE, ServerEvent};
use super::registry::Admission;
use super::shared::{ConnectionSlot, ServerState, TestSlot};
use crate::meter::Wait;
use crate::protocol::{
    ControlFrame, Fetch, HelloFrame, RefusalCode, RequestError, TestRefusal, TestRequest, VERSION,
};
use crate::stream::{
    DatagramCarrier, GroupMember, StreamChannel, StreamError, StreamGroup, TestPlan, TestStream, processor,
};
use crate::throughput::ReceiveFault;
use pathbench_record::end::TestId;
use pathbench_record::network::Client;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use pathbench_record::transport::Transport;
use pathbench_transport::{Connection, contain_panic, lock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tracing::{info, info_span};

/// Longest wait for the end of earlier tests, whose streams and QUIC connections hold memory until then.
const EARLIER_TESTS: Duration = Duration::from_secs(3);
/// Interval of the checks whether tests have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Limit of the time a peer takes to close after the last message.
const CLOSING_TIME: Duration = Duration::from_secs(2);

impl ConnectionSlot<'_> {
    pub(super) fn serve(self) {
        if let Err(message) = contain_panic(|| serve(self.shared, &self.connection)) {
            self.connection.abort();
            self.shared.report_panic("connection", &message);
        }
    }
}

/// Serves one connection to its end. Aborts a connection whose peer is silent or uses another protocol.
fn serve(shared: &ServerState, connection: &Arc<Connection>) {
    let _span = info_span!("connection", client = %connection.peer_addr()).entered();
    let clock = shared.clock.as_ref();
    let mut channel = StreamChannel::new(connection, clock);
    let mut wait = shared.handshake_wait();
    match channel.frame(&mut wait) {
        Ok(ControlFrame::Hello(hello)) => serve_stream(shared, connection, &mut channel, &hello),
        Ok(ControlFrame::Fetch(fetch)) => serve_fetch(shared, &mut channel, fetch),
        Ok(_) | Err(_) => connection.abort(),
    }
}

fn serve_stream(
    shared: &ServerState,
    connection: &Arc<Connection>,
    channel: &mut StreamChannel<'_>,
    hello: &HelloFrame,
) {
    let clock = shared.clock.as_ref();
    let (id, index) = (hello.test, hello.stream);
    let (admission, request) = match admit(shared, connection, hello) {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(shared, channel, refusal),
    };
    let _span = info_span!("test", %id, stream = index, transport = %request.transport).entered();
    info!(pattern = request.parameters.name(), "stream admitted");
    let mut slot = TestSlot { shared, test: id, stream: index, record: None };
    shared.registry.attach(id, connection);
    if let Some(number) = admission.begins {
        admission.group.set_counters(shared.mptcp_counters());
        shared.observer.on_event(&ServerEvent::Started {
            number,
            pattern: request.parameters.name(),
            transport: request.transport,
            client: connection.peer_addr(),
        });
    }
    // Not more often than the server samples.
    let interval = shared.options.sample_interval.max(request.sample_interval);
    let group = Arc::clone(&admission.group);
    let member = GroupMember(Arc::clone(&group));
    let plan = shared.plan(hello, request, admission);
    if !shared.may_hold_memory(connection, &group) {
        drop((slot, member));
        let message = "connections of earlier tests have not ended yet".to_owned();
        let wait_ms = u64::try_from(EARLIER_TESTS.as_millis()).ok();
        return refuse(shared, channel, TestRefusal::new(RefusalCode::Busy, message, wait_ms));
    }
    let Ok(stream) = begin(shared, connection, channel, plan, index, member, interval) else {
        drop(slot);
        return connection.abort();
    };
    let stream = Arc::new(stream);
    shared.registry.run(id, &stream);
    let result = stream.run(channel, &|_| {});
    info!(error = result.as_ref().err().map(ToString::to_string), "stream ended");
    if let Err(StreamError::Panic { message }) = &result {
        shared.report_panic("stream", message);
    }
    let mut record = stream.finish(clock);
    record.mptcp_counters = group.counters_until(shared.mptcp_counters());
    if shared.stopping.load(Ordering::SeqCst) {
        // No client can fetch the record any more, and its samples dominate the time to encode it.
        record.samples.clear();
    }
    let json = record.fit(stream.record_bytes());
    // Released before the client is notified of the end: its next test must find a free slot.
    slot.record = json.is_ok().then_some(record);
    drop(slot);
    match (result, json) {
        (Err(error), _) => break_off(shared, channel, &stream, &error),
        (Ok(()), Ok(json)) => {
            let written = channel.write_record(&json, &mut stream.record_wait(clock));
            // The client has the complete record; it may begin its next test before it closes this connection.
            drop((json, stream, group));
            if written.is_ok() {
                close_gracefully(channel);
            }
        }
        (Ok(()), Err(error)) => {
            refuse(shared, channel, TestRefusal::new(RefusalCode::Limit, error.to_string(), None));
        }
    }
}

fn admit(
    shared: &ServerState,
    connection: &Connection,
    hello: &HelloFrame,
) -> Result<(Admission, TestRequest), TestRefusal> {
    if hello.version != VERSION {
        let message = format!(
            "it speaks version {VERSION} of the test protocol, the client version {}; \
             use the same Pathbench on both ends",
            hello.version
        );
        return Err(TestRefusal::new(RefusalCode::Unsupported, message, None));
    }
    let request = TestRequest::from_json(&hello.request).map_err(|error| {
        let is_unknown = matches!(error, RequestError::UnknownPattern { .. });
        let code = if is_unknown { RefusalCode::Unsupported } else { RefusalCode::BadRequest };
        TestRefusal::new(code, error.to_string(), None)
    })?;
    let access = shared.options.access.check(request.token.as_deref());
    access.map_err(|refusal| TestRefusal::new(RefusalCode::Access, refusal.to_string(), None))?;
    if let Some(message) = mismatch(request.transport, &connection.in_force().protocol) {
        return Err(TestRefusal::new(RefusalCode::BadRequest, message, None));
    }
    if let Some(message) = request.parameters.misfit(request.transport) {
        return Err(TestRefusal::new(RefusalCode::BadRequest, message, None));
    }
    check_options(&request, connection.in_force().encryption.is_some())?;
    let client = Client::from(connection.peer_addr().ip());
    let (now, draining) = (shared.clock.now(), shared.draining.load(Ordering::SeqCst));
    let admission = shared.registry.join(now, hello.test, hello.stream, &request, client, draining)?;
    Ok((admission, request))
}

/// Whether this end can send and receive as the request asks; pins this thread, which runs the stream, to its processor.
fn check_options(request: &TestRequest, is_encrypted: bool) -> Result<(), TestRefusal> {
    let refusal = |message: String| TestRefusal::new(RefusalCode::Unsupported, message, None);
    if let PatternParameters::Throughput(throughput) = &request.parameters {
        let checked = throughput.check_copying(request.transport, is_encrypted);
        checked.map_err(|error| refusal(error.to_string()))?;
    }
    let processor = processor::requested(&request.parameters, Side::Server);
    processor.map_or(Ok(()), processor::pin_thread).map_err(|error| refusal(format!("server: {error}")))
}

/// The reason why the connection cannot be of the transport that the client declares. A multipath transport may have
/// fallen back to one path; a single-path transport never has several.
fn mismatch(claimed: Transport, used: &str) -> Option<String> {
    let used: Transport = used.parse().ok()?;
    let is_legal = claimed.is_quic() == used.is_quic() && (claimed.is_multipath() || !used.is_multipath());
    (!is_legal).then(|| {
        format!(
            "the client declares {claimed}, but the connection is {used}: \
             a proxy on the path, or a client that opens another transport than it declares"
        )
    })
}

/// Waits for the peer to read all data and close.
fn close_gracefully(channel: &mut StreamChannel<'_>) {
    channel.connection.finish_sending();
    channel.drain(CLOSING_TIME);
}

fn refuse(shared: &ServerState, channel: &mut StreamChannel<'_>, refusal: TestRefusal) {
    let (code, client) = (refusal.code, channel.connection.peer_addr());
    info!(?code, message = refusal.message, "refused");
    shared.observer.on_event(&ServerEvent::Refused { code, message: &refusal.message, client });
    if channel.write(&ControlFrame::Refuse(refusal), &mut shared.handshake_wait()).is_ok() {
        close_gracefully(channel);
    }
}

fn begin(
    shared: &ServerState,
    connection: &Arc<Connection>,
    channel: &mut StreamChannel<'_>,
    plan: TestPlan,
    index: u32,
    member: GroupMember,
    interval: Duration,
) -> Result<TestStream, StreamError> {
    let stream = TestStream::new(plan, index, Arc::clone(connection), member, &shared.clock, interval)?;
    if let Some(carrier) = carrier(shared, connection, &stream) {
        stream.set_carrier(carrier);
    }
    channel.write(&ControlFrame::Accept, &mut shared.handshake_wait())?;
    channel.expect(&ControlFrame::Start, &mut shared.handshake_wait())?;
    channel.write(&ControlFrame::Start, &mut shared.handshake_wait())?;
    stream.start_together(channel.clock, &mut shared.handshake_wait())?;
    Ok(stream)
}

/// How the datagrams of the test travel. Over udp the paths may join the test from the server's ACCEPT on.
fn carrier(
    shared: &ServerState,
    connection: &Arc<Connection>,
    stream: &TestStream,
) -> Option<DatagramCarrier> {
    let PatternParameters::Datagrams(parameters) = &stream.plan.parameters else { return None };
    if stream.plan.transport != Transport::Udp {
        return connection.datagrams().map(DatagramCarrier::Quic);
    }
    let receiver = stream.datagram_receiver();
    let pacers = stream.plan.pacers.clone();
    Some(DatagramCarrier::Server(shared.flows.open(stream.plan.test, parameters.paths, receiver, pacers)))
}

/// Sends the client the reason for the end of its test, if the protocol permits it.
fn break_off(
    shared: &ServerState,
    channel: &mut StreamChannel<'_>,
    stream: &TestStream,
    error: &StreamError,
) {
    let ours = matches!(error, StreamError::Fault(ReceiveFault::Excess { .. }) | StreamError::Overtime);
    if ours && !stream.work.is_sending() {
        refuse(shared, channel, TestRefusal::new(RefusalCode::Limit, error.to_string(), None));
    }
    stream.connection.abort();
}

impl ServerState {
    /// Waits until a test may hold memory, after earlier tests of its client have ended. It polls, because a slot of
    /// the test, a slot of the stream, another stream of the test, an abort or a shutdown may end the wait.
    fn may_hold_memory(&self, connection: &Connection, group: &Arc<StreamGroup>) -> bool {
        let client = Client::from(connection.peer_addr().ip());
        let deadline = self.clock.now() + EARLIER_TESTS;
        while !self.registry.memory.acquire(client, &mut lock(&group.memory)) {
            let now = self.clock.now();
            if now >= deadline || self.stopping.load(Ordering::SeqCst) || connection.is_aborted() {
                return false;
            }
            self.clock.sleep_until(now + POLL_INTERVAL);
        }
        connection.begin_test(EARLIER_TESTS)
    }

    fn mptcp_counters(&self) -> Option<BTreeMap<String, u64>> {
        self.options.mptcp_counters.as_ref()?.read()
    }

    pub(super) fn handshake_wait(&self) -> Wait {
        Wait::with_timeout(self.clock.now(), self.options.limits.handshake_timeout, "send its request")
    }

    fn plan(&self, hello: &HelloFrame, request: TestRequest, admission: Admission) -> TestPlan {
        let limits = &self.options.limits;
        let patience = request.patience.saturating_add(EXTRA_PATIENCE);
        // No peer can extend the test's data beyond this time, which counts from the test's first stream on.
        let deadline = admission.started + limits.longest_test(request.patience);
        TestPlan {
            side: Side::Server,
            test: hello.test,
            transport: request.transport,
            ceiling_bytes: limits.stream_ceiling(&request.parameters),
            patience,
            parameters: request.parameters,
            started: admission.started,
            pacers: admission.pacers,
            handshake: None,
            deadline,
        }
    }
}

/// Longest wait for the end of a test that its client has abandoned; then the client must retry.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The server aborts a client that reads its record more slowly than this.
const LEAST_BYTES_PER_SECOND: u64 = 64 * 1024;

/// Retry time of a client that is refused temporarily.
const RETRY_AFTER_MS: u64 = 1000;

fn serve_fetch(shared: &ServerState, channel: &mut StreamChannel<'_>, fetch: Fetch) {
    if fetch.version != VERSION {
        let message = format!("it speaks version {VERSION} of the test protocol");
        return refuse(shared, channel, TestRefusal::new(RefusalCode::Unsupported, message, None));
    }
    let clock = shared.clock.as_ref();
    let deadline = clock.now() + END_TIMEOUT;
    let waits = || fetch.end_test && clock.now() < deadline && !channel.connection.is_aborted();
    while shared.registry.is_running(fetch.test) == Some(true) && waits() {
        shared.registry.end(fetch.test);
        clock.sleep_until(clock.now() + POLL_INTERVAL);
    }
    match shared.registry.is_running(fetch.test) {
        None => {
            if channel.write(&ControlFrame::NotFound, &mut shared.handshake_wait()).is_ok() {
                close_gracefully(channel);
            }
        }
        Some(true) => {
            let message = "the test still runs; its record is complete when it ends";
            refuse(shared, channel, busy(message, RETRY_AFTER_MS));
        }
        Some(false) => match hand_out(shared, channel, fetch.test) {
            Ok(()) => close_gracefully(channel),
            Err(Some(refusal)) => refuse(shared, channel, refusal),
            Err(None) => {}
        },
    }
}

/// Writes the record of an ended test. Errors: the refusal to send, if any.
fn hand_out(
    shared: &ServerState,
    channel: &StreamChannel<'_>,
    test: TestId,
) -> Result<(), Option<TestRefusal>> {
    let Some(_slot) = shared.fetches.acquire(Client::from(channel.connection.peer_addr().ip())) else {
        return Err(Some(busy("it already sends as many records as its limit allows", RETRY_AFTER_MS)));
    };
    let now = shared.clock.now();
    let json = shared
        .registry
        .hand_out(now, test)
        .map_err(|again_ms| Some(busy("this record was fetched too often recently", again_ms)))?;
    let time = Duration::from_secs(json.len() as u64 / LEAST_BYTES_PER_SECOND);
    let patience = shared.options.limits.handshake_timeout;
    let mut wait = Wait::with_timeout(now, patience + time, "take the record").or_silence(patience);
    channel.write_record(&json, &mut wait).map_err(|_| None)
}

fn busy(message: &str, retry_after_ms: u64) -> TestRefusal {
    TestRefusal::new(RefusalCode::Busy, message, Some(retry_after_ms))
}
