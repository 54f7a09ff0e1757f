//! Telemetry at a fixed interval.

use crate::telemetry::{ConnectionSnapshot, Telemetry, TelemetryError};
use pathbench_record::time::{Clock, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};
use thiserror::Error;

/// Samples that are kept (some 45 MB with two subflows); at 10 ms they are reached after 11 minutes.
const MOST_SAMPLES: usize = 65_536;

/// Takes snapshots of one connection in a thread of its own.
///
/// Snapshots are taken at multiples of the interval after the start; one that is late is taken late, and those
/// that were missed meanwhile are not made up for. Memory is bounded: beyond 65 536 samples every other one is
/// dropped and the interval doubles, so that a series always covers the whole connection evenly.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Mutex<Shared>>,
    clock: ClockHandle,
}

/// A connection's samples, complete.
#[derive(Debug)]
pub struct SampledConnection {
    /// In order of time; the last one was taken when the sampler was stopped.
    pub samples: Vec<(Timestamp, ConnectionSnapshot)>,
    /// Interval at the end: the one asked for, or a multiple of it when samples were dropped.
    pub interval: Duration,
    /// What made the last look fail, when it did; the samples before it stand.
    pub failure: Option<TelemetryError>,
}

/// Why a sampler could not be started or asked.
#[derive(Debug, Error)]
pub enum SamplerError {
    /// Less than a millisecond between samples costs more than it tells.
    #[error("a sampling interval of {} ms is too short; the shortest is 1 ms", .interval.as_secs_f64() * 1e3)]
    IntervalTooShort {
        /// What was asked for.
        interval: Duration,
    },
    /// No thread to be had.
    #[error("starting a thread for sampling: {source}")]
    Thread {
        /// The system's answer.
        source: io::Error,
    },
    /// The sampler has ended.
    #[error("the sampler has been stopped")]
    Stopped,
    /// The snapshot failed.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

struct ClockHandle(Arc<dyn Clock>);

impl std::fmt::Debug for ClockHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// The thread holds only this, so stopping need not wait for it to wake.
#[derive(Debug)]
struct Shared {
    /// Gone once stopped.
    telemetry: Option<Telemetry>,
    samples: Vec<(Timestamp, ConnectionSnapshot)>,
    interval: Duration,
    failure: Option<TelemetryError>,
}

impl Sampler {
    /// Starts sampling every `interval`, at once for the first time.
    ///
    /// # Errors
    /// An interval below 1 ms, or no thread.
    pub fn start(
        telemetry: Telemetry,
        clock: Arc<dyn Clock>,
        interval: Duration,
    ) -> Result<Self, SamplerError> {
        if interval < Duration::from_millis(1) {
            return Err(SamplerError::IntervalTooShort { interval });
        }
        let shared = Arc::new(Mutex::new(Shared {
            telemetry: Some(telemetry),
            samples: Vec::new(),
            interval,
            failure: None,
        }));
        let (held, ticking) = (Arc::clone(&shared), Arc::clone(&clock));
        thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || tick(&held, ticking.as_ref()))
            .map_err(|source| SamplerError::Thread { source })?;
        Ok(Self { shared, clock: ClockHandle(clock) })
    }

    /// Takes a sample now, in the calling thread, in addition to the periodic ones.
    ///
    /// # Errors
    /// When the snapshot fails.
    pub fn sample_now(&self) -> Result<(Timestamp, ConnectionSnapshot), SamplerError> {
        let mut shared = lock(&self.shared);
        let now = self.clock.0.now();
        let snapshot = shared.take(now)?.ok_or(SamplerError::Stopped)?;
        Ok((now, snapshot))
    }

    /// The latest sample.
    #[must_use]
    pub fn latest(&self) -> Option<(Timestamp, ConnectionSnapshot)> {
        lock(&self.shared).samples.last().cloned()
    }

    /// The samples after a moment, or all.
    #[must_use]
    pub fn since(&self, after: Option<Timestamp>) -> Vec<(Timestamp, ConnectionSnapshot)> {
        let shared = lock(&self.shared);
        let first = after.map_or(0, |after| shared.samples.partition_point(|(at, _)| *at <= after));
        shared.samples.get(first..).unwrap_or_default().to_vec()
    }

    /// Takes a last sample, ends at once and returns everything. Releases the connection's socket.
    #[must_use]
    pub fn stop(self) -> SampledConnection {
        let mut shared = lock(&self.shared);
        let now = self.clock.0.now();
        if let Err(failure) = shared.take(now) {
            shared.failure = Some(failure);
        }
        shared.telemetry = None;
        SampledConnection {
            samples: std::mem::take(&mut shared.samples),
            interval: shared.interval,
            failure: shared.failure.take(),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        lock(&self.shared).telemetry = None;
    }
}

impl Shared {
    /// `None` once stopped.
    fn take(&mut self, at: Timestamp) -> Result<Option<ConnectionSnapshot>, TelemetryError> {
        let Some(telemetry) = &mut self.telemetry else { return Ok(None) };
        let snapshot = telemetry.snapshot()?;
        self.failure = None;
        self.samples.push((at, snapshot.clone()));
        if self.samples.len() > MOST_SAMPLES {
            thin(&mut self.samples);
            self.interval = self.interval.saturating_mul(2);
        }
        Ok(Some(snapshot))
    }
}

/// Drops every other sample, but not the first.
fn thin<T>(samples: &mut Vec<T>) {
    let mut keep = false;
    samples.retain(|_| {
        keep = !keep;
        keep
    });
}

/// The next multiple of `interval` after `due` that is not in the past.
fn next_due(due: Timestamp, interval: Duration, now: Timestamp) -> Timestamp {
    let next = due + interval;
    let late = now.since(next).as_nanos();
    let missed = late.div_ceil(interval.as_nanos().max(1));
    next + interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX))
}

fn tick(shared: &Mutex<Shared>, clock: &dyn Clock) {
    let mut due = clock.now();
    loop {
        let interval = {
            let mut shared = lock(shared);
            if shared.telemetry.is_none() {
                return;
            }
            let now = clock.now();
            if let Err(failure) = shared.take(now) {
                shared.failure = Some(failure);
            }
            shared.interval
        };
        due = next_due(due, interval, clock.now());
        clock.sleep_until(due);
    }
}

/// A panic elsewhere leaves the samples usable.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_first_and_every_other() {
        let mut samples = vec![0, 1, 2, 3, 4];
        thin(&mut samples);
        assert_eq!(samples, [0, 2, 4]);
        thin(&mut samples);
        assert_eq!(samples, [0, 4]);
    }

    #[test]
    fn samples_stay_on_the_grid_however_late_they_are() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let ten = Duration::from_millis(10);
        assert_eq!(next_due(at(100), ten, at(101)), at(110));
        assert_eq!(next_due(at(100), ten, at(110)), at(110));
        assert_eq!(next_due(at(100), ten, at(111)), at(120));
        assert_eq!(next_due(at(100), ten, at(164)), at(170));
        assert_eq!(next_due(at(100), ten, at(170)), at(170));
    }
}
