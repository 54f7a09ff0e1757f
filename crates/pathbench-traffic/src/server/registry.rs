//! The tests a server knows: running ones, and the records of those that are over.

use super::{Client, Limits, Pacers};
use crate::protocol::{Refusal, RefusalCode};
use crate::request::Request;
use crate::stream::{Companions, Stream, lock};
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES};
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use pathbench_transport::contain_panic;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// What a busy server takes for the duration of a test by bytes.
const UNFORESEEABLE: Duration = Duration::from_secs(10);

/// A record is handed out this often at once, and once more after each of these times.
const MOST_HANDED_OUT: u64 = 8;
const HAND_OUT_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Registry {
    limits: Limits,
    tests: Mutex<HashMap<TestId, Test>>,
    /// The tests whose streams hold memory, those included that are over and whose clients do not take their records.
    in_memory: Mutex<Vec<HeldTest>>,
    next_number: AtomicU64,
}

struct Test {
    number: u64,
    client: Client,
    pacers: Option<Arc<Pacers>>,
    request: Request,
    started: Timestamp,
    joined: BTreeSet<u32>,
    live: usize,
    running: Vec<Arc<Stream>>,
    finished: Vec<EndRecord>,
    /// The record of a test that is over, as JSON: its size is known, and nothing is left to do when it is asked for.
    record: Option<Arc<[u8]>>,
    handed_out: u64,
    completed: u32,
    sent_bytes: u64,
    received_bytes: u64,
    ended: Option<Timestamp>,
    companions: Weak<Companions>,
}

struct HeldTest {
    client: Client,
    companions: Weak<Companions>,
    streams: usize,
}

pub(super) struct Place {
    pub(super) started: Timestamp,
    pub(super) pacers: Option<Arc<Pacers>>,
    pub(super) begins: Option<u64>,
    pub(super) companions: Arc<Companions>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Applicant {
    pub(super) client: Client,
    pub(super) draining: bool,
}

pub(super) struct Ended {
    pub(super) number: u64,
    pub(super) completed: bool,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) lasted: Duration,
}

pub(super) struct StreamResult {
    pub(super) record: EndRecord,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Registry {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, tests: Mutex::default(), in_memory: Mutex::default(), next_number: AtomicU64::new(1) }
    }

    pub(super) fn running(&self) -> usize {
        lock(&self.tests).values().filter(|test| test.ended.is_none()).count()
    }

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
            return test.join(now, stream, request, self.limits.handshake_timeout);
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
            record: None,
            handed_out: 0,
            completed: 0,
            sent_bytes: 0,
            received_bytes: 0,
            ended: None,
            companions: Arc::downgrade(&companions),
        };
        tests.insert(id, test);
        Ok(Place { started: now, pacers, begins: Some(number), companions })
    }

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

    /// Whether a stream may hold memory: its test has room beside earlier ones whose streams have not ended, and so has the
    /// stream, which counts until its test is over. An honest client's streams have a connection each all that time.
    pub(super) fn hold_memory(&self, client: Client, companions: &Arc<Companions>) -> bool {
        let limits = &self.limits;
        let mut held = lock(&self.in_memory);
        held.retain(|test| test.companions.strong_count() > 0);
        let streams = |of: &dyn Fn(&HeldTest) -> bool| -> usize {
            held.iter().filter(|test| of(test)).map(|test| test.streams).sum()
        };
        let is_own = |test: &HeldTest| test.client == client;
        if streams(&|_| true) >= limits.max_connections
            || streams(&is_own) >= limits.max_connections_per_client
        {
            return false;
        }
        let tests = (held.len(), held.iter().filter(|test| is_own(test)).count());
        if let Some(test) = held.iter_mut().find(|test| test.companions.as_ptr() == Arc::as_ptr(companions)) {
            test.streams += 1;
            return true;
        }
        let has_room = tests.0 < limits.max_tests && tests.1 < limits.max_tests_per_client;
        if has_room {
            held.push(HeldTest { client, companions: Arc::downgrade(companions), streams: 1 });
        }
        has_room
    }

    pub(super) fn run(&self, id: TestId, stream: &Arc<Stream>) {
        if let Some(test) = lock(&self.tests).get_mut(&id) {
            test.running.push(Arc::clone(stream));
        }
    }

    /// A stream that joined is over: keeps its record, if it came to that. With the last stream the test is over and
    /// its place free.
    pub(super) fn leave(
        &self,
        now: Timestamp,
        id: TestId,
        stream: u32,
        result: Option<StreamResult>,
    ) -> Option<Ended> {
        let mut tests = lock(&self.tests);
        let test = tests.get_mut(&id)?;
        test.running.retain(|running| running.index() != stream);
        if let Some(result) = result {
            test.completed += u32::from(result.record.completed);
            test.sent_bytes = test.sent_bytes.saturating_add(result.sent_bytes);
            test.received_bytes = test.received_bytes.saturating_add(result.received_bytes);
            test.finished.push(result.record);
        }
        test.live -= 1;
        if test.live > 0 {
            return None;
        }
        test.ended = Some(now);
        let ended = test.summary(now);
        let finished = std::mem::take(&mut test.finished);
        drop(tests);
        // This takes its time, in which others may join theirs. A slot is released here, maybe because of a panic: a second
        // one would end the process.
        let record = contain_panic(|| EndRecord::of_streams(finished)?.fit(MAX_RECORD_BYTES).ok());
        let record = record.ok().flatten();
        let mut tests = lock(&self.tests);
        match (record, tests.get_mut(&id)) {
            (Some(record), Some(test)) => test.record = Some(record.into()),
            // A client that went before any data leaves nothing worth keeping.
            _ => drop(tests.remove(&id)),
        }
        self.forget(&mut tests, now);
        Some(ended)
    }

    pub(super) fn end(&self, id: TestId) {
        if let Some(test) = lock(&self.tests).get(&id) {
            test.running.iter().for_each(|stream| stream.connection.abort());
        }
    }

    pub(super) fn dissolve(&self) {
        lock(&self.tests)
            .values()
            .filter_map(|test| test.companions.upgrade())
            .for_each(|test| test.dissolve());
    }

    /// Whether a test runs, or its record is not ready yet; `None` when nothing is known of it.
    pub(super) fn is_running(&self, id: TestId) -> Option<bool> {
        lock(&self.tests).get(&id).map(|test| test.record.is_none())
    }

    /// The record of a test that is over, as JSON.
    ///
    /// In how many milliseconds it may be asked for again; it was handed out too often lately.
    pub(super) fn hand_out(&self, now: Timestamp, id: TestId) -> Result<Arc<[u8]>, u64> {
        let mut tests = lock(&self.tests);
        self.forget(&mut tests, now);
        // One that was forgotten in this moment is not known when it is asked for again.
        tests.get_mut(&id).map_or(Err(0), |test| test.hand_out(now))
    }

    /// Drops records that are too old, too many or too large; running tests stay. The client that has the most kept
    /// loses its oldest, so that one client does not drive out the records of others.
    fn forget(&self, tests: &mut HashMap<TestId, Test>, now: Timestamp) {
        let limits = &self.limits;
        tests.retain(|_, test| test.ended.is_none_or(|ended| now.since(ended) <= limits.keep_records_for));
        let mut kept: HashMap<Client, Kept> = HashMap::new();
        for (id, test) in tests.iter() {
            let Some(ended) = test.ended else { continue };
            let own = kept.entry(test.client).or_default();
            own.bytes += test.bytes();
            own.oldest_first.insert((ended, *id));
        }
        loop {
            let bytes: usize = kept.values().map(|own| own.bytes).sum();
            let count: usize = kept.values().map(|own| own.oldest_first.len()).sum();
            let most = if bytes > limits.max_record_bytes {
                kept.values_mut().max_by_key(|own| own.bytes)
            } else if count > limits.max_records {
                kept.values_mut().max_by_key(|own| own.oldest_first.len())
            } else {
                return;
            };
            let Some(own) = most else { return };
            let Some((_, id)) = own.oldest_first.pop_first() else { return };
            own.bytes -= tests.remove(&id).map_or(0, |test| test.bytes());
        }
    }
}

#[derive(Default)]
struct Kept {
    bytes: usize,
    oldest_first: BTreeSet<(Timestamp, TestId)>,
}

impl Test {
    /// A further stream of it. All must come within `time`, or one after the other could keep the test's slot.
    fn join(
        &mut self,
        now: Timestamp,
        stream: u32,
        request: &Request,
        time: Duration,
    ) -> Result<Place, Refusal> {
        let refuse = |message: &str| Err(Refusal::new(RefusalCode::BadRequest, message, None));
        if self.request != *request {
            return refuse("streams of one test ask for different things");
        }
        let over = "a test of this id has already taken place; ids are for one test only";
        if self.ended.is_some() || !self.joined.insert(stream) {
            return refuse(over);
        }
        if now.since(self.started) > time {
            return refuse("the other streams of this test came too long ago");
        }
        // Absent while the last of its streams ends.
        let Some(companions) = self.companions.upgrade() else { return refuse(over) };
        self.live += 1;
        Ok(Place { started: self.started, pacers: self.pacers.clone(), begins: None, companions })
    }

    fn hand_out(&mut self, now: Timestamp) -> Result<Arc<[u8]>, u64> {
        let (Some(ended), Some(record)) = (self.ended, &self.record) else { return Err(0) };
        let intervals = self.handed_out.saturating_sub(MOST_HANDED_OUT - 1);
        let due = ended + HAND_OUT_INTERVAL.saturating_mul(u32::try_from(intervals).unwrap_or(u32::MAX));
        if now < due {
            return Err(u64::try_from(due.since(now).as_millis()).unwrap_or(u64::MAX).saturating_add(1));
        }
        self.handed_out += 1;
        Ok(Arc::clone(record))
    }

    fn summary(&self, now: Timestamp) -> Ended {
        Ended {
            number: self.number,
            completed: self.completed == self.request.parameters.streams(),
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            lasted: now.since(self.started),
        }
    }

    fn bytes(&self) -> usize {
        self.record.as_ref().map_or(0, |json| json.len())
    }

    fn expected_rest(&self, now: Timestamp) -> Duration {
        let whole = self.request.parameters.nominal_duration().unwrap_or(UNFORESEEABLE);
        (self.started + whole).since(now).max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_test_holds_memory_until_its_streams_have_ended() {
        let limits =
            Limits { max_tests: 2, max_tests_per_client: 1, max_connections: 3, ..Limits::default() };
        let registry = Registry::new(limits);
        let client = |last| Client::from(IpAddr::from([192, 0, 2, last]));
        let tests: Vec<_> = (0..4).map(|_| Companions::new(1)).collect();
        assert!(registry.hold_memory(client(1), &tests[0]));
        assert!(!registry.hold_memory(client(1), &tests[1]), "a second one of the client");
        assert!(registry.hold_memory(client(2), &tests[2]));
        assert!(!registry.hold_memory(client(3), &tests[3]), "a third one in all");
        assert!(registry.hold_memory(client(1), &tests[0]), "another stream of it");
        assert!(!registry.hold_memory(client(1), &tests[0]), "a fourth stream in all");
        drop(tests);
        assert!(registry.hold_memory(client(1), &Companions::new(1)));
    }
}
