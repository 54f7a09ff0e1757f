//! One connection of a test after its handshake, the same for both ends: data one or both ways or messages, the
//! confirmation of what arrived, and this end's record of it.

mod channel;
mod companions;
mod dialogue;
mod error;
mod news;
mod transfer;
mod work;

use channel::Acknowledgements;
pub(crate) use channel::{Channel, TICK, Wait};
pub(crate) use companions::{Companions, Member};
pub(crate) use error::StreamError;
pub(crate) use news::Cursor;

use crate::messages::Series;
use crate::protocol::{End, Frame};
use crate::server::{Pacer, Pacers};
use pathbench_record::connection::InForce;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES, PathSample, StreamRecord};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use pathbench_record::test_id::TestId;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_transport::{Connection, ConnectionSnapshot, ReceiveError, Sampler, contain_panic};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use work::Work;

/// How long both ends' records of a stream may take, or one that is fetched: enough for the largest at 1 Mbit/s.
pub(crate) const RECORD_TIME: Duration = Duration::from_secs(120);

/// Samples of paths that a server keeps of a test, all streams together: more than its record has room for.
pub(crate) const MAX_SERVER_FIGURES: usize = 16_384;

/// The same at a client: 20 ms of two paths for ten minutes.
const MAX_CLIENT_FIGURES: usize = 65_536;

/// Blocks that a server sends over and over in a test, those of all streams together.
pub(crate) const MAX_SERVER_BLOCKS_BYTES: u32 = 16 << 20;

type FirstByte<'a> = &'a (dyn Fn(Timestamp) + Sync);

#[derive(Debug, Clone)]
pub(crate) struct TestPlan {
    pub(crate) side: Side,
    pub(crate) test: TestId,
    pub(crate) transport: Transport,
    pub(crate) parameters: PatternParameters,
    pub(crate) started: Timestamp,
    /// At the client: how long the first connection took to open.
    pub(crate) handshake: Option<Duration>,
    pub(crate) patience: Duration,
    pub(crate) ceiling_bytes: Option<u64>,
    /// This end's bound on the rate, over all tests of the client.
    pub(crate) pacers: Option<Arc<Pacers>>,
    /// When the data of a stream is over at this end; no peer can extend it.
    pub(crate) deadline: Timestamp,
}

/// A stream's state, open to other threads (progress, a FETCH) while its own threads run it.
pub(crate) struct Stream {
    plan: TestPlan,
    index: u32,
    pub(crate) connection: Arc<Connection>,
    companions: Arc<Companions>,
    member: Mutex<Option<Member>>,
    work: Work,
    /// Absent for a stream whose connection's figures another stream reports.
    sampler: Mutex<Option<Sampler>>,
    last: Mutex<Option<ConnectionSnapshot>>,
    /// Since when all data has gone both ways and the other end has confirmed it.
    confirmed: Mutex<Option<Timestamp>>,
    failure: Mutex<Option<(String, Duration)>>,
}

impl Stream {
    pub(crate) fn new(
        plan: TestPlan,
        index: u32,
        connection: Arc<Connection>,
        member: Member,
        clock: &Arc<dyn Clock>,
        sample_interval: Duration,
    ) -> Result<Self, StreamError> {
        let companions = member.companions();
        if plan.parameters.sends_at_once() {
            connection.send_at_once()?;
        }
        if index == 0 {
            companions.introduce_first(&connection);
        }
        let sampler = if index == 0 || !shares_connection(plan.transport) {
            let streams = if shares_connection(plan.transport) { 1 } else { plan.parameters.streams() };
            let figures = match plan.side {
                Side::Client => MAX_CLIENT_FIGURES,
                Side::Server => MAX_SERVER_FIGURES,
            };
            let figures = figures / (streams as usize).max(1);
            Some(Sampler::start(connection.telemetry()?, Arc::clone(clock), sample_interval, figures)?)
        } else {
            None
        };
        Ok(Self {
            work: Work::of(&plan, index),
            plan,
            index,
            connection,
            companions,
            member: Mutex::new(Some(member)),
            sampler: Mutex::new(sampler),
            last: Mutex::new(None),
            confirmed: Mutex::new(None),
            failure: Mutex::new(None),
        })
    }

    /// Which of the test's streams, from 0.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn is_one_of_several(&self) -> bool {
        self.plan.parameters.streams() > 1
    }

    /// Bytes that the record of the stream should have at most: those that have samples share a RECORD frame, so that the
    /// records of all streams together have a bound, too.
    pub(crate) fn record_bytes(&self) -> usize {
        let sampled = if shares_connection(self.plan.transport) { 1 } else { self.plan.parameters.streams() };
        MAX_RECORD_BYTES / sampled.max(1) as usize
    }

    /// Whether this end may be in the middle of test data, so that nothing else may be written before END.
    pub(crate) fn is_sending(&self) -> bool {
        self.work.is_sending()
    }

    pub(crate) fn progress(&self) -> (u64, u64) {
        self.work.progress()
    }

    pub(crate) fn latest(&self) -> Option<ConnectionSnapshot> {
        let running = lock(&self.sampler).as_ref().and_then(Sampler::latest).map(|(_, snapshot)| snapshot);
        running.or_else(|| lock(&self.last).clone())
    }

    /// Moves the data and lets both ends confirm it; `on_first_byte` is called once, from whichever thread first
    /// sends or receives a byte. On failure the connection is of no further use.
    pub(crate) fn run(
        &self,
        channel: &mut Channel<'_>,
        on_first_byte: &(dyn Fn(Timestamp) + Sync),
    ) -> Result<(), StreamError> {
        let clock = channel.clock();
        let begun = clock.now();
        let result = self.exchange(channel, on_first_byte).and_then(|()| self.confirm(channel));
        *lock(&self.confirmed) = result.is_ok().then(|| clock.now());
        if let Err(error) = &result {
            let silence = clock.now().since(self.work.last_progress().unwrap_or(begun));
            *lock(&self.failure) = Some((error.line(), silence));
        }
        self.end_membership();
        result
    }

    pub(crate) fn abandon(&self) {
        self.connection.abort();
        self.end_membership();
    }

    fn end_membership(&self) {
        drop(lock(&self.member).take());
    }

    /// Does the work of one of a stream's two threads. A failure of it, a panic too, ends the other's as well.
    fn half(&self, work: impl FnOnce() -> Result<(), StreamError>) -> Result<(), StreamError> {
        let result = contain_panic(work).unwrap_or_else(|message| Err(StreamError::Panic { message }));
        if result.is_err() {
            self.connection.abort();
        }
        result
    }

    fn exchange(&self, channel: &mut Channel<'_>, on_first_byte: FirstByte<'_>) -> Result<(), StreamError> {
        match &self.work {
            Work::Transfer { sending, receiving } => {
                transfer::exchange(self, sending.as_ref(), receiving.as_ref(), channel, on_first_byte)
            }
            Work::Ping(core) => dialogue::ping(self, core, channel, on_first_byte),
            Work::Interactive(core) => dialogue::interactive(self, core, channel, on_first_byte),
            Work::Respond(core) => dialogue::respond(self, core, channel, on_first_byte),
        }
    }

    fn confirm(&self, channel: &mut Channel<'_>) -> Result<(), StreamError> {
        match &self.work {
            Work::Transfer { sending, receiving } => {
                if let Some(core) = receiving {
                    let (bytes, end) = {
                        let core = lock(core);
                        (core.received_bytes(), core.end())
                    };
                    self.confirm_received(channel, bytes, end)?;
                }
                if let Some(core) = sending {
                    let end = lock(core).end();
                    self.await_confirmation(channel, end, |_, frame| {
                        Err(StreamError::unexpected("DONE", frame))
                    })?;
                }
                Ok(())
            }
            Work::Respond(core) => {
                let (bytes, end) = {
                    let core = lock(core);
                    (core.series().deliveries.total_bytes(), core.end())
                };
                self.confirm_received(channel, bytes, end)
            }
            Work::Ping(core) => {
                let end = lock(core).series().end();
                self.await_confirmation(channel, end, |at, frame| Ok(lock(core).take(at, frame)?))
            }
            Work::Interactive(core) => {
                let end = lock(core).series().end();
                self.await_confirmation(channel, end, |at, frame| Ok(lock(core).take(at, frame)?))
            }
        }
    }

    fn confirm_received(
        &self,
        channel: &mut Channel<'_>,
        received: u64,
        end: Option<End>,
    ) -> Result<(), StreamError> {
        channel.write(&Frame::Done { bytes: received }, &mut self.wait(channel.clock()))?;
        if end.is_some_and(|end| !end.cut_short && end.bytes == received) {
            return Ok(());
        }
        Err(StreamError::Incomplete {
            received,
            sent: end.map_or(0, |end| end.bytes),
            cut_short: end.is_some_and(|end| end.cut_short),
        })
    }

    fn await_confirmation(
        &self,
        channel: &mut Channel<'_>,
        end: End,
        late: impl FnMut(Timestamp, Frame) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let received = dialogue::until_done(channel, &mut self.wait(channel.clock()), late)?;
        let End { bytes: sent, cut_short, .. } = end;
        if received == sent && !cut_short {
            return Ok(());
        }
        Err(StreamError::Incomplete { received, sent, cut_short })
    }

    fn check_deadline(&self, now: Timestamp) -> Result<(), StreamError> {
        if now > self.plan.deadline { Err(StreamError::Overtime) } else { Ok(()) }
    }

    /// Waits for a point in time, but not beyond the end of the stream: its deadline, or the abort of its
    /// connection (by the other thread, the test's end, the server's shutdown).
    fn pause(&self, clock: &dyn Clock, until: Timestamp) -> Result<(), StreamError> {
        loop {
            let now = clock.now();
            if now >= until {
                return Ok(());
            }
            self.check_deadline(now)?;
            if self.connection.is_aborted() {
                return Err(ReceiveError::Aborted { peer: self.connection.peer_addr() }.into());
            }
            clock.sleep_until(until.min(now + TICK));
        }
    }

    /// Charges bytes of messages that this end has moved, and waits until they are paid for.
    fn pay(
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

    /// A wait bounded by the test's patience, in which acknowledgements of what was sent count as progress.
    pub(crate) fn wait(&self, clock: &dyn Clock) -> Wait {
        Wait::until(clock.now(), self.plan.deadline)
            .or_silence(self.plan.patience)
            .watching(self.is_sending().then(|| self.acknowledgements()))
    }

    /// A wait for the server's record to be handed over, which has a deadline of its own.
    pub(crate) fn record_wait(&self, clock: &dyn Clock) -> Wait {
        let task = match self.plan.side {
            Side::Client => "hand over its record",
            Side::Server => "take the record",
        };
        Wait::within(clock.now(), RECORD_TIME, task)
            .or_silence(self.plan.patience)
            .watching(Some(self.acknowledgements()))
    }

    fn acknowledgements(&self) -> Acknowledgements {
        let first = shares_connection(self.plan.transport).then(|| self.companions.first()).flatten();
        Acknowledgements::of(first.as_ref().unwrap_or(&self.connection))
    }

    pub(crate) fn record_so_far(&self, now: Timestamp) -> EndRecord {
        // A stream that leaves the figures to another one still knows what was negotiated.
        let latest = self.latest().or_else(|| self.look());
        self.record(now, latest, Vec::new(), 1)
    }

    /// Ends the sampling and closes the record. The stream that reports the figures of a shared connection first
    /// waits until the data of its companions has ended, but not so long that the other end would lose patience.
    pub(crate) fn finish(&self, clock: &dyn Clock) -> EndRecord {
        if self.index == 0 && shares_connection(self.plan.transport) {
            self.companions.wait_for_all(self.plan.patience / 2);
        }
        // Held meanwhile, so that a reader of the latest sample finds either the sampler or what it saw last.
        let mut running = lock(&self.sampler);
        let series = running.take().map(Sampler::stop);
        let (samples, last) = series.map(|series| (series.samples, series.last)).unwrap_or_default();
        let last = last.or_else(|| self.look());
        lock(&self.last).clone_from(&last);
        drop(running);
        let mut path_samples = Vec::new();
        for (at, snapshot) in samples {
            path_samples.extend(snapshot.subflows.into_iter().map(|figures| PathSample {
                at,
                stream: self.index,
                figures,
            }));
        }
        self.record(clock.now(), last, path_samples, 1)
    }

    fn look(&self) -> Option<ConnectionSnapshot> {
        self.connection.telemetry().ok()?.snapshot().ok()
    }

    fn record(
        &self,
        now: Timestamp,
        last: Option<ConnectionSnapshot>,
        samples: Vec<PathSample>,
        samples_thinned_by: u32,
    ) -> EndRecord {
        let plan = &self.plan;
        let Series { offered, deliveries } = self.work.series(plan.started);
        let (sent_bytes, received_bytes) = self.progress();
        let failure = lock(&self.failure).clone();
        let confirmed = *lock(&self.confirmed);
        let completed = confirmed.is_some();
        let (multipath, mptcp, paths) = last.map_or_else(Default::default, |snapshot| {
            (snapshot.multipath, snapshot.mptcp, snapshot.subflows)
        });
        let stream = StreamRecord {
            stream: self.index,
            local: self.connection.local_addr(),
            peer: self.connection.peer_addr(),
            in_force: self.in_force(),
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
            side: plan.side,
            test: plan.test,
            transport: plan.transport,
            parameters: plan.parameters.clone(),
            started: plan.started,
            ended: now,
            completion: self.completion(confirmed, &deliveries),
            handshake: plan.handshake,
            rate_limit_bps: plan.pacers.as_ref().map(|pacers| pacers.rate_bps()),
            messages: self.work.messages(now),
            // Those of the connection: once, like its figures.
            path_events: if self.index == 0 { self.connection.path_events() } else { Vec::new() },
            deliveries,
            offered,
            streams: vec![stream],
            samples,
            samples_thinned_by,
            completed,
            errors: failure.map(|(error, _)| format!("stream {}: {error}", self.index)).into_iter().collect(),
        }
    }

    fn in_force(&self) -> InForce {
        let mut in_force = self.connection.in_force().clone();
        in_force.no_delay |= self.plan.parameters.sends_at_once();
        in_force
    }

    /// For the client of a bulk test: a download is complete with its last byte, an upload when the server has said so.
    fn completion(&self, confirmed: Option<Timestamp>, deliveries: &DeliverySeries) -> Option<Duration> {
        let PatternParameters::Bulk(bulk) = &self.plan.parameters else { return None };
        let confirmed = confirmed.filter(|_| self.plan.side == Side::Client)?;
        let end = if bulk.upload_bytes > 0 { confirmed } else { deliveries.last? };
        Some(end.since(self.plan.started))
    }
}

const fn shares_connection(transport: Transport) -> bool {
    matches!(transport, Transport::Quic | Transport::Mpquic)
}

/// A panic of another thread leaves counters, series and slots usable: each is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
