//! The registry of a server: running tests, and the records of completed ones.

use super::options::{ServerEvent, ServerLimits};
use super::quota::DailyBytes;
use crate::pacer::Pacers;
use crate::protocol::{RefusalCode, TestRefusal, TestRequest};
use crate::stream::{StreamGroup, TestStream};
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES, TestId};
use pathbench_record::network::Client;
use pathbench_record::time::Timestamp;
use pathbench_transport::{Connection, QuicSlot, QuicSlots, contain_panic, lock, most_per_network};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Assumed duration of a test by bytes, for the wait that a busy server suggests.
const ASSUMED_DURATION: Duration = Duration::from_secs(10);

/// A running test that has carried no byte for this long ends when another test needs its slot.
const SILENCE_WHEN_FULL: Duration = Duration::from_secs(5);
/// Time for the end of such a test.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Number of fetches of a record without waiting; one more is allowed after each interval.
const MOST_FETCHES_AT_ONCE: u64 = 8;
const FETCH_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Registry {
    limits: ServerLimits,
    tests: Mutex<HashMap<TestId, Test>>,
    day: Mutex<DailyBytes>,
    pub(super) memory: MemorySlots,
    next_number: AtomicU64,
}

struct Test {
    number: u64,
    client: Client,
    pacers: Option<Arc<Pacers>>,
    request: TestRequest,
    started: Timestamp,
    joined: BTreeSet<u32>,
    live: usize,
    connections: Vec<Weak<Connection>>,
    /// Payload of the streams that have ended, in both directions.
    carried_bytes: u64,
    running: Vec<Arc<TestStream>>,
    finished: Vec<EndRecord>,
    /// The record of an ended test as JSON, so that its size is known and a FETCH computes nothing.
    record: Option<Arc<[u8]>>,
    fetches: u64,
    ended: Option<Timestamp>,
    group: Weak<StreamGroup>,
}

pub(super) struct Admission {
    pub(super) started: Timestamp,
    pub(super) pacers: Option<Arc<Pacers>>,
    pub(super) begins: Option<u64>,
    pub(super) group: Arc<StreamGroup>,
}

impl Registry {
    pub(super) fn new(limits: ServerLimits) -> Self {
        Self {
            memory: MemorySlots {
                tests: QuicSlots::new(limits.max_tests, limits.max_tests_per_client),
                streams: QuicSlots::new(limits.max_connections, limits.max_connections_per_client),
            },
            day: Mutex::new(DailyBytes::new(&limits)),
            limits,
            tests: Mutex::default(),
            next_number: AtomicU64::new(1),
        }
    }

    pub(super) fn running_tests(&self) -> usize {
        lock(&self.tests).values().filter(|test| test.ended.is_none()).count()
    }

    pub(super) fn join(
        &self,
        now: Timestamp,
        id: TestId,
        stream: u32,
        request: &TestRequest,
        client: Client,
        draining: bool,
    ) -> Result<Admission, TestRefusal> {
        if let Some(objection) = self.limits.objection(&request.parameters, request.patience) {
            return Err(TestRefusal::new(RefusalCode::Limit, objection, None));
        }
        let streams = request.parameters.streams();
        if stream >= streams {
            let message = format!("stream {stream} of a test of {streams} streams");
            return Err(TestRefusal::new(RefusalCode::BadRequest, message, None));
        }
        let mut tests = lock(&self.tests);
        self.expire_records(&mut tests, now);
        if let Some(test) = tests.get_mut(&id) {
            return test.join(now, stream, request, self.limits.handshake_timeout);
        }
        let pacers = self.admit(now, &tests, client, draining)?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let group = StreamGroup::new(streams);
        let test = Test {
            number,
            client,
            pacers: pacers.clone(),
            request: request.clone(),
            started: now,
            joined: BTreeSet::from([stream]),
            live: 1,
            connections: Vec::new(),
            carried_bytes: 0,
            running: Vec::new(),
            finished: Vec::new(),
            record: None,
            fetches: 0,
            ended: None,
            group: Arc::downgrade(&group),
        };
        tests.insert(id, test);
        Ok(Admission { started: now, pacers, begins: Some(number), group })
    }

    fn admit(
        &self,
        now: Timestamp,
        tests: &HashMap<TestId, Test>,
        client: Client,
        draining: bool,
    ) -> Result<Option<Arc<Pacers>>, TestRefusal> {
        if draining {
            let message = "it is shutting down and accepts no new tests".to_owned();
            return Err(TestRefusal::new(RefusalCode::ShuttingDown, message, None));
        }
        let limits = &self.limits;
        let running: Vec<&Test> = tests.values().filter(|test| test.ended.is_none()).collect();
        let of = |is_near: &dyn Fn(Client) -> bool| -> Vec<&Test> {
            running.iter().copied().filter(|test| is_near(test.client)).collect()
        };
        let own = of(&|other| other == client);
        let near = of(&|other| other.network() == client.network());
        let bytes =
            |tests: &[&Test]| tests.iter().map(|test| test.bytes_so_far()).fold(0, u64::saturating_add);
        if limits.max_bytes_per_day.is_some() || limits.max_client_bytes_per_day.is_some() {
            let exceeded = lock(&self.day).check(now, client, (bytes(&own), bytes(&running)));
            exceeded.map_err(|quota| {
                TestRefusal::new(RefusalCode::Limit, quota.message, Some(milliseconds(quota.wait)))
            })?;
        }
        let busy = |tests: &[&Test], message: String| {
            let wait = tests.iter().map(|test| self.make_way(now, test)).min().unwrap_or_default();
            Err(TestRefusal::new(RefusalCode::Busy, message, Some(milliseconds(wait))))
        };
        if own.len() >= limits.max_tests_per_client {
            let message = format!("it already runs {} tests of this client, its limit per client", own.len());
            return busy(&own, message);
        }
        if near.len() >= most_per_network(limits.max_tests, limits.max_tests_per_client) {
            let message = format!(
                "it already runs {} tests of this client's network (IPv4 /24, IPv6 /48), its limit per network",
                near.len()
            );
            return busy(&near, message);
        }
        if running.len() >= limits.max_tests {
            let message = format!("it is busy: it runs {} tests, its limit", running.len());
            return busy(&running, message);
        }
        // All tests of a client that overlap share the pacers.
        let shared = own.iter().find_map(|test| test.pacers.clone());
        Ok(self.limits.max_rate_bps.map(|rate| shared.unwrap_or_else(|| Arc::new(Pacers::new(rate)))))
    }

    /// The time until the slot of a running test is free. Ends the test if it has carried no byte for long.
    fn make_way(&self, now: Timestamp, test: &Test) -> Duration {
        if now.duration_since(test.started) < SILENCE_WHEN_FULL || test.bytes_so_far() > 0 {
            return test.expected_rest(now, &self.limits);
        }
        test.abort();
        SHORTEST_WAIT
    }

    /// Registers the connection of an admitted stream, so that the end of the test ends it.
    pub(super) fn attach(&self, id: TestId, connection: &Arc<Connection>) {
        if let Some(test) = lock(&self.tests).get_mut(&id) {
            test.connections.push(Arc::downgrade(connection));
        }
    }

    pub(super) fn run(&self, id: TestId, stream: &Arc<TestStream>) {
        if let Some(test) = lock(&self.tests).get_mut(&id) {
            test.running.push(Arc::clone(stream));
        }
    }

    /// Removes an ended stream and keeps its record, if it has one. The last stream ends the test and releases its
    /// slot.
    pub(super) fn leave(
        &self,
        now: Timestamp,
        id: TestId,
        stream: u32,
        record: Option<EndRecord>,
    ) -> Option<ServerEvent<'static>> {
        let mut tests = lock(&self.tests);
        let test = tests.get_mut(&id)?;
        let left = test.running.extract_if(.., |running| running.index == stream);
        let carried_bytes = left.map(|stream| bytes_of(&stream)).fold(0, u64::saturating_add);
        test.carried_bytes = test.carried_bytes.saturating_add(carried_bytes);
        test.finished.extend(record);
        test.live -= 1;
        if test.live > 0 {
            return None;
        }
        test.ended = Some(now);
        lock(&self.day).charge(now, test.client, test.carried_bytes);
        let finished = std::mem::take(&mut test.finished);
        let completed = finished.iter().filter(|record| record.completed).count();
        let streams = || finished.iter().flat_map(|record| &record.streams);
        let ended = ServerEvent::Ended {
            number: test.number,
            completed: completed == test.request.parameters.streams() as usize,
            sent_bytes: streams().map(|stream| stream.sent_bytes).fold(0, u64::saturating_add),
            received_bytes: streams().map(|stream| stream.received_bytes).fold(0, u64::saturating_add),
            lasted_ms: now.duration_since(test.started).as_millis() as u64,
        };
        drop(tests);
        // Encoding is slow, so the lock is released. A panic may have led here; a second one would abort the process.
        let record = contain_panic(|| EndRecord::of_streams(finished)?.fit(MAX_RECORD_BYTES).ok());
        let record = record.ok().flatten();
        let mut tests = lock(&self.tests);
        match (record, tests.get_mut(&id)) {
            (Some(record), Some(test)) => test.record = Some(record.into()),
            // A client that left before any data has no record.
            _ => drop(tests.remove(&id)),
        }
        self.expire_records(&mut tests, now);
        Some(ended)
    }

    pub(super) fn end(&self, id: TestId) {
        if let Some(test) = lock(&self.tests).get(&id) {
            test.abort();
        }
    }

    pub(super) fn stop_waiting(&self) {
        lock(&self.tests)
            .values()
            .filter_map(|test| test.group.upgrade())
            .for_each(|test| test.stop_waiting());
    }

    /// Whether a test runs or its record is not ready yet; `None` for an unknown test.
    pub(super) fn is_running(&self, id: TestId) -> Option<bool> {
        lock(&self.tests).get(&id).map(|test| test.record.is_none())
    }

    /// The record of an ended test, as JSON. Errors: milliseconds until the record may be fetched again.
    pub(super) fn hand_out(&self, now: Timestamp, id: TestId) -> Result<Arc<[u8]>, u64> {
        let mut tests = lock(&self.tests);
        self.expire_records(&mut tests, now);
        // The test of a record that has just been dropped is unknown to the next FETCH.
        let test = tests.get_mut(&id).ok_or(0_u64)?;
        let (Some(ended), Some(record)) = (test.ended, &test.record) else { return Err(0) };
        let intervals = test.fetches.saturating_sub(MOST_FETCHES_AT_ONCE - 1);
        let due = ended + FETCH_INTERVAL.saturating_mul(u32::try_from(intervals).unwrap_or(u32::MAX));
        if now < due {
            return Err(u64::try_from(due.duration_since(now).as_millis())
                .unwrap_or(u64::MAX)
                .saturating_add(1));
        }
        test.fetches += 1;
        Ok(Arc::clone(record))
    }

    /// Drops records that are too old, too many or too large; running tests stay. The oldest record of the client with
    /// the most records or bytes is dropped first, so that one client does not displace the records of others.
    fn expire_records(&self, tests: &mut HashMap<TestId, Test>, now: Timestamp) {
        let limits = &self.limits;
        tests.retain(|_, test| {
            test.ended.is_none_or(|ended| now.duration_since(ended) <= limits.keep_records_for)
        });
        loop {
            let kept = || tests.iter().filter(|(_, test)| test.ended.is_some());
            let measure: fn(&Test) -> usize =
                if kept().map(|(_, test)| test.bytes()).sum::<usize>() > limits.max_record_bytes {
                    Test::bytes
                } else if kept().count() > limits.max_records {
                    |_| 1
                } else {
                    return;
                };
            let mut shares: HashMap<Client, usize> = HashMap::new();
            kept().for_each(|(_, test)| *shares.entry(test.client).or_default() += measure(test));
            let most = shares.into_iter().max_by_key(|(_, share)| *share).map(|(client, _)| client);
            let own = kept().filter(|(_, test)| Some(test.client) == most);
            let Some((&oldest, _)) = own.min_by_key(|(id, test)| (test.ended, **id)) else { return };
            tests.remove(&oldest);
        }
    }
}

impl Test {
    /// Adds a stream. All streams must begin within `time`; otherwise they could hold the slot one after the other.
    fn join(
        &mut self,
        now: Timestamp,
        stream: u32,
        request: &TestRequest,
        time: Duration,
    ) -> Result<Admission, TestRefusal> {
        let refuse = |message: &str| Err(TestRefusal::new(RefusalCode::BadRequest, message, None));
        if self.request != *request {
            return refuse("streams of one test ask for different things");
        }
        let over = "a test of this id has already run; ids are for one test only";
        if self.ended.is_some() || !self.joined.insert(stream) {
            return refuse(over);
        }
        if now.duration_since(self.started) > time {
            return refuse("the other streams of this test came too long ago");
        }
        // The group is gone while the test's last stream ends.
        let Some(group) = self.group.upgrade() else { return refuse(over) };
        self.live += 1;
        Ok(Admission { started: self.started, pacers: self.pacers.clone(), begins: None, group })
    }

    fn bytes(&self) -> usize {
        self.record.as_ref().map_or(0, |json| json.len())
    }

    /// The payload of all streams until now, in both directions.
    fn bytes_so_far(&self) -> u64 {
        self.running.iter().map(|stream| bytes_of(stream)).fold(self.carried_bytes, u64::saturating_add)
    }

    fn abort(&self) {
        self.connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.abort());
    }

    /// The time until a test ends: by its nominal duration or, if that is over, by the deadline that it cannot extend.
    fn expected_rest(&self, now: Timestamp, limits: &ServerLimits) -> Duration {
        let nominal = self.request.parameters.nominal_duration().unwrap_or(ASSUMED_DURATION);
        let deadline = limits.longest_test(self.request.patience);
        let whole = if now < self.started + nominal { nominal.min(deadline) } else { deadline };
        (self.started + whole).duration_since(now).max(SHORTEST_WAIT)
    }
}

fn bytes_of(stream: &TestStream) -> u64 {
    let (sent_bytes, received_bytes) = stream.work.progress();
    sent_bytes.saturating_add(received_bytes)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Slots for the memory of tests and their streams, including ended tests whose clients do not read their records.
#[derive(Debug)]
pub struct MemorySlots {
    pub tests: Arc<QuicSlots>,
    pub streams: Arc<QuicSlots>,
}

impl MemorySlots {
    /// Acquires memory for one more stream of a test that has `held` slots: a slot for the stream and, for the first
    /// one, a slot for the test. The streams of an honest client each hold a connection during that time.
    pub fn acquire(&self, client: Client, held: &mut Vec<QuicSlot>) -> bool {
        let Some(stream) = self.streams.acquire(client) else { return false };
        if held.is_empty() {
            let Some(test) = self.tests.acquire(client) else { return false };
            held.push(test);
        }
        held.push(stream);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn time_at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000_000 + seconds * 1_000_000_000)
    }

    fn join(
        registry: &Registry,
        now: Timestamp,
        number: u8,
        address: [u16; 4],
    ) -> Result<Admission, TestRefusal> {
        let request = r#"{"pattern":"throughput","transport":"tcp","patience_ms":120000,"parameters":{"direction":
            "upload","streams":1,"amount":{"duration_ms":10000},"block_bytes":131072}}"#;
        let request = TestRequest::from_json(request.as_bytes()).expect("a request");
        let [a, b, c, d] = address;
        let client = Client::from(IpAddr::from([a, b, c, d, 0, 0, 0, 1]));
        registry.join(now, TestId([number; 16]), 0, &request, client, false)
    }

    #[test]
    fn a_busy_server_names_the_nominal_end_then_the_deadline_of_the_first_test() {
        let limits = ServerLimits {
            max_tests: 4,
            max_tests_per_client: 2,
            max_duration: Duration::from_secs(20),
            ..ServerLimits::default()
        };
        let registry = Registry::new(limits.clone());
        let _held: Vec<_> = (0..4)
            .map(|number| {
                join(&registry, time_at(0), number, [0x2001, 0xdb8, number.into(), 1]).expect("a slot")
            })
            .collect();
        // The tests have carried bytes: they keep their slots.
        lock(&registry.tests).values_mut().for_each(|test| test.carried_bytes = 1);
        let wait = |now| {
            let refusal = join(&registry, now, 9, [0x2001, 0xdb8, 9, 1]).err().expect("a refusal");
            refusal.retry_after_ms.map(Duration::from_millis)
        };
        assert_eq!(wait(time_at(3)), Some(Duration::from_secs(7)));
        let longest = limits.longest_test(Duration::from_secs(120));
        assert_eq!(wait(time_at(15)), longest.checked_sub(Duration::from_secs(15)));
    }

    /// Regression: one /48 was 65,536 clients.
    #[test]
    fn a_network_of_many_clients_leaves_tests_to_others() {
        let limits = ServerLimits { max_tests: 8, max_tests_per_client: 2, ..ServerLimits::default() };
        let registry = Registry::new(limits);
        let near: Vec<_> = (0..100)
            .map(|number| join(&registry, time_at(0), number, [0x2001, 0xdb8, 7, u16::from(number) / 2]))
            .collect();
        assert_eq!(near.iter().filter(|admission| admission.is_ok()).count(), 4);
        assert!(join(&registry, time_at(0), 200, [0x2001, 0xdb8, 8, 1]).is_ok());
    }
}
