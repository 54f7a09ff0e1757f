//! The state of a stream, its waits and its record.

use super::channel::{TICK, check};
use super::error::StreamError;
use super::group::{GroupMember, StreamGroup};
use super::plan::{MAX_SERVER_FIGURES, TestPlan};
use super::work::Work;
use crate::meter::{Acknowledgements, Wait};
use crate::pacer::{Pacer, Pacers};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES, PathSample, StreamRecord};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::resource::{BufferLimits, CpuUse, ThreadUse};
use pathbench_record::sample::Side;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::resource::{StealMeter, ThreadMeter, buffer_limits};
use pathbench_transport::{Connection, ConnectionSnapshot, ReceiveError, Sampler, contain_panic, lock};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Time limit of a record's transfer: enough for the largest one at 1 Mbit/s.
pub(crate) const RECORD_TIME: Duration = Duration::from_secs(120);

/// Limit of a client's path samples: every 20 ms of two paths for ten minutes.
const MAX_CLIENT_FIGURES: usize = 65_536;

pub(super) type FirstByte<'a> = &'a (dyn Fn(Timestamp) + Sync);

/// A stream's state, readable by other threads (progress, a FETCH) while its own threads run it.
pub(crate) struct TestStream {
    pub(crate) plan: TestPlan,
    pub(crate) index: u32,
    pub(crate) connection: Arc<Connection>,
    pub(super) group: Arc<StreamGroup>,
    member: Mutex<Option<GroupMember>>,
    pub(crate) work: Work,
    /// Absent if another stream reports the connection's figures.
    pub(super) sampler: Mutex<Option<Sampler>>,
    last: Mutex<Option<ConnectionSnapshot>>,
    /// Time at which all data was exchanged and confirmed.
    pub(super) confirmed: Mutex<Option<Timestamp>>,
    pub(super) failure: Mutex<Option<(String, Duration)>>,
    /// The threads that have ended their part of the data phase.
    threads: Mutex<Vec<ThreadUse>>,
    /// Of the machine, in the data phase of the first stream.
    stolen_percent: Mutex<Option<u32>>,
    tcp_buffers: Option<BufferLimits>,
}

impl TestStream {
    pub(crate) fn new(
        plan: TestPlan,
        index: u32,
        connection: Arc<Connection>,
        member: GroupMember,
        clock: &Arc<dyn Clock>,
        sample_interval: Duration,
    ) -> Result<Self, StreamError> {
        let group = Arc::clone(&member.0);
        if plan.parameters.sends_at_once() {
            connection.send_at_once()?;
        }
        if index == 0 {
            group.set_first(&connection);
        }
        let sampler = if index == 0 || !plan.transport.is_quic() {
            let streams = if plan.transport.is_quic() { 1 } else { plan.parameters.streams() };
            let figures = match plan.side {
                Side::Client => MAX_CLIENT_FIGURES,
                Side::Server => MAX_SERVER_FIGURES,
            };
            let figures = figures / (streams as usize).max(1);
            let mut telemetry = connection.telemetry()?;
            // The interfaces of a server are not the client's paths, and their names are no data for clients.
            if plan.side == Side::Client {
                telemetry.look_up_interfaces();
            }
            Some(Sampler::start(telemetry, Arc::clone(clock), sample_interval, figures)?)
        } else {
            None
        };
        let tcp_buffers = if plan.transport.is_quic() { None } else { buffer_limits() };
        Ok(Self {
            work: Work::new(&plan, index),
            plan,
            index,
            connection,
            group,
            member: Mutex::new(Some(member)),
            sampler: Mutex::new(sampler),
            last: Mutex::new(None),
            confirmed: Mutex::new(None),
            failure: Mutex::new(None),
            threads: Mutex::default(),
            stolen_percent: Mutex::default(),
            tcp_buffers,
        })
    }

    /// Preferred size of the stream's record: records with samples share a RECORD frame, so that the records of all
    /// streams together are bounded, too.
    pub(crate) fn record_bytes(&self) -> usize {
        let sampled = if self.plan.transport.is_quic() { 1 } else { self.plan.parameters.streams() };
        MAX_RECORD_BYTES / sampled.max(1) as usize
    }

    pub(crate) fn latest(&self) -> Option<ConnectionSnapshot> {
        let running = lock(&self.sampler).as_ref().and_then(Sampler::latest).map(|(_, snapshot)| snapshot);
        running.or_else(|| lock(&self.last).clone())
    }

    pub(crate) fn abandon(&self) {
        self.connection.abort();
        self.end_membership();
    }

    pub(super) fn end_membership(&self) {
        drop(lock(&self.member).take());
    }

    /// Runs `sending` in a thread of its own, and `receiving` in this one. The failure or panic of one ends the other.
    pub(super) fn run_both(
        &self,
        name: &str,
        clock: &dyn Clock,
        sending: impl FnOnce() -> Result<(), StreamError> + Send,
        receiving: impl FnOnce() -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        thread::scope(|scope| {
            let sender = thread::Builder::new()
                .name(name.to_owned())
                .spawn_scoped(scope, || self.measure_thread(clock, || self.half(sending)))
                .map_err(StreamError::Thread)?;
            let received = self.half(receiving);
            // A panic was contained in the thread.
            let sent = sender.join().unwrap_or_else(|_| Err(StreamError::Panic { message: String::new() }));
            match (received, sent) {
                (Err(left), Err(right)) => Err(if left.is_consequence() { right } else { left }),
                (received, sent) => received.and(sent),
            }
        })
    }

    /// Runs the part of the calling thread in the data phase, and records its CPU time.
    fn measure_thread<T>(&self, clock: &dyn Clock, part: impl FnOnce() -> T) -> T {
        let meter = ThreadMeter::start(clock.now());
        let result = part();
        lock(&self.threads).extend(meter.and_then(|meter| meter.stop(clock.now())));
        result
    }

    /// Runs the data phase in the calling thread, and records the CPU time of this thread, and over QUIC of the
    /// connection's thread: once for all streams of the connection.
    pub(super) fn measure_cpu<T>(&self, clock: &dyn Clock, phase: impl FnOnce() -> T) -> T {
        if self.index > 0 {
            return self.measure_thread(clock, phase);
        }
        let (driver, steal) = (self.connection.measure_driver(clock.now()), StealMeter::start(clock.now()));
        let result = self.measure_thread(clock, phase);
        *lock(&self.stolen_percent) = steal.stop(clock.now());
        lock(&self.threads).extend(driver.and_then(|meter| meter.stop(clock.now())));
        result
    }

    fn half(&self, work: impl FnOnce() -> Result<(), StreamError>) -> Result<(), StreamError> {
        let result = contain_panic(work).unwrap_or_else(|message| Err(StreamError::Panic { message }));
        if result.is_err() {
            self.connection.abort();
        }
        result
    }

    /// The error of a silence beyond the patience, if any.
    pub(super) fn check_silence(
        &self,
        silence: Option<Duration>,
        doing: &'static str,
    ) -> Result<(), StreamError> {
        let peer = self.connection.peer_addr();
        silence.map_or(Ok(()), |silence| Err(StreamError::Hung { peer, doing, silence }))
    }

    pub(super) fn check_deadline(&self, now: Timestamp) -> Result<(), StreamError> {
        if now > self.plan.deadline { Err(StreamError::Overtime) } else { Ok(()) }
    }

    pub(super) fn check_abort(&self) -> Result<(), StreamError> {
        let aborted = || ReceiveError::Aborted { peer: self.connection.peer_addr() }.into();
        if self.connection.is_aborted() { Err(aborted()) } else { Ok(()) }
    }

    /// At a server: counts this stream as started and, if it sends, waits until every stream of the test is. The QUIC
    /// library sends all waiting data of one stream before that of the next, so endless data of one stream would hold back
    /// the START of another.
    pub(crate) fn start_together(&self, clock: &dyn Clock, wait: &mut Wait) -> Result<(), StreamError> {
        self.group.count_start();
        while self.work.is_sending() && !self.group.wait_for_starts(TICK) {
            check(wait, clock.now(), &self.connection, "waiting for the other streams")?;
            self.check_abort()?;
        }
        Ok(())
    }

    /// Waits until `until`, but not beyond the end of the stream: its deadline, or the abort of its connection (by the
    /// other thread, the test's end, the server's shutdown).
    pub(super) fn pause(&self, clock: &dyn Clock, until: Timestamp) -> Result<(), StreamError> {
        loop {
            let now = clock.now();
            if now >= until {
                return Ok(());
            }
            self.check_deadline(now)?;
            self.check_abort()?;
            clock.sleep_until(until.min(now + TICK));
        }
    }

    /// Charges bytes of messages that this end has sent or received, and waits until the pacer permits more.
    pub(super) fn pay(
        &self,
        clock: &dyn Clock,
        pacer: impl FnOnce(&Pacers) -> &Pacer,
        bytes: usize,
    ) -> Result<(), StreamError> {
        match &self.plan.pacers {
            Some(pacers) if bytes > 0 => self.pause(clock, pacer(pacers).charge(clock.now(), bytes)),
            _ => Ok(()),
        }
    }

    /// A wait bounded by the test's patience; acknowledgements of sent data count as progress.
    pub(crate) fn wait(&self, clock: &dyn Clock) -> Wait {
        Wait::with_deadline(clock.now(), self.plan.deadline)
            .or_silence(self.plan.patience)
            .watching(self.work.is_sending().then(|| self.acknowledgements()))
    }

    /// A wait for the transfer of the server's record, which has its own deadline.
    pub(crate) fn record_wait(&self, clock: &dyn Clock) -> Wait {
        let task = match self.plan.side {
            Side::Client => "hand over its record",
            Side::Server => "take the record",
        };
        Wait::with_timeout(clock.now(), RECORD_TIME, task)
            .or_silence(self.plan.patience)
            .watching(Some(self.acknowledgements()))
    }

    pub(super) fn acknowledgements(&self) -> Acknowledgements {
        let first = self.plan.transport.is_quic().then(|| self.group.first()).flatten();
        Acknowledgements::new(first.as_ref().unwrap_or(&self.connection))
    }

    pub(crate) fn record_so_far(&self, now: Timestamp) -> EndRecord {
        // A stream without a sampler still has a snapshot of the negotiation.
        let latest = self.latest().or_else(|| self.snapshot());
        self.record(now, latest, Vec::new())
    }

    /// Ends the sampling and completes the record. The stream that reports the figures of a shared connection first
    /// waits until the data of its group has ended, but less than the other end's patience.
    pub(crate) fn finish(&self, clock: &dyn Clock) -> EndRecord {
        if self.index == 0 && self.plan.transport.is_quic() {
            self.group.wait_for_all(self.plan.patience / 2);
        }
        // The lock is held, so that a reader of the latest sample finds either the sampler or its last sample.
        let mut running = lock(&self.sampler);
        let series = running.take().map(Sampler::stop);
        let (samples, last) = series.map(|series| (series.samples, series.last)).unwrap_or_default();
        let last = last.or_else(|| self.snapshot());
        lock(&self.last).clone_from(&last);
        drop(running);
        let samples = samples.into_iter().flat_map(|(at, snapshot)| self.path_samples(at, snapshot));
        self.record(clock.now(), last, samples.collect())
    }

    pub(super) fn path_samples(
        &self,
        at: Timestamp,
        snapshot: ConnectionSnapshot,
    ) -> impl Iterator<Item = PathSample> + use<> {
        let stream = self.index;
        snapshot.subflows.into_iter().map(move |figures| PathSample { at, stream, figures })
    }

    fn snapshot(&self) -> Option<ConnectionSnapshot> {
        self.connection.telemetry().ok()?.snapshot().ok()
    }

    fn record(
        &self,
        now: Timestamp,
        last: Option<ConnectionSnapshot>,
        samples: Vec<PathSample>,
    ) -> EndRecord {
        let plan = &self.plan;
        let [offered, deliveries] = self.work.series(plan.started);
        let (sent_bytes, received_bytes) = self.work.progress();
        let failure = lock(&self.failure).clone();
        let confirmed = *lock(&self.confirmed);
        let completed = confirmed.is_some();
        let mut in_force = self.connection.in_force();
        in_force.no_delay |= plan.parameters.sends_at_once();
        let (multipath, mptcp, paths) = last.map_or_else(Default::default, |snapshot| {
            (snapshot.multipath, snapshot.mptcp, snapshot.subflows)
        });
        let stream = StreamRecord {
            stream: self.index,
            local: self.connection.local_addr(),
            peer: self.connection.peer_addr(),
            in_force,
            multipath,
            mptcp,
            paths,
            received_bytes,
            sent_bytes,
            completed,
            error: failure.as_ref().map(|(error, _)| error.clone()),
            hung_ns: failure.as_ref().map(|(_, hung)| u64::try_from(hung.as_nanos()).unwrap_or(u64::MAX)),
        };
        EndRecord {
            fct: self.fct(confirmed, &deliveries),
            messages: self.work.messages(now),
            response: self.work.response(),
            datagrams: self.work.datagram_log(),
            // Path events of the connection: recorded once, like its figures.
            path_events: if self.index == 0 { self.connection.path_events() } else { Vec::new() },
            deliveries,
            offered,
            streams: vec![stream],
            samples,
            completed,
            cpu: CpuUse::from_threads(&lock(&self.threads))
                .map(|used| CpuUse { stolen_percent: *lock(&self.stolen_percent), ..used }),
            tcp_buffers: self.tcp_buffers,
            errors: failure.map(|(error, _)| format!("stream {}: {error}", self.index)).into_iter().collect(),
            ..plan.record(now)
        }
    }

    /// For the client of a bulk test: until a download's last byte or the server's confirmation of an upload.
    fn fct(&self, confirmed: Option<Timestamp>, deliveries: &DeliverySeries) -> Option<Duration> {
        let PatternParameters::Bulk(bulk) = &self.plan.parameters else { return None };
        let confirmed = confirmed.filter(|_| self.plan.side == Side::Client)?;
        let end = if bulk.upload_bytes > 0 { confirmed } else { deliveries.last? };
        Some(end.duration_since(self.plan.started))
    }
}
