//! Intervals of a running test, from its progress.

use pathbench_record::live::{IntervalPath, LiveDelay, LiveInterval, PathProgress, Progress};
use pathbench_record::statistics::median;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Divides the progress of one run into intervals. The bytes of all intervals add up to those of the last progress.
#[derive(Debug)]
pub struct IntervalMeter {
    run: String,
    interval: Duration,
    /// Beginning of the current interval, with the counters at that time.
    from: Option<Totals>,
    latest: Option<Progress>,
    /// Delays since the beginning of the current interval.
    delays: Vec<Duration>,
    has_messages: bool,
}

#[derive(Debug, Clone, Default)]
struct Totals {
    at: Timestamp,
    sent_bytes: u64,
    received_bytes: u64,
    /// Bytes and retransmitted bytes of each path.
    paths: BTreeMap<(IpAddr, IpAddr), [u64; 2]>,
}

impl Totals {
    fn from_progress(progress: &Progress) -> Self {
        let path = |path: &PathProgress| ((path.local, path.remote), counters(path));
        Self {
            at: progress.at,
            sent_bytes: progress.sent_bytes,
            received_bytes: progress.received_bytes,
            paths: progress.paths.iter().map(path).collect(),
        }
    }
}

const fn counters(path: &PathProgress) -> [u64; 2] {
    [path.acknowledged_bytes.saturating_add(path.received_bytes), path.retransmitted_bytes]
}

impl IntervalMeter {
    /// `interval` is the least length of an interval, except for the last one.
    pub fn new(run: String, interval: Duration) -> Self {
        Self { run, interval, from: None, latest: None, delays: Vec::new(), has_messages: false }
    }

    /// Adds the latest progress; returns the interval that ends with it, if any. `name` maps a local address to its path.
    pub fn add(&mut self, now: Progress, name: &dyn Fn(IpAddr) -> String) -> Option<LiveInterval> {
        let from = self.from.get_or_insert_with(|| Totals { at: now.first_byte, ..Totals::default() });
        let is_due = now.at.duration_since(from.at) >= self.interval;
        self.has_messages |= !now.delays.is_empty() || now.waiting_since.is_some();
        self.delays.extend_from_slice(&now.delays);
        self.latest = Some(now);
        if is_due { self.end_interval(name) } else { None }
    }

    /// The last interval, which may be shorter; `None` if nothing followed the previous one.
    pub fn finish(&mut self, name: &dyn Fn(IpAddr) -> String) -> Option<LiveInterval> {
        self.end_interval(name)
    }

    fn end_interval(&mut self, name: &dyn Fn(IpAddr) -> String) -> Option<LiveInterval> {
        let now = self.latest.take()?;
        let from = self.from.replace(Totals::from_progress(&now))?;
        let seconds = now.at.duration_since(from.at).as_secs_f64();
        let rate_mbps =
            |bytes: u64| if seconds > 0.0 { rounded(bytes as f64 * 8.0 / seconds / 1e6) } else { 0.0 };
        let mut paths: Vec<IntervalPath> = Vec::new();
        for path in &now.paths {
            let before = from.paths.get(&(path.local, path.remote)).copied().unwrap_or_default();
            let [bytes, retransmitted_bytes] = counters(path);
            let new = IntervalPath {
                name: name(path.local),
                bytes: bytes.saturating_sub(before[0]),
                rate_mbps: 0.0,
                retransmitted_bytes: retransmitted_bytes.saturating_sub(before[1]),
                rtt_ms: path.rtt.map(milliseconds),
                cwnd_bytes: path.cwnd_bytes,
            };
            match paths.iter_mut().find(|known| known.name == new.name) {
                Some(known) => join(known, &new),
                None => paths.push(new),
            }
        }
        for path in &mut paths {
            path.rate_mbps = rate_mbps(path.bytes);
        }
        let upload_bytes = now.sent_bytes.saturating_sub(from.sent_bytes);
        let download_bytes = now.received_bytes.saturating_sub(from.received_bytes);
        Some(LiveInterval {
            run: self.run.clone(),
            from_ms: rounded(from.at.ms_from(now.first_byte)),
            to_ms: rounded(now.at.ms_from(now.first_byte)),
            upload_bytes,
            download_bytes,
            rate_mbps: rate_mbps(upload_bytes.saturating_add(download_bytes)),
            paths,
            delay_ms: self.delay(&now),
        })
    }

    fn delay(&mut self, now: &Progress) -> Option<LiveDelay> {
        let delays: Vec<f64> = self.delays.drain(..).map(milliseconds).collect();
        self.has_messages.then(|| LiveDelay {
            messages: delays.len() as u32,
            median: median(&delays).map(rounded),
            max: delays.iter().copied().reduce(f64::max),
            waiting: now.waiting_since.map(|since| milliseconds(now.at.duration_since(since))),
        })
    }
}

/// Adds the figures of another pair of addresses of the same path.
fn join(known: &mut IntervalPath, new: &IntervalPath) {
    known.bytes += new.bytes;
    known.retransmitted_bytes += new.retransmitted_bytes;
    known.cwnd_bytes += new.cwnd_bytes;
    known.rtt_ms = known.rtt_ms.or(new.rtt_ms);
}

fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_nanos() as f64 / 1e6)
}

/// To a millionth of the unit.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
