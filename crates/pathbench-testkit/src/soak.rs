//! The parts that soaks share: clients that load a process for a time, their counts and failures, and its memory.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a soak prints its results")]

use crate::MonotonicClock;
use pathbench_record::statistics::{median, nearest_rank};
use pathbench_record::time::{Clock as _, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the resources of the process are read.
pub const READING_INTERVAL: Duration = Duration::from_secs(5);

/// Memory is flat when the last sixth's median exceeds the second sixth's by no more than this share...
const GROWTH_SHARE: f64 = 0.10;

/// ...and by no more than this, which an allocator's fragmentation can explain.
const GROWTH_BYTES: f64 = 8e6;

/// Shared by all clients of a soak.
#[derive(Debug)]
pub struct Load {
    pub begun: Timestamp,
    ends: Timestamp,
    over: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
    times_ms: Mutex<BTreeMap<String, Vec<f64>>>,
    failures: Mutex<Vec<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Begins now, and lasts for `time`.
    pub fn new(time: Duration) -> Self {
        let begun = MonotonicClock.now();
        Self {
            begun,
            ends: begun + time,
            over: AtomicBool::new(false),
            counts: Mutex::default(),
            times_ms: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    pub fn runs(&self) -> bool {
        !self.over.load(Ordering::Relaxed) && MonotonicClock.now() < self.ends
    }

    /// Ends before its time.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Sleeps, but not beyond the end.
    pub fn pause(&self, time: Duration) {
        let now = MonotonicClock.now();
        MonotonicClock.sleep_until((now + time).min(self.ends));
    }

    pub fn count(&self, what: &str) {
        *locked(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    /// Counts a request of this kind, and keeps its time.
    pub fn time(&self, kind: &str, time: Duration) {
        locked(&self.times_ms).entry(kind.to_owned()).or_default().push(time.as_secs_f64() * 1e3);
    }

    pub fn fail(&self, what: String) {
        eprintln!("FAILED: {what}");
        locked(&self.failures).push(what);
    }

    /// Number of timed requests.
    pub fn timed(&self) -> usize {
        locked(&self.times_ms).values().map(Vec::len).sum()
    }

    /// The 95th percentile of the timed requests.
    pub fn p95(&self) -> Duration {
        let all: Vec<f64> = locked(&self.times_ms).values().flatten().copied().collect();
        Duration::from_secs_f64(nearest_rank(&all, 0.95).unwrap_or_default() / 1e3)
    }

    /// Prints counts and times by kind; returns the failures.
    pub fn conclude(&self) -> Vec<String> {
        for (what, count) in locked(&self.counts).iter() {
            println!("{count:8}  {what}");
        }
        let times_ms = locked(&self.times_ms);
        if !times_ms.is_empty() {
            println!("   count  p50 ms  p95 ms  longest ms  request");
        }
        for (kind, times) in times_ms.iter() {
            let [p50, p95, longest] = [0.5, 0.95, 1.0].map(|p| nearest_rank(times, p).unwrap_or_default());
            println!("{:8}  {p50:6.1}  {p95:6.0}  {longest:10.0}  {kind}", times.len());
        }
        std::mem::take(&mut locked(&self.failures))
    }
}

/// Pseudo-random numbers (xorshift64*), so that a soak can be repeated.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a client.
    pub fn new(client: u32) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (u64::from(client) << 32 | 1))
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn number_below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// One of `all`.
    ///
    /// # Panics
    /// Without an element.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number_below(all.len() as u64) as usize]
    }

    pub fn milliseconds(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.number_below(range.end - range.start))
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number() as u8).collect()
    }
}

/// The resources of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub struct ProcessReading {
    pub at: Timestamp,
    pub rss_bytes: f64,
    /// Largest resident size since the start, or since [`forget_peak`].
    pub peak_bytes: f64,
    pub threads: u64,
    pub descriptors: usize,
}

impl ProcessReading {
    /// # Errors
    /// When the process has ended.
    pub fn of_process(id: u32) -> Result<Self, String> {
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))
            .map_err(|error| format!("process {id} has exited: {error}"))?;
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        // Sizes are in KiB: proc_pid_status(5).
        let size = |name: &str| {
            field(name).map(|kib| kib as f64 * 1024.0).ok_or_else(|| format!("process {id} has ended"))
        };
        Ok(Self {
            at: MonotonicClock.now(),
            rss_bytes: size("VmRSS:")?,
            peak_bytes: size("VmHWM:")?,
            threads: field("Threads:").unwrap_or_default(),
            descriptors: std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count),
        })
    }
}

/// Sets the peak of a process to its present size: `clear_refs` in proc(5).
///
/// # Errors
/// When the process has ended, or is that of another user.
pub fn forget_peak(id: u32) -> Result<(), String> {
    std::fs::write(format!("/proc/{id}/clear_refs"), "5").map_err(|error| format!("process {id}: {error}"))
}

/// Prints the medians of the resident sizes in the second and the last sixth.
///
/// # Errors
/// When the last exceeds the second by more than fragmentation explains.
pub fn check_growth(rss_bytes: &[f64]) -> Result<(), String> {
    let sixth = |index: usize| {
        let length = rss_bytes.len() / 6;
        let part: Vec<f64> = rss_bytes.iter().skip(index * length).take(length).copied().collect();
        median(&part).unwrap_or_default()
    };
    let (second, last) = (sixth(1), sixth(5));
    println!(
        "RSS median of the second sixth {:.1} MB, of the last {:.1} MB; largest reading {:.1} MB",
        second / 1e6,
        last / 1e6,
        rss_bytes.iter().copied().fold(0.0, f64::max) / 1e6
    );
    if last - second > (second * GROWTH_SHARE).max(GROWTH_BYTES) {
        return Err(format!("memory grows: {:.1} MB after the first sixth", (last - second) / 1e6));
    }
    Ok(())
}
