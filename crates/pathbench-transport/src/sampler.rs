//! Telemetry at a fixed interval.

use crate::telemetry::{ConnectionSnapshot, Telemetry, TelemetryError};
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::{Clock, Timestamp};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};
use thiserror::Error;

/// Figures of closed paths that a sample takes over from one that is dropped.
const MOST_TAKEN_OVER: usize = 16;

/// Takes snapshots of one connection in a thread of its own.
///
/// Snapshots are taken at multiples of the interval after the start; one that is late is taken late, and those
/// that were missed meanwhile are not made up for. A sample has the figures of the paths that are not closed, and once
/// more those of each path that has closed since the sample before. Memory is bounded: when more figures than asked for
/// have been taken, every other sample is dropped and the interval doubles, so that a series always covers the whole
/// connection evenly.
#[derive(Debug)]
pub struct Sampler {
    held: Arc<Held>,
    clock: ClockHandle,
}

/// A connection's samples, complete.
#[derive(Debug)]
pub struct SampledConnection {
    /// In order of time; the last one was taken when the sampler was stopped.
    pub samples: Vec<(Timestamp, ConnectionSnapshot)>,
    /// The last snapshot, closed paths included.
    pub last: Option<ConnectionSnapshot>,
    /// Interval at the end: the one asked for, or a multiple of it when samples were dropped.
    pub interval: Duration,
    /// What made the last look fail, when it did; the samples before it stand.
    pub failure: Option<TelemetryError>,
}

/// Why a sampler could not be started or asked.
#[derive(Debug, Error)]
pub enum SamplerError {
    #[error("a sampling interval of {} ms is too short; the shortest is 1 ms", .interval.as_secs_f64() * 1e3)]
    IntervalTooShort { interval: Duration },
    #[error("starting a thread for sampling: {source}")]
    Thread { source: io::Error },
    #[error("the sampler has been stopped")]
    Stopped,
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

struct ClockHandle(Arc<dyn Clock>);

impl std::fmt::Debug for ClockHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// All that the thread holds, so that stopping need not wait for it.
#[derive(Debug)]
struct Held {
    shared: Mutex<Shared>,
    stopped: Condvar,
}

#[derive(Debug)]
struct Shared {
    telemetry: Option<Telemetry>,
    series: Series,
    latest: Option<(Timestamp, ConnectionSnapshot)>,
    interval: Duration,
    failure: Option<TelemetryError>,
}

impl Sampler {
    /// Starts sampling every `interval`, at once for the first time, and keeps at most `most_figures` figures of paths.
    ///
    /// # Errors
    /// An interval below 1 ms, or no thread.
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
            series: Series::of_at_most(most_figures),
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
        Ok(Self { held, clock: ClockHandle(clock) })
    }

    /// Takes a sample now, in the calling thread, in addition to the periodic ones.
    ///
    /// # Errors
    /// When the snapshot fails.
    pub fn sample_now(&self) -> Result<(Timestamp, ConnectionSnapshot), SamplerError> {
        let mut shared = lock(&self.held.shared);
        let now = self.clock.0.now();
        let snapshot = shared.take(now)?.ok_or(SamplerError::Stopped)?;
        Ok((now, snapshot))
    }

    /// The latest snapshot, closed paths included.
    pub fn latest(&self) -> Option<(Timestamp, ConnectionSnapshot)> {
        lock(&self.held.shared).latest.clone()
    }

    /// The samples after a moment, or all.
    pub fn since(&self, after: Option<Timestamp>) -> Vec<(Timestamp, ConnectionSnapshot)> {
        let shared = lock(&self.held.shared);
        let samples = &shared.series.samples;
        let first = after.map_or(0, |after| samples.partition_point(|(at, _)| *at <= after));
        samples.get(first..).unwrap_or_default().to_vec()
    }

    /// Takes a last sample, ends at once and returns everything. Releases the connection's socket.
    pub fn stop(self) -> SampledConnection {
        let mut shared = lock(&self.held.shared);
        let now = self.clock.0.now();
        if let Err(failure) = shared.take(now) {
            shared.failure = Some(failure);
        }
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
    /// `None` once stopped.
    fn take(&mut self, at: Timestamp) -> Result<Option<ConnectionSnapshot>, TelemetryError> {
        let Some(telemetry) = &mut self.telemetry else { return Ok(None) };
        let snapshot = telemetry.snapshot()?;
        self.failure = None;
        let doublings = self.series.push(at, snapshot.clone());
        self.interval = self.interval.saturating_mul(1 << doublings);
        self.latest = Some((at, snapshot.clone()));
        Ok(Some(snapshot))
    }
}

#[derive(Debug)]
struct Series {
    samples: Vec<(Timestamp, ConnectionSnapshot)>,
    figures: usize,
    most_figures: usize,
    closed: Vec<u32>,
}

impl Series {
    fn of_at_most(most_figures: usize) -> Self {
        Self { samples: Vec::new(), figures: 0, most_figures, closed: Vec::new() }
    }

    /// Adds a sample; how many times every other sample was dropped for it.
    fn push(&mut self, at: Timestamp, mut snapshot: ConnectionSnapshot) -> u32 {
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

/// Drops every other sample, but not the last. The end of a path is in one sample only: the next one takes it over.
fn thin(samples: &mut Vec<(Timestamp, ConnectionSnapshot)>) {
    // Turns before each sample.
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
fn next_due(due: Timestamp, interval: Duration, now: Timestamp) -> Timestamp {
    let next = due + interval;
    let late = now.since(next).as_nanos();
    let missed = late.div_ceil(interval.as_nanos().max(1));
    next + interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX))
}

/// Samples until stopped, which ends a sleep as well: its length may have been a client's wish.
fn tick(held: &Held, clock: &dyn Clock) {
    let mut due = clock.now();
    let mut shared = lock(&held.shared);
    while shared.telemetry.is_some() {
        let now = clock.now();
        if now < due {
            let woken = held.stopped.wait_timeout(shared, due.since(now));
            shared = woken.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        if let Err(failure) = shared.take(now) {
            shared.failure = Some(failure);
        }
        due = next_due(due, shared.interval, clock.now());
    }
}

/// A panic elsewhere leaves the samples usable.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::connection::Negotiation;
    use pathbench_record::transport::Transport;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn path(subflow: u32, state: PathState) -> PathFigures {
        let ends = ([10, 0, 0, 1], 1).into();
        PathFigures { subflow, state, ..PathFigures::between(ends, ends) }
    }

    fn snapshot(subflows: Vec<PathFigures>) -> ConnectionSnapshot {
        ConnectionSnapshot { subflows, mptcp: None, multipath: Negotiation::Negotiated }
    }

    fn numbers(series: &Series) -> Vec<Vec<u32>> {
        let numbers = |sample: &ConnectionSnapshot| sample.subflows.iter().map(|path| path.subflow).collect();
        series.samples.iter().map(|(_, sample)| numbers(sample)).collect()
    }

    #[test]
    fn the_end_of_a_path_is_in_one_sample() {
        use PathState::{Closed, Open};
        let mut series = Series::of_at_most(100);
        let looks = [
            vec![path(1, Open), path(2, Open)],
            vec![path(1, Open), path(2, Closed)],
            vec![path(1, Open), path(2, Closed), path(3, Closed)],
            vec![path(1, Open), path(2, Closed), path(3, Closed)],
            // The ledger has forgotten 2, and takes 3 for a new one.
            vec![path(1, Open), path(3, Open)],
            vec![path(1, Open), path(3, Closed)],
        ];
        for (ms, look) in looks.into_iter().enumerate() {
            assert_eq!(series.push(at(ms as u64), snapshot(look)), 0);
        }
        assert_eq!(numbers(&series), [vec![1, 2], vec![1, 2], vec![1, 3], vec![1], vec![1, 3], vec![1, 3]]);
    }

    #[test]
    fn thinning_keeps_the_last_sample_and_the_end_of_every_path() {
        use PathState::{Closed, Open};
        let mut series = Series::of_at_most(9);
        let looks = [
            vec![path(1, Open), path(2, Open)],
            vec![path(1, Open), path(2, Closed)],
            vec![path(1, Open), path(2, Closed)],
            vec![path(1, Open), path(2, Closed)],
        ];
        let mut doublings = 0;
        for (ms, look) in looks.into_iter().enumerate() {
            doublings += series.push(at(ms as u64), snapshot(look));
        }
        assert_eq!((doublings, numbers(&series)), (1, vec![vec![1, 2], vec![1]]));
        assert_eq!(series.samples.last().map(|(at, _)| *at), Some(at(3)));
        assert_eq!(series.figures, 5);
    }

    #[test]
    fn a_series_stays_within_its_bound_however_paths_come_and_go() {
        let mut series = Series::of_at_most(1000);
        for ms in 0..20_000_u32 {
            let closed = (ms.saturating_sub(32)..ms).map(|number| path(number * 8, PathState::Closed));
            let open = (0..8).map(|number| path(ms * 8 + number, PathState::Open));
            series.push(at(ms.into()), snapshot(closed.chain(open).collect()));
            let figures: usize = series.samples.iter().map(|(_, sample)| 1 + sample.subflows.len()).sum();
            assert!(figures <= 1000 && series.closed.len() <= 32, "{figures} after {ms}");
        }
        assert!(series.samples.len() > 10, "{} samples", series.samples.len());
    }

    #[test]
    fn a_stopped_sampler_does_not_sleep_on() {
        use pathbench_kerneltest::MonotonicClock;
        use std::net::{TcpListener, TcpStream};

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = socket2::Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let connection =
            crate::connected_socket::ConnectedSocket::established(socket, Transport::Tcp).unwrap();
        let hour = Duration::from_secs(3600);
        let sampler =
            Sampler::start(connection.telemetry().unwrap(), Arc::new(MonotonicClock), hour, 1000).unwrap();
        while sampler.latest().is_none() {
            thread::yield_now();
        }
        let held = Arc::downgrade(&sampler.held);
        assert_eq!(sampler.stop().samples.len(), 2);
        let ended = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            held.strong_count() == 0
        });
        assert!(ended, "its thread sleeps on");
    }

    #[test]
    fn samples_stay_on_the_grid_however_late_they_are() {
        let ten = Duration::from_millis(10);
        assert_eq!(next_due(at(100), ten, at(101)), at(110));
        assert_eq!(next_due(at(100), ten, at(110)), at(110));
        assert_eq!(next_due(at(100), ten, at(111)), at(120));
        assert_eq!(next_due(at(100), ten, at(164)), at(170));
        assert_eq!(next_due(at(100), ten, at(170)), at(170));
    }
}
