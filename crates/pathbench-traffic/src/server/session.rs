//! One connection of a server: what it asks for, and its stream of a test.

use super::client::Client;
use super::registry::{Applicant, Ended, Legacy, Place};
use super::{MAX_CLIENT_RECORD_BYTES, ServerEvent, Shared};
use crate::iperf::ReceiveFault;
use crate::protocol::{Fetch, Frame, Hello, MAX_RECORD_BYTES, Refusal, RefusalCode, TestId, VERSION};
use crate::request::{Request, RequestError};
use crate::stream::{Channel, Companions, Stream, StreamError, TestPlan, Wait};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_transport::Connection;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The server is this much more patient than the client, so that the client is the one to say what happened.
const EXTRA_PATIENCE: Duration = Duration::from_secs(2);

/// How long the end of a test that a client gave up may take before its record is handed out as it is.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a client may take for a record, however slowly it reads.
const FETCH_TIME: Duration = Duration::from_secs(120);

/// How long a peer that was told something final may take to close.
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
    if let Some(number) = place.begins {
        shared.tell(&ServerEvent::Started {
            number,
            pattern: request.parameters.name(),
            transport: request.transport,
            client: connection.peer_addr(),
        });
    }
    let companions = Arc::clone(&place.companions);
    // Never more often than is the server's way.
    let interval = shared.options.sample_interval.max(request.sample_interval.unwrap_or_default());
    let plan = shared.plan(hello, request, place, clock.now());
    let begun = begin(shared, connection, channel, plan, index, Arc::clone(&companions), interval);
    let Ok(stream) = begun else {
        companions.one_ended();
        shared.leave(id, index, None);
        return connection.abort();
    };
    let stream = Arc::new(stream);
    shared.registry.run(id, &stream);
    let result = stream.run(channel, &|_| {});
    let record = stream.finish(clock);
    let (completed, (sent_bytes, received_bytes)) = (record.completed, stream.progress());
    let record = record.to_bounded_json(MAX_RECORD_BYTES);
    // Before the client hears of the end: its next test must find the place free.
    let json = record.as_ref().ok().cloned();
    shared.leave(id, index, json.map(|json| Legacy { json, completed, sent_bytes, received_bytes }));
    match (result, record) {
        (Err(error), _) => break_off(shared, channel, &stream, &error),
        (Ok(()), Ok(json)) => hand_over(shared, channel, &stream, hello, json),
        (Ok(()), Err(error)) => {
            refuse(shared, channel, Refusal::new(RefusalCode::Limit, error.to_string(), None));
        }
    }
}

/// Whether this client may run this test, now.
fn admit(shared: &Shared, connection: &Connection, hello: &Hello) -> Result<(Place, Request), Refusal> {
    let request = understand(hello)?;
    shared
        .options
        .access
        .check(request.token.as_deref())
        .map_err(|refusal| Refusal::new(RefusalCode::Access, refusal.to_string(), None))?;
    let applicant = Applicant {
        client: Client::from(connection.peer_addr().ip()),
        draining: shared.draining.load(Ordering::SeqCst),
    };
    let place = shared.registry.join(shared.clock.now(), hello.test, hello.stream, &request, applicant)?;
    Ok((place, request))
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

fn refuse(shared: &Shared, channel: &mut Channel<'_>, refusal: Refusal) {
    let (code, client) = (refusal.code, channel.connection().peer_addr());
    shared.tell(&ServerEvent::Refused { code, message: &refusal.message, client });
    if channel.write(&Frame::Refuse(refusal), &mut shared.handshake_wait()).is_ok() {
        channel.connection().finish_sending();
        channel.drain(CLOSING_TIME);
    }
}

/// ACCEPT, and START from the client.
fn begin(
    shared: &Shared,
    connection: &Arc<Connection>,
    channel: &mut Channel<'_>,
    plan: TestPlan,
    index: u32,
    companions: Arc<Companions>,
    interval: Duration,
) -> Result<Stream, StreamError> {
    channel.write(&Frame::Accept, &mut shared.handshake_wait())?;
    let stream = Stream::new(plan, index, Arc::clone(connection), companions, &shared.clock, interval)?;
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

/// Exchanges this end's record for the client's, and keeps that.
fn hand_over(shared: &Shared, channel: &mut Channel<'_>, stream: &Stream, hello: &Hello, record: Vec<u8>) {
    let clock = shared.clock.as_ref();
    let exchange = || {
        channel.write(&Frame::Record(record), &mut stream.wait(clock))?;
        channel.accept_bodies_of(MAX_CLIENT_RECORD_BYTES);
        match channel.frame(&mut stream.wait(clock))? {
            Frame::Record(client) => Ok(client),
            frame => Err(StreamError::unexpected("RECORD", frame)),
        }
    };
    if let Ok(client) = exchange() {
        shared.registry.keep_client(hello.test, hello.stream, client);
    }
}

fn serve_fetch(shared: &Shared, channel: &mut Channel<'_>, fetch: Fetch) {
    if fetch.version != VERSION {
        let message = format!("it speaks version {VERSION} of the test protocol");
        return refuse(shared, channel, Refusal::new(RefusalCode::Unsupported, message, None));
    }
    let clock = shared.clock.as_ref();
    if fetch.end_test {
        let deadline = clock.now() + END_TIMEOUT;
        while shared.registry.is_running(fetch.test) == Some(true) && clock.now() < deadline {
            shared.registry.end(fetch.test);
            clock.sleep_until(clock.now() + Duration::from_millis(5));
        }
    }
    let answer = match shared.registry.record(clock.now(), fetch.test) {
        Some(json) => Frame::Record(json),
        None => Frame::NotFound,
    };
    // A record is small enough for that on any path that a test was run on.
    let deadline = clock.now() + FETCH_TIME;
    let mut wait = Wait::patient(clock.now(), shared.options.limits.handshake_timeout, Some(deadline));
    if channel.write(&answer, &mut wait).is_ok() {
        channel.connection().finish_sending();
        channel.drain(CLOSING_TIME);
    }
}

impl Shared {
    fn handshake_wait(&self) -> Wait {
        Wait::strict(self.clock.now(), self.options.limits.handshake_timeout, "say what it wants")
    }

    /// A stream that joined its test is over.
    fn leave(&self, test: TestId, stream: u32, legacy: Option<Legacy>) {
        if let Some(ended) = self.registry.leave(self.clock.now(), test, stream, legacy) {
            let Ended { number, completed, sent_bytes, received_bytes, lasted } = ended;
            self.tell(&ServerEvent::Ended { number, completed, sent_bytes, received_bytes, lasted });
        }
    }

    fn plan(&self, hello: &Hello, request: Request, place: Place, now: Timestamp) -> TestPlan {
        let limits = &self.options.limits;
        // Whatever the peer does, the connection is over by then.
        let deadline =
            now + limits.handshake_timeout + limits.max_duration + (request.patience + EXTRA_PATIENCE) * 2;
        TestPlan {
            side: Side::Server,
            test: hello.test,
            transport: request.transport,
            ceiling_bytes: limits.stream_ceiling(&request.parameters),
            patience: request.patience + EXTRA_PATIENCE,
            parameters: request.parameters,
            started: place.started,
            pacers: place.pacers,
            handshake: None,
            deadline: Some(deadline),
        }
    }
}
