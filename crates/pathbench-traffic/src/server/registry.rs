//! The tests a server knows: running ones, and the records of those that are over.

use super::client::Client;
use super::{Limits, Pacers};
use crate::protocol::{MAX_RECORD_BYTES, Refusal, RefusalCode, TestId};
use crate::record::{EndRecord, ServerRecord};
use crate::request::Request;
use crate::stream::{Companions, Stream, lock};
use pathbench_record::time::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a busy server takes for the duration of a test by bytes.
const UNFORESEEABLE: Duration = Duration::from_secs(10);

/// All tests, by id.
pub(super) struct Registry {
    limits: Limits,
    tests: Mutex<HashMap<TestId, Test>>,
    next_number: AtomicU64,
}

/// One test.
struct Test {
    number: u64,
    client: Client,
    pacers: Option<Arc<Pacers>>,
    request: Request,
    started: Timestamp,
    /// Indices of the streams that ever joined.
    joined: BTreeSet<u32>,
    /// Streams that joined and have not left.
    live: usize,
    running: Vec<Arc<Stream>>,
    finished: Vec<Kept>,
    /// Streams that ran to their end.
    completed: u32,
    sent_bytes: u64,
    received_bytes: u64,
    ended: Option<Timestamp>,
    companions: Arc<Companions>,
}

/// A stream's records, as JSON: small, and its size is known.
struct Kept {
    server: Arc<[u8]>,
    client: Option<Arc<[u8]>>,
    stream: u32,
}

/// A stream's place in its test.
pub(super) struct Place {
    /// Begin of the test, common to its streams.
    pub(super) started: Timestamp,
    /// What its client's tests together must not exceed.
    pub(super) pacers: Option<Arc<Pacers>>,
    /// The test's number, for the stream that begins it.
    pub(super) begins: Option<u64>,
    /// What the test's streams know of each other.
    pub(super) companions: Arc<Companions>,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Applicant {
    /// The client.
    pub(super) client: Client,
    /// The server takes no new tests.
    pub(super) draining: bool,
}

/// A test that is over.
pub(super) struct Ended {
    /// Its number.
    pub(super) number: u64,
    /// All its streams were there, and ran to their end.
    pub(super) completed: bool,
    /// Payload sent to the client.
    pub(super) sent_bytes: u64,
    /// Payload received from the client.
    pub(super) received_bytes: u64,
    /// How long it took.
    pub(super) lasted: Duration,
}

/// What a stream leaves behind.
pub(super) struct Legacy {
    /// Its record, as JSON.
    pub(super) json: Vec<u8>,
    pub(super) completed: bool,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Registry {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, tests: Mutex::new(HashMap::new()), next_number: AtomicU64::new(1) }
    }

    /// Tests that run.
    pub(super) fn running(&self) -> usize {
        lock(&self.tests).values().filter(|test| test.ended.is_none()).count()
    }

    /// Lets a stream into its test, or says why not.
    pub(super) fn join(
        &self,
        now: Timestamp,
        id: TestId,
        stream: u32,
        request: &Request,
        applicant: Applicant,
    ) -> Result<Place, Refusal> {
        if let Some(objection) = self.limits.objection(&request.parameters, request.patience) {
            return Err(Refusal::new(RefusalCode::Limit, objection, None));
        }
        let streams = request.parameters.streams();
        if stream >= streams {
            let message = format!("stream {stream} of a test of {streams} streams");
            return Err(Refusal::new(RefusalCode::BadRequest, message, None));
        }
        let mut tests = lock(&self.tests);
        self.forget(&mut tests, now);
        if let Some(test) = tests.get_mut(&id) {
            return test.join(stream, request);
        }
        let pacers = self.admit(now, &tests, applicant)?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let companions = Companions::new(streams);
        let test = Test {
            number,
            client: applicant.client,
            pacers: pacers.clone(),
            request: request.clone(),
            started: now,
            joined: BTreeSet::from([stream]),
            live: 1,
            running: Vec::new(),
            finished: Vec::new(),
            completed: 0,
            sent_bytes: 0,
            received_bytes: 0,
            ended: None,
            companions: Arc::clone(&companions),
        };
        tests.insert(id, test);
        Ok(Place { started: now, pacers, begins: Some(number), companions })
    }

    /// Whether there is room for a test more, and what bounds its rate.
    fn admit(
        &self,
        now: Timestamp,
        tests: &HashMap<TestId, Test>,
        applicant: Applicant,
    ) -> Result<Option<Arc<Pacers>>, Refusal> {
        if applicant.draining {
            let message = "it is being shut down and takes no new tests".to_owned();
            return Err(Refusal::new(RefusalCode::ShuttingDown, message, None));
        }
        let running: Vec<&Test> = tests.values().filter(|test| test.ended.is_none()).collect();
        let own: Vec<&Test> =
            running.iter().copied().filter(|test| test.client == applicant.client).collect();
        let busy = |tests: &[&Test], message: String| {
            let wait = tests.iter().map(|test| test.expected_rest(now)).min().unwrap_or_default();
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Err(Refusal::new(RefusalCode::Busy, message, Some(wait_ms)))
        };
        if own.len() >= self.limits.max_tests_per_client {
            let message = format!("it runs {} tests of this client already, as many as it allows", own.len());
            return busy(&own, message);
        }
        if running.len() >= self.limits.max_tests {
            let message = format!("it is busy with {} tests, as many as it runs at a time", running.len());
            return busy(&running, message);
        }
        // Shared by all tests of a client that overlap.
        let shared = own.iter().find_map(|test| test.pacers.clone());
        Ok(self.limits.max_rate_bps.map(|rate| shared.unwrap_or_else(|| Arc::new(Pacers::new(rate)))))
    }

    /// The stream's data phase begins.
    pub(super) fn run(&self, id: TestId, stream: &Arc<Stream>) {
        if let Some(test) = lock(&self.tests).get_mut(&id) {
            test.running.push(Arc::clone(stream));
        }
    }

    /// Keeps the client's record of a stream whose own is kept.
    pub(super) fn keep_client(&self, id: TestId, stream: u32, client: Vec<u8>) {
        if let Some(test) = lock(&self.tests).get_mut(&id)
            && let Some(kept) = test.finished.iter_mut().find(|kept| kept.stream == stream)
        {
            kept.client = Some(client.into());
        }
    }

    /// A stream that joined is over: keeps what it leaves, if it came to that. With the last stream the test is over
    /// and its place free.
    pub(super) fn leave(
        &self,
        now: Timestamp,
        id: TestId,
        stream: u32,
        legacy: Option<Legacy>,
    ) -> Option<Ended> {
        let mut tests = lock(&self.tests);
        let mut ended = None;
        if let Some(test) = tests.get_mut(&id) {
            test.running.retain(|running| running.index() != stream);
            if let Some(legacy) = legacy {
                test.completed += u32::from(legacy.completed);
                test.sent_bytes += legacy.sent_bytes;
                test.received_bytes += legacy.received_bytes;
                test.finished.push(Kept { server: legacy.json.into(), client: None, stream });
            }
            test.live -= 1;
            if test.live == 0 {
                test.ended = Some(now);
                ended = Some(test.epitaph(now));
                // A client that went before any data leaves nothing worth keeping.
                if test.finished.is_empty() {
                    tests.remove(&id);
                }
            }
        }
        self.forget(&mut tests, now);
        ended
    }

    /// Ends a test that the client has given up.
    pub(super) fn end(&self, id: TestId) {
        if let Some(test) = lock(&self.tests).get(&id) {
            test.running.iter().for_each(|stream| stream.connection.abort());
        }
    }

    /// Whether a test is running; `None` when it is not known.
    pub(super) fn is_running(&self, id: TestId) -> Option<bool> {
        lock(&self.tests).get(&id).map(|test| test.ended.is_none())
    }

    /// The record of a test as JSON, within the bound of a RECORD frame.
    pub(super) fn record(&self, now: Timestamp, id: TestId) -> Option<Vec<u8>> {
        let (ended, running, server, client) = {
            let mut tests = lock(&self.tests);
            self.forget(&mut tests, now);
            let test = tests.get(&id)?;
            let server: Vec<_> = test.finished.iter().map(|kept| Arc::clone(&kept.server)).collect();
            let client: Vec<_> = test.finished.iter().filter_map(|kept| kept.client.clone()).collect();
            (test.ended, test.running.clone(), server, client)
        };
        let parse = |json: &Arc<[u8]>| serde_json::from_slice::<EndRecord>(json).ok();
        let mut server: Vec<_> = server.iter().filter_map(parse).collect();
        server.extend(running.iter().map(|stream| stream.record_so_far(now)));
        let client: Vec<_> = client.iter().filter_map(parse).collect();
        server_record(ended.is_none(), EndRecord::of_streams(server)?, EndRecord::of_streams(client))
    }

    /// Drops records that are too old, too many or too large; running tests stay.
    fn forget(&self, tests: &mut HashMap<TestId, Test>, now: Timestamp) {
        let limits = &self.limits;
        tests.retain(|_, test| test.ended.is_none_or(|ended| now.since(ended) <= limits.keep_records_for));
        let mut over: Vec<(Timestamp, TestId, usize)> =
            tests.iter().filter_map(|(id, test)| Some((test.ended?, *id, test.bytes()))).collect();
        over.sort_unstable_by_key(|(ended, id, _)| (*ended, *id));
        let mut bytes: usize = over.iter().map(|(_, _, bytes)| bytes).sum();
        let mut count = over.len();
        for (_, id, size) in over {
            if count <= limits.max_records && bytes <= limits.max_record_bytes {
                return;
            }
            tests.remove(&id);
            bytes -= size;
            count -= 1;
        }
    }
}

impl Test {
    /// A further stream of it.
    fn join(&mut self, stream: u32, request: &Request) -> Result<Place, Refusal> {
        let refuse = |message: &str| Err(Refusal::new(RefusalCode::BadRequest, message.to_owned(), None));
        if self.request != *request {
            return refuse("streams of one test ask for different things");
        }
        if self.ended.is_some() || !self.joined.insert(stream) {
            return refuse("a test of this id has already taken place; ids are for one test only");
        }
        self.live += 1;
        Ok(Place {
            started: self.started,
            pacers: self.pacers.clone(),
            begins: None,
            companions: Arc::clone(&self.companions),
        })
    }

    fn epitaph(&self, now: Timestamp) -> Ended {
        Ended {
            number: self.number,
            completed: self.completed == self.request.parameters.streams(),
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            lasted: now.since(self.started),
        }
    }

    fn bytes(&self) -> usize {
        self.finished
            .iter()
            .map(|kept| kept.server.len() + kept.client.as_ref().map_or(0, |json| json.len()))
            .sum()
    }

    fn expected_rest(&self, now: Timestamp) -> Duration {
        let whole = self.request.parameters.nominal_duration().unwrap_or(UNFORESEEABLE);
        (self.started + whole).since(now).max(Duration::from_secs(1))
    }
}

/// Both ends' records in one frame; the client's goes first when there is not enough room.
fn server_record(running: bool, record: EndRecord, client: Option<EndRecord>) -> Option<Vec<u8>> {
    let half = MAX_RECORD_BYTES / 2 - 1024;
    let fitted = |record: EndRecord, most| {
        let json = record.to_bounded_json(most).ok()?;
        serde_json::from_slice::<EndRecord>(&json).ok()
    };
    let client = client.and_then(|client| fitted(client, half));
    let most = if client.is_some() { half } else { MAX_RECORD_BYTES - 1024 };
    let record = fitted(record, most)?;
    serde_json::to_vec(&ServerRecord { running, record, client }).ok()
}
