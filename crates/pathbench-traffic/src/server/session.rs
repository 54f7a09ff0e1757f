//! One connection of a server: what it asks for, and its stream of a test.

use super::fetch::serve_fetch;
use super::limits::EXTRA_PATIENCE;
use super::registry::{Applicant, Place, StreamResult};
use super::slot::TestSlot;
use super::{Client, ServerEvent, Shared};
use crate::protocol::{Frame, Hello, Refusal, RefusalCode, VERSION};
use crate::request::{Request, RequestError};
use crate::stream::{Channel, Companions, Member, Stream, StreamError, TestPlan, Wait};
use crate::throughput::ReceiveFault;
use pathbench_record::sample::Side;
use pathbench_record::transport::Transport;
use pathbench_transport::Connection;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long earlier tests, whose streams and QUIC connections hold memory until they end, may still take to end.
const EARLIER_TESTS: Duration = Duration::from_secs(3);
const EARLIER_INTERVAL: Duration = Duration::from_millis(5);

/// How long a peer may take to close after the last message.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Serves one connection to its end. A peer that speaks another language, or nothing, is dropped.
pub(super) fn serve(shared: &Shared, connection: &Arc<Connection>) {
    let clock = shared.clock.as_ref();
    let mut channel = Channel::new(connection, clock);
    let mut wait = shared.handshake_wait();
    match channel.frame(&mut wait) {
        Ok(Frame::Hello(hello)) => serve_stream(shared, connection, &mut channel, &hello),
        Ok(Frame::Fetch(fetch)) => serve_fetch(shared, &mut channel, fetch),
        Ok(_) | Err(_) => connection.abort(),
    }
}

fn serve_stream(shared: &Shared, connection: &Arc<Connection>, channel: &mut Channel<'_>, hello: &Hello) {
    let clock = shared.clock.as_ref();
    let (id, index) = (hello.test, hello.stream);
    let (place, request) = match admit(shared, connection, hello) {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(shared, channel, refusal),
    };
    let slot = TestSlot::of(shared, id, index);
    if let Some(number) = place.begins {
        shared.tell(&ServerEvent::Started {
            number,
            pattern: request.parameters.name(),
            transport: request.transport,
            client: connection.peer_addr(),
        });
    }
    // Never more often than the server samples.
    let interval = shared.options.sample_interval.max(request.sample_interval);
    let companions = Arc::clone(&place.companions);
    let member = companions.member();
    let plan = shared.plan(hello, request, place);
    if !shared.may_hold_memory(connection, &companions) {
        drop((slot, member));
        let message = "connections of earlier tests have not ended yet".to_owned();
        let wait_ms = u64::try_from(EARLIER_TESTS.as_millis()).ok();
        return refuse(shared, channel, Refusal::new(RefusalCode::Busy, message, wait_ms));
    }
    let Ok(stream) = begin(shared, connection, channel, plan, index, member, interval) else {
        drop(slot);
        return connection.abort();
    };
    let stream = Arc::new(stream);
    shared.registry.run(id, &stream);
    let result = stream.run(channel, &|_| {});
    if let Err(StreamError::Panic { message }) = &result {
        shared.report_panic("stream", message);
    }
    let mut record = stream.finish(clock);
    if shared.stopping.load(Ordering::SeqCst) {
        // Nobody can fetch it any more, and its samples are what takes time.
        record.samples.clear();
    }
    let (sent_bytes, received_bytes) = stream.progress();
    let json = record.fit(stream.record_bytes());
    // Before the client hears of the end: its next test must find the place free.
    slot.release(json.is_ok().then_some(StreamResult { record, sent_bytes, received_bytes }));
    match (result, json) {
        (Err(error), _) => break_off(shared, channel, &stream, &error),
        (Ok(()), Ok(json)) => {
            let written = channel.write_record(&json, &mut stream.record_wait(clock));
            // The client, which has it all, may begin its next test and take its time to close this connection.
            drop((json, stream, companions));
            if written.is_ok() {
                end_in_order(channel);
            }
        }
        (Ok(()), Err(error)) => {
            refuse(shared, channel, Refusal::new(RefusalCode::Limit, error.to_string(), None));
        }
    }
}

fn admit(shared: &Shared, connection: &Connection, hello: &Hello) -> Result<(Place, Request), Refusal> {
    let request = understand(hello)?;
    shared
        .options
        .access
        .check(request.token.as_deref())
        .map_err(|refusal| Refusal::new(RefusalCode::Access, refusal.to_string(), None))?;
    if let Some(message) = mismatch(request.transport, &connection.in_force().protocol) {
        return Err(Refusal::new(RefusalCode::BadRequest, message, None));
    }
    let applicant = Applicant {
        client: Client::from(connection.peer_addr().ip()),
        draining: shared.draining.load(Ordering::SeqCst),
    };
    let place = shared.registry.join(shared.clock.now(), hello.test, hello.stream, &request, applicant)?;
    Ok((place, request))
}

/// Why a test cannot be of the transport that its client says. A multipath transport may have fallen back to one path;
/// a transport of one path never has several.
fn mismatch(claimed: Transport, used: &str) -> Option<String> {
    let used: Transport = used.parse().ok()?;
    let is_quic = |transport| matches!(transport, Transport::Quic | Transport::Mpquic);
    let is_legal = is_quic(claimed) == is_quic(used) && (claimed.is_multipath() || !used.is_multipath());
    (!is_legal).then(|| {
        format!(
            "the test is said to be of {claimed}, but the connection is {used}: \
             a proxy on the path, or a client that opens another transport than it says"
        )
    })
}

fn understand(hello: &Hello) -> Result<Request, Refusal> {
    if hello.version != VERSION {
        let message = format!(
            "it speaks version {VERSION} of the test protocol, the client version {}; \
             use the same Pathbench on both ends",
            hello.version
        );
        return Err(Refusal::new(RefusalCode::Unsupported, message, None));
    }
    Request::from_json(&hello.request).map_err(|error| {
        let code = match error {
            RequestError::UnknownPattern { .. } => RefusalCode::Unsupported,
            _ => RefusalCode::BadRequest,
        };
        Refusal::new(code, error.to_string(), None)
    })
}

/// What was to be said is said: the peer is to read it all and close.
pub(super) fn end_in_order(channel: &mut Channel<'_>) {
    channel.connection().finish_sending();
    channel.drain(CLOSING_TIME);
}

pub(super) fn refuse(shared: &Shared, channel: &mut Channel<'_>, refusal: Refusal) {
    let (code, client) = (refusal.code, channel.connection().peer_addr());
    shared.tell(&ServerEvent::Refused { code, message: &refusal.message, client });
    if channel.write(&Frame::Refuse(refusal), &mut shared.handshake_wait()).is_ok() {
        end_in_order(channel);
    }
}

fn begin(
    shared: &Shared,
    connection: &Arc<Connection>,
    channel: &mut Channel<'_>,
    plan: TestPlan,
    index: u32,
    member: Member,
    interval: Duration,
) -> Result<Stream, StreamError> {
    channel.write(&Frame::Accept, &mut shared.handshake_wait())?;
    let stream = Stream::new(plan, index, Arc::clone(connection), member, &shared.clock, interval)?;
    match channel.frame(&mut shared.handshake_wait())? {
        Frame::Start => Ok(stream),
        frame => Err(StreamError::unexpected("START", frame)),
    }
}

/// Tells a client that is still there why its test ends here, where the protocol has room for it.
fn break_off(shared: &Shared, channel: &mut Channel<'_>, stream: &Stream, error: &StreamError) {
    let ours = matches!(error, StreamError::Fault(ReceiveFault::Excess { .. }) | StreamError::Overtime);
    if ours && !stream.is_sending() {
        refuse(shared, channel, Refusal::new(RefusalCode::Limit, error.to_string(), None));
    }
    stream.connection.abort();
}

impl Shared {
    /// Whether a test may hold memory, once earlier ones of its client have ended.
    fn may_hold_memory(&self, connection: &Connection, companions: &Arc<Companions>) -> bool {
        let client = Client::from(connection.peer_addr().ip());
        let deadline = self.clock.now() + EARLIER_TESTS;
        while !self.registry.hold_memory(client, companions) {
            let now = self.clock.now();
            if now >= deadline || self.stopping.load(Ordering::SeqCst) || connection.is_aborted() {
                return false;
            }
            self.clock.sleep_until(now + EARLIER_INTERVAL);
        }
        connection.begin_test(EARLIER_TESTS)
    }

    pub(super) fn handshake_wait(&self) -> Wait {
        Wait::within(self.clock.now(), self.options.limits.handshake_timeout, "say what it wants")
    }

    fn plan(&self, hello: &Hello, request: Request, place: Place) -> TestPlan {
        let limits = &self.options.limits;
        let patience = request.patience.saturating_add(EXTRA_PATIENCE);
        // Whatever the peer does, the test's data is over by then. Counted from the test's first stream on.
        let deadline = place.started + limits.longest_test(request.patience);
        TestPlan {
            side: Side::Server,
            test: hello.test,
            transport: request.transport,
            ceiling_bytes: limits.stream_ceiling(&request.parameters),
            patience,
            parameters: request.parameters,
            started: place.started,
            pacers: place.pacers,
            handshake: None,
            deadline,
        }
    }
}
