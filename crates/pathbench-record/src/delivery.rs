//! Deliveries to the receiving application over time: the basis of every goodput figure.

use crate::direction::Direction;
use crate::directory::Fields;
use crate::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const BIN: Duration = Duration::from_millis(10);

/// Silences of the receiver shorter than this are not recorded individually.
pub const SHORTEST_GAP: Duration = Duration::from_millis(20);

/// Limit of the bins of a series: one day. Later bytes count in the last bin, so that no time, however wrong, makes a
/// series larger.
pub const MAX_BINS: usize = 24 * 3600 * 100;

/// An interval without a single byte at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Time of the last byte before the silence.
    pub from: Timestamp,
    /// Time of the first byte after the silence, or end of the recording.
    pub until: Timestamp,
}

/// Bytes delivered to an application over time, in bins of [`BIN`], with exact first and last times.
///
/// One series covers one direction of one run, all its parallel streams together unless noted otherwise. The same type
/// records the bytes that a *sending* application passed to its sockets (`offered`).
///
/// ```rust
/// use pathbench_record::delivery::DeliverySeries;
/// use pathbench_record::time::Timestamp;
/// use std::time::Duration;
///
/// let origin = Timestamp::default();
/// let mut series = DeliverySeries::starting_at(origin);
/// series.record(origin + Duration::from_millis(5), 1_000);
/// series.record(origin + Duration::from_millis(305), 500);
/// assert_eq!((series.bytes[0], series.bytes[30]), (1_000, 500));
/// let gap = series.gaps[0];
/// assert_eq!(gap.until.duration_since(gap.from), Duration::from_millis(300));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverySeries {
    /// Start of the first bin.
    pub origin: Timestamp,
    /// Bytes per bin; bin `i` covers `origin + i * BIN .. origin + (i + 1) * BIN`.
    pub bytes: Vec<u64>,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// Silences longer than [`SHORTEST_GAP`] between first and last byte, in order.
    pub gaps: Vec<Gap>,
}

impl DeliverySeries {
    /// An empty series whose first bin starts at `origin`.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, bytes: Vec::new(), first: None, last: None, gaps: Vec::new() }
    }

    /// Adds `count` bytes that reached the application at `at`; times before the origin count in the first bin, times
    /// beyond [`MAX_BINS`] in the last.
    pub fn record(&mut self, at: Timestamp, count: u64) {
        if count == 0 {
            return;
        }
        let bin = self.bin_of(at).min(MAX_BINS - 1);
        if bin >= self.bytes.len() {
            self.bytes.resize(bin + 1, 0);
        }
        self.bytes[bin] = self.bytes[bin].saturating_add(count);
        if let Some(last) = self.last
            && at.duration_since(last) > SHORTEST_GAP
        {
            self.gaps.push(Gap { from: last, until: at });
        }
        // Threads may record slightly out of order.
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(Some(at));
    }

    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().copied().fold(0, u64::saturating_add)
    }

    /// Sums series with one origin: bins and first and last times exactly. A gap of the sum is a time in which every
    /// part was silent; as each part keeps all its silences above [`SHORTEST_GAP`], this is exact, too. `None` without
    /// a series, or if the origins differ.
    pub fn sum(parts: &[&Self]) -> Option<Self> {
        let mut sum = Self::starting_at(parts.first()?.origin);
        if parts.iter().any(|part| part.origin != sum.origin) {
            return None;
        }
        for part in parts {
            if sum.bytes.len() < part.bytes.len() {
                sum.bytes.resize(part.bytes.len(), 0);
            }
            for (total, bytes) in sum.bytes.iter_mut().zip(&part.bytes) {
                *total = total.saturating_add(*bytes);
            }
        }
        sum.first = parts.iter().filter_map(|part| part.first).min();
        sum.last = parts.iter().filter_map(|part| part.last).max();
        let (Some(first), Some(last)) = (sum.first, sum.last) else { return Some(sum) };
        let mut common = vec![Gap { from: first, until: last }];
        for part in parts.iter().filter(|part| part.first.is_some()) {
            common = intersect(&common, &part.silences(first, last));
        }
        common.retain(|gap| gap.until.duration_since(gap.from) > SHORTEST_GAP);
        sum.gaps = common;
        Some(sum)
    }

    /// The series' silences between `first` and `last` of all parts of a sum, its late start and early end included.
    fn silences(&self, first: Timestamp, last: Timestamp) -> Vec<Gap> {
        let mut silences = Vec::with_capacity(self.gaps.len() + 2);
        if let Some(own) = self.first {
            silences.push(Gap { from: first, until: own });
        }
        silences.extend_from_slice(&self.gaps);
        if let Some(own) = self.last {
            silences.push(Gap { from: own, until: last });
        }
        silences
    }

    /// The bin of `at`; the first for times before the origin.
    pub fn bin_of(&self, at: Timestamp) -> usize {
        usize::try_from(at.duration_since(self.origin).as_nanos() / BIN.as_nanos()).unwrap_or(usize::MAX)
    }

    pub fn bin_start(&self, bin: usize) -> Timestamp {
        self.origin + Duration::from_nanos((bin as u64).saturating_mul(BIN.as_nanos() as u64))
    }
}

/// The intersection of the gaps of both sides, which are in order.
fn intersect(left: &[Gap], right: &[Gap]) -> Vec<Gap> {
    let (mut i, mut j) = (0, 0);
    let mut common = Vec::new();
    while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
        let (from, until) = (a.from.max(b.from), a.until.min(b.until));
        if from < until {
            common.push(Gap { from, until });
        }
        if a.until <= b.until {
            i += 1;
        } else {
            j += 1;
        }
    }
    common
}

/// One line of `delivery.jsonl`: bytes delivered to the receiving application in one 10 ms bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryLine {
    /// The run's `id`.
    pub run: String,
    /// `upload` or `download`.
    pub direction: Direction,
    /// Start of a bin of 10 ms; bins without a byte have no line.
    pub t_ms: f64,
    /// Bytes delivered to the receiving application within it, all parallel streams together.
    pub bytes: u64,
}

impl DeliveryLine {
    /// The delivery of a line as Pathbench writes it.
    pub(crate) fn written(line: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(line);
        let delivery = Self {
            run: fields.next("run")?,
            direction: fields.next("direction")?,
            t_ms: fields.next("t_ms")?,
            bytes: fields.next("bytes")?,
        };
        fields.is_end().then_some(delivery)
    }

    /// The lines of one direction of a run: one per bin with bytes. `origin` is the zero of the run's clock.
    pub fn of_series(
        run: &str,
        direction: Direction,
        series: &DeliverySeries,
        origin: Timestamp,
    ) -> Vec<Self> {
        let spoken = series.bytes.iter().enumerate().filter(|&(_, &bytes)| bytes > 0);
        spoken
            .map(|(bin, &bytes)| Self {
                run: run.to_owned(),
                direction,
                t_ms: series.bin_start(bin).ms_from(origin),
                bytes,
            })
            .collect()
    }
}
