//! Telemetry at a fixed interval.

use crate::connection::Telemetry;
use crate::containment::lock;
use crate::telemetry::{ConnectionSnapshot, TelemetryError};
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::text::duration;
use pathbench_record::time::{Clock, Timestamp};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};
use thiserror::Error;

/// Figures of closed paths that move from a dropped sample to the next one.
const MOST_TAKEN_OVER: usize = 16;

/// Takes snapshots of one connection in a dedicated thread.
///
/// Snapshots are due at multiples of the interval after the start. A late snapshot is taken at once; missed ones are
/// skipped. A sample holds the figures of the open paths, and the last figures of each path closed since the previous
/// sample. Memory is bounded: above the limit of figures, every other sample is dropped and the interval doubles, so
/// that a series always covers the whole connection evenly.
#[derive(Debug)]
pub struct Sampler {
    held: Arc<Held>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
pub struct SampledConnection {
    /// In chronological order; the last one was taken when the sampler stopped.
    pub samples: Vec<(Timestamp, ConnectionSnapshot)>,
    /// The last snapshot, closed paths included.
    pub last: Option<ConnectionSnapshot>,
    /// Final interval: the requested one, or a multiple of it after samples were dropped.
    pub interval: Duration,
    /// The error of the last snapshot, if it failed; earlier samples remain valid.
    pub failure: Option<TelemetryError>,
}

/// The sampler could not start.
#[derive(Debug, Error)]
pub enum SamplerError {
    #[error("a sampling interval of {} is too short; the shortest is 1 ms", duration(*.interval))]
    IntervalTooShort { interval: Duration },
    #[error("starting a thread for sampling: {source}")]
    Thread { source: io::Error },
}

/// The state of the thread, so that stopping does not wait for it.
#[derive(Debug)]
struct Held {
    shared: Mutex<Shared>,
    stopped: Condvar,
}

#[derive(Debug)]
struct Shared {
    telemetry: Option<Telemetry>,
    series: SampleSeries,
    latest: Option<(Timestamp, ConnectionSnapshot)>,
    interval: Duration,
    failure: Option<TelemetryError>,
}

impl Sampler {
    /// Starts sampling every `interval`, first immediately, and keeps at most `most_figures` path figures.
    /// Errors: `interval` is below 1 ms, or the thread cannot start.
    pub fn start(
        telemetry: Telemetry,
        clock: Arc<dyn Clock>,
        interval: Duration,
        most_figures: usize,
    ) -> Result<Self, SamplerError> {
        if interval < Duration::from_millis(1) {
            return Err(SamplerError::IntervalTooShort { interval });
        }
        let shared = Mutex::new(Shared {
            telemetry: Some(telemetry),
            series: SampleSeries::of_at_most(most_figures),
            latest: None,
            interval,
            failure: None,
        });
        let held = Arc::new(Held { shared, stopped: Condvar::new() });
        let (ticked, ticking) = (Arc::clone(&held), Arc::clone(&clock));
        thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || tick(&ticked, ticking.as_ref()))
            .map_err(|source| SamplerError::Thread { source })?;
        Ok(Self { held, clock })
    }

    /// The latest snapshot, closed paths included.
    pub fn latest(&self) -> Option<(Timestamp, ConnectionSnapshot)> {
        lock(&self.held.shared).latest.clone()
    }

    pub fn samples_since(&self, after: Option<Timestamp>) -> Vec<(Timestamp, ConnectionSnapshot)> {
        let shared = lock(&self.held.shared);
        let samples = &shared.series.samples;
        let first = after.map_or(0, |after| samples.partition_point(|(at, _)| *at <= after));
        samples.get(first..).unwrap_or_default().to_vec()
    }

    /// Takes a last sample, stops immediately and returns all samples. Releases the connection's socket.
    pub fn stop(self) -> SampledConnection {
        let mut shared = lock(&self.held.shared);
        shared.sample(self.clock.now());
        shared.telemetry = None;
        self.held.stopped.notify_all();
        SampledConnection {
            samples: std::mem::take(&mut shared.series.samples),
            last: shared.latest.take().map(|(_, snapshot)| snapshot),
            interval: shared.interval,
            failure: shared.failure.take(),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        lock(&self.held.shared).telemetry = None;
        self.held.stopped.notify_all();
    }
}

impl Shared {
    /// Takes a sample, unless stopped.
    fn sample(&mut self, at: Timestamp) {
        match self.telemetry.as_mut().map(Telemetry::snapshot) {
            None => {}
            Some(Err(failure)) => self.failure = Some(failure),
            Some(Ok(snapshot)) => {
                self.failure = None;
                let doublings = self.series.push(at, snapshot.clone());
                self.interval = self.interval.saturating_mul(1 << doublings);
                self.latest = Some((at, snapshot));
            }
        }
    }
}

/// Samples in order of time, with a bounded number of figures.
#[derive(Debug)]
pub struct SampleSeries {
    pub samples: Vec<(Timestamp, ConnectionSnapshot)>,
    /// Number of samples plus number of path figures.
    pub figures: usize,
    most_figures: usize,
    /// The paths that the previous sample reports as closed.
    pub closed: Vec<u32>,
}

impl SampleSeries {
    pub fn of_at_most(most_figures: usize) -> Self {
        Self { samples: Vec::new(), figures: 0, most_figures, closed: Vec::new() }
    }

    /// Adds a sample; returns how often every other sample was dropped to keep the bound.
    pub fn push(&mut self, at: Timestamp, mut snapshot: ConnectionSnapshot) -> u32 {
        let is_closed = |path: &PathFigures| path.state == PathState::Closed;
        let closed =
            snapshot.subflows.iter().filter(|path| is_closed(path)).map(|path| path.subflow).collect();
        let known = std::mem::replace(&mut self.closed, closed);
        snapshot.subflows.retain(|path| !is_closed(path) || !known.contains(&path.subflow));
        snapshot.subflows.shrink_to_fit();
        self.figures += 1 + snapshot.subflows.len();
        self.samples.push((at, snapshot));
        let mut doublings = 0;
        while self.figures > self.most_figures && self.samples.len() > 1 {
            thin(&mut self.samples);
            self.figures = self.samples.iter().map(|(_, sample)| 1 + sample.subflows.len()).sum();
            doublings += 1;
        }
        doublings
    }
}

/// Drops every other sample, but not the last. The final figures of a closed path are in one sample only, so the next
/// sample takes them over.
fn thin(samples: &mut Vec<(Timestamp, ConnectionSnapshot)>) {
    // Toggles before each sample.
    let mut drops = !samples.len().is_multiple_of(2);
    let mut closed: Vec<PathFigures> = Vec::new();
    samples.retain_mut(|(_, sample)| {
        drops = !drops;
        if drops {
            closed = std::mem::take(&mut sample.subflows);
            closed.retain(|path| path.state == PathState::Closed);
            closed.truncate(MOST_TAKEN_OVER);
            return false;
        }
        sample.subflows.append(&mut closed);
        true
    });
}

/// The next multiple of `interval` after `due` that is not in the past.
pub fn next_due(due: Timestamp, interval: Duration, now: Timestamp) -> Timestamp {
    let next = due + interval;
    let late = now.duration_since(next).as_nanos();
    let missed = late.div_ceil(interval.as_nanos().max(1));
    next + interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX))
}

/// Samples until stopped. Stopping also interrupts the wait: clients choose the interval.
fn tick(held: &Held, clock: &dyn Clock) {
    let mut due = clock.now();
    let mut shared = lock(&held.shared);
    while shared.telemetry.is_some() {
        let now = clock.now();
        if now < due {
            let woken = held.stopped.wait_timeout(shared, due.duration_since(now));
            shared = woken.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        shared.sample(now);
        due = next_due(due, shared.interval, clock.now());
    }
}
