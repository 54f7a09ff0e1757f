//! Stalls: the receiver's silences while data was outstanding.

use super::measurement::{Measurement, start};
use pathbench_record::delivery::{DeliverySeries, Gap};
use pathbench_record::time::Timestamp;

/// The stalls of a direction, sorted by start, and the known idle times.
#[derive(Debug, Clone)]
pub(super) struct Stalls {
    intervals: Vec<Gap>,
    /// Whether stalls could be observed: a byte was delivered, or a connection given up.
    watched: bool,
    idle: Vec<Timestamp>,
    idle_from: Option<Timestamp>,
}

impl Stalls {
    pub(super) fn from_measurement(measurement: &Measurement<'_>) -> Self {
        let deliveries = measurement.deliveries;
        let backlog = measurement.offered.map(|offered| Backlog::new(offered, deliveries));
        let warm =
            deliveries.first.map_or_else(Timestamp::default, |_| start(measurement) + measurement.omit);
        let mut intervals: Vec<Gap> = silences(measurement)
            .into_iter()
            .filter_map(|silence| {
                let outstanding = match &backlog {
                    Some(backlog) => backlog.outstanding_from(silence.from)?,
                    None => silence.from,
                };
                let from = silence.from.max(outstanding).max(warm);
                (from < silence.until).then_some(Gap { from, until: silence.until })
            })
            .collect();
        intervals.sort_by_key(|stall| (stall.from, stall.until));
        Self {
            intervals,
            watched: deliveries.first.is_some() || measurement.gave_up.is_some(),
            idle: backlog.as_ref().map_or_else(Vec::new, Backlog::idle_moments),
            idle_from: backlog.as_ref().and_then(Backlog::idle_from),
        }
    }

    /// The longest stall; `None` if none could be observed.
    pub(super) fn longest_ms(&self) -> Option<f64> {
        self.watched.then(|| longest_ms(self.intervals.iter().copied()))
    }

    /// The longest stall that ends after `from` and begins before `next`, counted from `from` to its end.
    pub(super) fn longest_ms_begun_in(&self, from: Timestamp, next: Option<Timestamp>) -> f64 {
        let begun = |stall: &&Gap| next.is_none_or(|next| stall.from < next);
        let of_phase = self.intervals.iter().filter(|stall| stall.until > from).filter(begun);
        longest_ms(of_phase.map(|stall| Gap { from: stall.from.max(from), until: stall.until }))
    }

    /// Whether data was outstanding throughout `from..until`, with the resolution of the 10 ms bins.
    pub(super) fn outstanding_throughout(&self, from: Timestamp, until: Timestamp) -> bool {
        let next = self.idle.partition_point(|&moment| moment < from);
        self.idle.get(next).is_none_or(|&moment| moment >= until)
            && self.idle_from.is_none_or(|idle_from| idle_from >= until)
    }
}

fn longest_ms(stalls: impl Iterator<Item = Gap>) -> f64 {
    let longest = stalls.map(|stall| stall.until.duration_since(stall.from)).max().unwrap_or_default();
    longest.as_nanos() as f64 / 1e6
}

/// Every silence of the receiver: before its first byte, between bytes, and until giving up.
///
/// Silences of 20 ms or less are not recorded individually; their empty bins give lower bounds.
fn silences(measurement: &Measurement<'_>) -> Vec<Gap> {
    let deliveries = measurement.deliveries;
    let start = start(measurement);
    let mut silences = deliveries.gaps.clone();
    silences.extend(empty_bins(deliveries));
    if let Some(until) = deliveries.first.or(measurement.gave_up) {
        silences.push(Gap { from: start, until });
    }
    if let (Some(from), Some(until)) = (deliveries.last, measurement.gave_up) {
        silences.push(Gap { from, until });
    }
    silences
}

/// Runs of empty bins between the first and the last bin with bytes.
fn empty_bins(series: &DeliverySeries) -> Vec<Gap> {
    let mut runs = Vec::new();
    let mut after_last: Option<usize> = None;
    for (bin, _) in series.bytes.iter().enumerate().filter(|&(_, &bytes)| bytes > 0) {
        if let Some(from) = after_last
            && from < bin
        {
            runs.push(Gap { from: series.bin_start(from), until: series.bin_start(bin) });
        }
        after_last = Some(bin + 1);
    }
    runs
}

/// Compares offered with delivered bytes.
///
/// Both are known per bin, and exactly after silences. Where the bins are ambiguous, data counts as outstanding: a
/// stall is reported at most 10 ms too long, and never missed. A sender that records a write when the socket has
/// accepted it may show fewer offered than delivered bytes: a write has not returned yet, and data is outstanding.
#[derive(Debug, Clone)]
struct Backlog<'a> {
    offered: &'a DeliverySeries,
    delivered: &'a DeliverySeries,
    offered_by: Vec<u64>,
    delivered_by: Vec<u64>,
}

impl<'a> Backlog<'a> {
    fn new(offered: &'a DeliverySeries, delivered: &'a DeliverySeries) -> Self {
        Self { offered, delivered, offered_by: running_sum(offered), delivered_by: running_sum(delivered) }
    }

    /// The first time when the offered bytes exceeded those delivered at `silent_since`, the start of a silence.
    /// `None` if they never did. May be before `silent_since`.
    fn outstanding_from(&self, silent_since: Timestamp) -> Option<Timestamp> {
        // No byte arrives in a silence, so all bytes of the bin in which it begins arrived before it.
        let delivered = match self.delivered.first {
            Some(first) if silent_since >= first => {
                let last = self.delivered_by.len().checked_sub(1);
                last.map_or(0, |last| self.delivered_by[self.delivered.bin_of(silent_since).min(last)])
            }
            _ => 0,
        };
        // One more bin: a write may be recorded shortly after the receiver got the data.
        if self.offered_up_to_bin(self.offered.bin_of(silent_since) + 1) < delivered {
            return Some(silent_since);
        }
        let bin = self.offered_by.partition_point(|&offered| offered <= delivered);
        if bin >= self.offered_by.len() {
            return None;
        }
        let start = self.offered.bin_start(bin);
        let next_gap = self.offered.gaps.partition_point(|gap| gap.until < start);
        let after_silence = self.offered.gaps.get(next_gap).map(|gap| gap.until);
        let exact = after_silence.into_iter().chain(self.offered.first);
        Some(exact.filter(|&at| self.offered.bin_of(at) == bin).min().unwrap_or(start))
    }

    /// Bytes offered up to the end of a bin, which may be beyond the series.
    fn offered_up_to_bin(&self, bin: usize) -> u64 {
        let last = self.offered_by.len().checked_sub(1);
        last.map_or(0, |last| self.offered_by[bin.min(last)])
    }

    /// Starts of the receiver's bins at which all bytes had been delivered that were offered up to the end of the
    /// sender's bin at that time.
    fn idle_moments(&self) -> Vec<Timestamp> {
        (0..self.delivered_by.len())
            .filter(|&bin| {
                let offered = self.offered_up_to_bin(self.offered.bin_of(self.delivered.bin_start(bin)));
                let delivered = bin.checked_sub(1).map_or(0, |before| self.delivered_by[before]);
                offered == delivered
            })
            .map(|bin| self.delivered.bin_start(bin))
            .collect()
    }

    /// When all offered bytes had been delivered; `None` if they never were.
    fn idle_from(&self) -> Option<Timestamp> {
        if self.delivered_by.last() == self.offered_by.last() {
            self.delivered.last.max(self.offered.last)
        } else {
            None
        }
    }
}

fn running_sum(series: &DeliverySeries) -> Vec<u64> {
    let mut sum = 0_u64;
    series
        .bytes
        .iter()
        .map(|&bytes| {
            sum = sum.saturating_add(bytes);
            sum
        })
        .collect()
}
