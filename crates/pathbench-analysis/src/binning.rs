//! Bytes over time, and the bins for metrics and figures. No other module bins bytes.

use pathbench_record::delivery::{BIN, DeliveryLine, DeliverySeries};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// A time interval that includes both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Timestamp,
    /// End, not before the start.
    pub until: Timestamp,
}

impl Window {
    pub fn length_ms(self) -> f64 {
        self.until.duration_since(self.from).as_nanos() as f64 / 1e6
    }

    /// The rate of `bytes` over the window in Mbit/s; `None` for a window of length 0.
    pub fn mbps(self, bytes: f64) -> Option<f64> {
        let nanos = self.until.duration_since(self.from).as_nanos();
        (nanos > 0).then(|| bytes * 8.0 * 1e3 / nanos as f64)
    }
}

/// Bytes that arrived within a period, spread evenly over the period; at one moment if the length is 0.
#[derive(Debug, Clone, Copy)]
struct Segment {
    from: Timestamp,
    until: Timestamp,
    bytes_before: u64,
    bytes: u64,
}

/// Cumulative bytes over time.
#[derive(Debug, Clone, Default)]
pub struct ByteCurve {
    segments: Vec<Segment>,
}

impl ByteCurve {
    /// The curve of a recorded series.
    ///
    /// Bytes of a delivery bin are spread evenly over the part of the bin in which they can have arrived: not before
    /// the first byte of the series, not after the last, not within a recorded silence. The curve is therefore exact
    /// around an outage; elsewhere the error is below a bin's bytes.
    pub fn from_series(series: &DeliverySeries) -> Self {
        let mut bounds: Vec<(Timestamp, Timestamp)> =
            (0..series.bytes.len()).map(|bin| (series.bin_start(bin), series.bin_start(bin) + BIN)).collect();
        // The first bin also holds the bytes before the origin.
        if let (Some((from, _)), Some(first)) = (bounds.first_mut(), series.first) {
            *from = first.min(*from);
        }
        let mut begins_at = |at: Timestamp| {
            if let Some(bound) = bounds.get_mut(series.bin_of(at)) {
                bound.0 = bound.0.max(at).min(bound.1);
            }
        };
        series.first.into_iter().chain(series.gaps.iter().map(|gap| gap.until)).for_each(&mut begins_at);
        let mut ends_at = |at: Timestamp| {
            if let Some(bound) = bounds.get_mut(series.bin_of(at)) {
                bound.1 = bound.1.min(at).max(bound.0);
            }
        };
        series.last.into_iter().chain(series.gaps.iter().map(|gap| gap.from)).for_each(&mut ends_at);
        Self::from_segments(
            bounds.into_iter().zip(&series.bytes).map(|((from, until), &bytes)| (from, until, bytes)),
        )
    }

    /// The curve of lines of `delivery.jsonl`, sorted by time; `zero` is the zero of their clock.
    ///
    /// Bytes are spread evenly over a line's 10 ms, within the times of the first and the last byte. No byte arrives
    /// before zero, the first byte offered: a line that begins before zero covers the part of its 10 ms after zero.
    pub fn from_lines<'a>(
        lines: impl IntoIterator<Item = &'a DeliveryLine>,
        zero: Timestamp,
        known: FirstAndLast,
    ) -> Self {
        let earliest = known.first.map_or(zero, |first| first.max(zero));
        let segment = |line: &DeliveryLine| {
            let from = zero.plus_ms(line.t_ms);
            let until = from + BIN;
            // Not beyond the line's 10 ms: records can contradict each other.
            let from = from.max(earliest.min(until)).max(zero);
            let until = until.max(zero);
            let until = known.last.filter(|last| (from..until).contains(last)).unwrap_or(until);
            (from, until, line.bytes)
        };
        Self::from_segments(lines.into_iter().map(segment))
    }

    /// A growing counter, linear between points sorted by time, and 0 at `start`. Where the counter decreases, the
    /// curve stays constant.
    pub fn from_counter(start: Timestamp, points: impl IntoIterator<Item = (Timestamp, u64)>) -> Self {
        let (mut before, mut highest) = (start, 0);
        Self::from_segments(points.into_iter().map(|(at, value)| {
            let at = at.max(before);
            let segment = (before, at, value.saturating_sub(highest));
            (before, highest) = (at, highest.max(value));
            segment
        }))
    }

    fn from_segments(segments: impl Iterator<Item = (Timestamp, Timestamp, u64)>) -> Self {
        let mut bytes_before = 0_u64;
        let mut found: Vec<Segment> = Vec::new();
        for (from, until, bytes) in segments.filter(|&(.., bytes)| bytes > 0) {
            // Only damaged records have overlapping segments.
            let from = found.last().map_or(from, |last| from.max(last.until));
            found.push(Segment { from, until: until.max(from), bytes_before, bytes });
            bytes_before = bytes_before.saturating_add(bytes);
        }
        Self { segments: found }
    }

    pub fn total_bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.bytes_before.saturating_add(last.bytes))
    }

    /// Bytes before `at`, without those at `at`.
    pub fn bytes_before(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until < at), at)
    }

    fn bytes_until(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until <= at), at)
    }

    /// Bytes of the first `whole` segments, and of the part of the next segment before `at`.
    fn up_to(&self, whole: usize, at: Timestamp) -> f64 {
        let done = whole.checked_sub(1).and_then(|index| self.segments.get(index));
        let done = done.map_or(0, |segment| segment.bytes_before.saturating_add(segment.bytes)) as f64;
        let Some(next) = self.segments.get(whole) else { return done };
        let width = next.until.duration_since(next.from).as_nanos();
        if width == 0 {
            return done;
        }
        done + next.bytes as f64 * (at.duration_since(next.from).as_nanos() as f64 / width as f64).min(1.0)
    }

    /// Bytes in the half-open interval `from..until`.
    pub fn bytes_between(&self, from: Timestamp, until: Timestamp) -> f64 {
        (self.bytes_before(until) - self.bytes_before(from)).max(0.0)
    }

    /// Bytes in `window`, including both ends.
    pub fn bytes_within(&self, window: Window) -> f64 {
        (self.bytes_until(window.until) - self.bytes_before(window.from)).max(0.0)
    }

    pub fn end(&self) -> Option<Timestamp> {
        self.segments.last().map(|segment| segment.until)
    }

    pub fn next_byte(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.segments.partition_point(|segment| segment.until < at);
        self.segments.get(next).map(|segment| segment.from.max(at))
    }

    pub(crate) const fn stretches(&self) -> usize {
        self.segments.len()
    }

    /// The longest part of `from..until` without a byte.
    pub fn longest_silence(&self, from: Timestamp, until: Timestamp) -> Duration {
        let first = self.segments.partition_point(|segment| segment.until < from);
        let mut silent_since = from;
        let mut longest = Duration::ZERO;
        for segment in self.segments[first..].iter().take_while(|segment| segment.from < until) {
            longest = longest.max(segment.from.duration_since(silent_since));
            silent_since = segment.until;
        }
        longest.max(until.duration_since(silent_since))
    }
}

/// When the first and the last byte arrived, where known more exactly than the bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirstAndLast {
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
}

/// A time interval divided into bins of one width. Bins are half-open, `t..t + width`, and start with the interval.
/// The last bin ends with the interval, includes its end, and is 0.5 to 1.5 widths long, because rates over shorter
/// times are noise.
///
/// ```rust
/// use pathbench_analysis::binning::{Bins, ByteCurve, Window};
/// use pathbench_record::delivery::DeliverySeries;
/// use pathbench_record::time::Timestamp;
/// use std::time::Duration;
///
/// let at = |ms: u64| Timestamp::default() + Duration::from_millis(ms);
/// let mut series = DeliverySeries::starting_at(at(0));
/// series.record(at(50), 1_000);
/// series.record(at(250), 3_000);
/// let curve = ByteCurve::from_series(&series);
/// let bins = Bins::new(Window { from: at(0), until: at(300) }, Duration::from_millis(100));
/// let bytes: Vec<f64> = bins.bytes(&curve).collect();
/// assert_eq!(bytes, [1_000.0, 0.0, 3_000.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bins {
    stretch: Window,
    width: Duration,
}

impl Bins {
    /// Divides `stretch` into bins of `width`, at least 1 ns.
    pub fn new(stretch: Window, width: Duration) -> Self {
        Self { stretch, width: width.max(Duration::from_nanos(1)) }
    }

    /// Number of bins; 0 for an interval of length 0.
    pub fn count(&self) -> usize {
        let nanos = self.stretch.until.duration_since(self.stretch.from).as_nanos();
        let rounded = (nanos + self.width.as_nanos() / 2) / self.width.as_nanos();
        usize::try_from(rounded).unwrap_or(usize::MAX).max(usize::from(nanos > 0))
    }

    pub fn windows(&self) -> impl Iterator<Item = Window> + use<> {
        let Self { stretch, width } = *self;
        let count = self.count();
        let edge = move |index: usize| {
            let nanos = (index as u64).saturating_mul(u64::try_from(width.as_nanos()).unwrap_or(u64::MAX));
            if index < count { stretch.from + Duration::from_nanos(nanos) } else { stretch.until }
        };
        (0..count).map(move |index| Window { from: edge(index), until: edge(index + 1) })
    }

    pub fn bytes<'a>(&self, curve: &'a ByteCurve) -> impl Iterator<Item = f64> + use<'a> {
        let end = self.stretch.until;
        self.windows().map(move |bin| {
            if bin.until == end { curve.bytes_within(bin) } else { curve.bytes_between(bin.from, bin.until) }
        })
    }

    /// The rate of `curve` in each bin in Mbit/s, computed with the actual length of the bin.
    pub fn mbps(&self, curve: &ByteCurve) -> Vec<f64> {
        let bins = self.windows().zip(self.bytes(curve));
        bins.map(|(bin, bytes)| bin.mbps(bytes).unwrap_or_default()).collect()
    }
}
