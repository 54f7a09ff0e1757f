//! The tests a server knows: running ones, and the records of those that are over.

use super::Limits;
use crate::protocol::{MAX_RECORD_BYTES, Refusal, RefusalCode, TestId};
use crate::record::{EndRecord, ServerRecord};
use crate::request::Request;
use crate::stream::{Stream, lock};
use pathbench_record::time::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a busy server takes for the duration of a test by bytes.
const UNFORESEEABLE: Duration = Duration::from_secs(10);

/// All tests, by id.
pub(super) struct Registry {
    limits: Limits,
    tests: Mutex<HashMap<TestId, Test>>,
}

/// One test.
struct Test {
    request: Request,
    started: Timestamp,
    /// Indices of the streams that ever joined.
    joined: BTreeSet<u32>,
    /// Streams that joined and have not left.
    live: usize,
    running: Vec<Arc<Stream>>,
    finished: Vec<Kept>,
    ended: Option<Timestamp>,
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
}

impl Registry {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, tests: Mutex::new(HashMap::new()) }
    }

    /// Lets a stream into its test, or says why not.
    pub(super) fn join(
        &self,
        now: Timestamp,
        id: TestId,
        stream: u32,
        request: &Request,
    ) -> Result<Place, Refusal> {
        let refuse = |code, message: String| Err(Refusal::new(code, message, None));
        if let Some(objection) = self.limits.objection(&request.parameters, request.patience) {
            return refuse(RefusalCode::Limit, objection);
        }
        let streams = request.parameters.streams();
        if stream >= streams {
            let message = format!("stream {stream} of a test of {streams} streams");
            return refuse(RefusalCode::BadRequest, message);
        }
        let mut tests = lock(&self.tests);
        self.forget(&mut tests, now);
        if let Some(test) = tests.get_mut(&id) {
            if test.request != *request {
                return refuse(
                    RefusalCode::BadRequest,
                    "streams of one test ask for different things".to_owned(),
                );
            }
            if test.ended.is_some() || !test.joined.insert(stream) {
                let message = "a test of this id has already taken place; ids are for one test only";
                return refuse(RefusalCode::BadRequest, message.to_owned());
            }
            test.live += 1;
            return Ok(Place { started: test.started });
        }
        let running: Vec<&Test> = tests.values().filter(|test| test.ended.is_none()).collect();
        if running.len() >= self.limits.max_tests {
            let wait = running.iter().map(|test| test.expected_rest(now)).min().unwrap_or_default();
            return Err(Refusal::new(
                RefusalCode::Busy,
                format!("it is busy with {} tests, as many as it runs at a time", running.len()),
                Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            ));
        }
        let test = Test {
            request: request.clone(),
            started: now,
            joined: BTreeSet::from([stream]),
            live: 1,
            running: Vec::new(),
            finished: Vec::new(),
            ended: None,
        };
        tests.insert(id, test);
        Ok(Place { started: now })
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

    /// A stream that joined is over: keeps its record, if it came to have one. With the last stream the test is
    /// over and its place free.
    pub(super) fn leave(&self, now: Timestamp, id: TestId, stream: u32, record: Option<Vec<u8>>) {
        let mut tests = lock(&self.tests);
        if let Some(test) = tests.get_mut(&id) {
            test.running.retain(|running| running.index() != stream);
            test.finished.extend(record.map(|server| Kept { server: server.into(), client: None, stream }));
            test.live -= 1;
            if test.live == 0 {
                test.ended = Some(now);
                // A client that went before any data leaves nothing worth keeping.
                if test.finished.is_empty() {
                    tests.remove(&id);
                }
            }
        }
        self.forget(&mut tests, now);
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
