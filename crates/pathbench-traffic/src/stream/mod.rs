//! One connection of a test after its handshake, the same for both ends: data one or both ways, the
//! confirmation of what arrived, and this end's record of it.

mod acknowledgements;
mod channel;
mod error;
mod transfer;

pub(crate) use channel::{Channel, TICK, Wait};
pub(crate) use error::StreamError;

use crate::iperf::{IperfParameters, ReceiveCore, SendCore, SendPlan};
use crate::pattern::PatternParameters;
use crate::protocol::{Frame, TestId};
use crate::record::{EndRecord, PathSample, StreamRecord};
use acknowledgements::Acknowledgements;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::sample::Side;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_transport::{Connection, ConnectionSnapshot, SampledConnection, Sampler};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the streams of one test at one end have in common.
#[derive(Debug, Clone)]
pub(crate) struct TestPlan {
    pub(crate) side: Side,
    pub(crate) test: TestId,
    pub(crate) transport: Transport,
    pub(crate) parameters: PatternParameters,
    /// Origin of the series.
    pub(crate) started: Timestamp,
    /// At the client: how long the first connection took to open.
    pub(crate) handshake: Option<Duration>,
    pub(crate) patience: Duration,
    /// This end's bound on the payload of one stream and direction.
    pub(crate) ceiling_bytes: Option<u64>,
    /// This end's bound on the time of a stream.
    pub(crate) deadline: Option<Timestamp>,
}

impl TestPlan {
    fn sends(&self, transfer: &IperfParameters) -> bool {
        match self.side {
            Side::Client => transfer.direction.has_upload(),
            Side::Server => transfer.direction.has_download(),
        }
    }

    fn receives(&self, transfer: &IperfParameters) -> bool {
        match self.side {
            Side::Client => transfer.direction.has_download(),
            Side::Server => transfer.direction.has_upload(),
        }
    }
}

/// A stream's state, open to other threads (progress, a FETCH) while its own threads run it.
pub(crate) struct Stream {
    plan: TestPlan,
    index: u32,
    pub(crate) connection: Arc<Connection>,
    sending: Option<Mutex<SendCore>>,
    receiving: Option<Mutex<ReceiveCore>>,
    sampler: Mutex<Option<Sampler>>,
    /// What the sampler saw last, once it has been stopped.
    last: Mutex<Option<ConnectionSnapshot>>,
    /// All data went both ways and the other end confirmed it.
    confirmed: AtomicBool,
    failure: Mutex<Option<(String, Duration)>>,
}

impl Stream {
    /// A stream over an accepted connection, sampled from now on.
    pub(crate) fn new(
        plan: TestPlan,
        index: u32,
        connection: Arc<Connection>,
        clock: &Arc<dyn Clock>,
        sample_interval: Duration,
    ) -> Result<Self, StreamError> {
        let transfer = plan.parameters.transfer();
        let sending = transfer.as_ref().filter(|transfer| plan.sends(transfer)).map(|transfer| {
            Mutex::new(SendCore::new(
                SendPlan {
                    amount: transfer.stream_amount(index),
                    omit: transfer.omit,
                    rate_bps: transfer.stream_rate_bps(),
                    block_bytes: transfer.block_bytes,
                    ceiling_bytes: plan.ceiling_bytes,
                    patience: plan.patience,
                },
                plan.started,
            ))
        });
        let receiving = transfer
            .filter(|transfer| plan.receives(transfer))
            .map(|_| Mutex::new(ReceiveCore::new(plan.started, plan.patience, plan.ceiling_bytes)));
        let telemetry = connection.telemetry()?;
        let sampler = Sampler::start(telemetry, Arc::clone(clock), sample_interval)?;
        Ok(Self {
            plan,
            index,
            connection,
            sending,
            receiving,
            sampler: Mutex::new(Some(sampler)),
            last: Mutex::new(None),
            confirmed: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// Which of the test's streams, from 0.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Whether the test has other streams, too.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.plan.parameters.streams() > 1
    }

    /// Whether this end sends test data, so that nothing else may be written before END.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Payload bytes sent and received so far.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (
            self.sending.as_ref().map_or(0, |core| lock(core).accepted_bytes()),
            self.receiving.as_ref().map_or(0, |core| lock(core).received_bytes()),
        )
    }

    /// The latest sample of its paths; after the stream's end, the last one.
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
        let result = transfer::exchange(self, channel, on_first_byte).and_then(|()| self.confirm(channel));
        self.confirmed.store(result.is_ok(), Ordering::Release);
        if let Err(error) = &result {
            let silence = self.silence(clock.now(), begun);
            *lock(&self.failure) = Some((error.to_string(), silence));
        }
        result
    }

    /// DONE in both directions that carried data.
    fn confirm(&self, channel: &mut Channel<'_>) -> Result<(), StreamError> {
        if let Some(core) = &self.receiving {
            let (bytes, end, complete) = {
                let core = lock(core);
                (core.received_bytes(), core.end(), core.is_complete())
            };
            channel.write(&Frame::Done { bytes }, &mut self.wait(channel.clock()))?;
            if !complete {
                return Err(StreamError::Incomplete {
                    received: bytes,
                    sent: end.map_or(0, |end| end.bytes),
                    cut_short: end.is_some_and(|end| end.cut_short),
                });
            }
        }
        if let Some(core) = &self.sending {
            let mut wait = self.wait(channel.clock());
            let (sent, cut_short) = {
                let core = lock(core);
                (core.accepted_bytes(), core.end().cut_short)
            };
            match channel.frame(&mut wait)? {
                Frame::Done { bytes } if bytes == sent && !cut_short => {}
                Frame::Done { bytes } => {
                    return Err(StreamError::Incomplete { received: bytes, sent, cut_short });
                }
                frame => return Err(StreamError::unexpected("DONE", frame)),
            }
        }
        Ok(())
    }

    /// A wait bounded by the test's patience, in which acknowledgements of what was sent count as progress.
    pub(crate) fn wait(&self, clock: &dyn Clock) -> Wait {
        Wait::patient(clock.now(), self.plan.patience, self.plan.deadline)
            .watching(self.sending.is_some().then(|| Acknowledgements::of(&self.connection)))
    }

    /// Time without progress in the direction that saw it last.
    fn silence(&self, now: Timestamp, begun: Timestamp) -> Duration {
        let sent = self.sending.as_ref().and_then(|core| lock(core).last_progress());
        let received = self.receiving.as_ref().and_then(|core| lock(core).last_progress());
        now.since(sent.into_iter().chain(received).max().unwrap_or(begun))
    }

    /// This end's record of the stream so far, without samples: for a test that still runs.
    pub(crate) fn record_so_far(&self, now: Timestamp) -> EndRecord {
        let latest = self.latest();
        self.record(now, latest, Vec::new(), 1)
    }

    /// Ends the sampling and closes the record.
    pub(crate) fn finish(&self, clock: &dyn Clock) -> EndRecord {
        // Held meanwhile, so that whoever asks for the latest sample finds either the sampler or what it saw last.
        let mut running = lock(&self.sampler);
        let sampled = running.take().map(Sampler::stop);
        let SampledConnection { samples, .. } = sampled.unwrap_or(SampledConnection {
            samples: Vec::new(),
            interval: Duration::ZERO,
            failure: None,
        });
        let last = samples.last().map(|(_, snapshot)| snapshot.clone());
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

    fn record(
        &self,
        now: Timestamp,
        last: Option<ConnectionSnapshot>,
        samples: Vec<PathSample>,
        samples_thinned_by: u32,
    ) -> EndRecord {
        let plan = &self.plan;
        let none = || DeliverySeries::starting_at(plan.started);
        let offered = self.sending.as_ref().map_or_else(none, |core| lock(core).offered().clone());
        let deliveries = self.receiving.as_ref().map_or_else(none, |core| lock(core).deliveries().clone());
        let (sent_bytes, received_bytes) = self.progress();
        let failure = lock(&self.failure).clone();
        let completed = self.confirmed.load(Ordering::Acquire);
        let (multipath, mptcp, paths) = last.map_or_else(Default::default, |snapshot| {
            (snapshot.multipath, snapshot.mptcp, snapshot.subflows)
        });
        let stream = StreamRecord {
            stream: self.index,
            local: self.connection.local_addr(),
            peer: self.connection.peer_addr(),
            in_force: self.connection.in_force().clone(),
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
            completion: self.completion(completed, &deliveries),
            handshake: plan.handshake,
            messages: Vec::new(),
            deliveries,
            offered,
            streams: vec![stream],
            samples,
            samples_thinned_by,
            completed,
            errors: failure.map(|(error, _)| format!("stream {}: {error}", self.index)).into_iter().collect(),
        }
    }

    /// For the client of a bulk test.
    fn completion(&self, completed: bool, deliveries: &DeliverySeries) -> Option<Duration> {
        let measured = completed
            && self.plan.side == Side::Client
            && matches!(self.plan.parameters, PatternParameters::Bulk(_));
        deliveries.last.filter(|_| measured).map(|last| last.since(self.plan.started))
    }
}

/// A panic of another thread leaves counters and series usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
