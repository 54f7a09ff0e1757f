//! Bytes over time, and the bins in which metrics and figures count them: the one place that does.

use pathbench_record::delivery::{BIN, DeliverySeries};
use pathbench_record::event::DeliveryLine;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// A stretch of time with both its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Timestamp,
    /// End, not before the begin.
    pub until: Timestamp,
}

impl Window {
    pub fn length_ms(self) -> f64 {
        self.until.since(self.from).as_nanos() as f64 / 1e6
    }

    /// The rate of `bytes` over the window in Mbit/s; `None` for a window without length.
    pub fn mbps(self, bytes: f64) -> Option<f64> {
        let nanos = self.until.since(self.from).as_nanos();
        (nanos > 0).then(|| bytes * 8.0 * 1e3 / nanos as f64)
    }
}

/// Bytes that came within a stretch of time, spread evenly over it; all at once where it has no length.
#[derive(Debug, Clone, Copy)]
struct Segment {
    from: Timestamp,
    until: Timestamp,
    bytes_before: u64,
    bytes: u64,
}

/// Bytes up to any moment.
#[derive(Debug, Clone, Default)]
pub struct ByteCurve {
    segments: Vec<Segment>,
}

impl ByteCurve {
    /// What a series recorded.
    ///
    /// Within a delivery bin, bytes are spread evenly over the part of it in which they can have come: not before the
    /// first byte of the series, not after the last, not within a recorded silence. Around an outage the curve is
    /// therefore exact, and elsewhere off by less than a bin's bytes.
    pub fn of_series(series: &DeliverySeries) -> Self {
        let mut bounds: Vec<(Timestamp, Timestamp)> =
            (0..series.bytes.len()).map(|bin| (series.bin_start(bin), series.bin_start(bin) + BIN)).collect();
        // The first bin also holds what came before the origin.
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
        Self::of_segments(
            bounds.into_iter().zip(&series.bytes).map(|((from, until), &bytes)| (from, until, bytes)),
        )
    }

    /// What lines of `delivery.jsonl`, in order of time, say; `zero` is the zero of their clock.
    ///
    /// Bytes are spread evenly over a line's 10 ms, within the times of the first and the last byte. Nothing comes before
    /// zero, the first byte offered: a line that begins before it covers what is left of its 10 ms after it.
    pub fn of_lines<'a>(
        lines: impl IntoIterator<Item = &'a DeliveryLine>,
        zero: Timestamp,
        known: FirstAndLast,
    ) -> Self {
        let earliest = known.first.map_or(zero, |first| first.max(zero));
        let segment = |line: &DeliveryLine| {
            let from = zero.plus_ms(line.t_ms);
            let until = from + BIN;
            // Not beyond the line's own time: records can contradict each other.
            let from = from.max(earliest.min(until)).max(zero);
            let until = until.max(zero);
            let until = known.last.filter(|last| (from..until).contains(last)).unwrap_or(until);
            (from, until, line.bytes)
        };
        Self::of_segments(lines.into_iter().map(segment))
    }

    /// A counter that grows, linear between points in order of time and 0 at `start`. Where it goes back it is held.
    pub fn of_counter(start: Timestamp, points: impl IntoIterator<Item = (Timestamp, u64)>) -> Self {
        let (mut before, mut highest) = (start, 0);
        Self::of_segments(points.into_iter().map(|(at, value)| {
            let at = at.max(before);
            let segment = (before, at, value.saturating_sub(highest));
            (before, highest) = (at, highest.max(value));
            segment
        }))
    }

    fn of_segments(segments: impl Iterator<Item = (Timestamp, Timestamp, u64)>) -> Self {
        let mut bytes_before = 0_u64;
        let mut found: Vec<Segment> = Vec::new();
        for (from, until, bytes) in segments.filter(|&(.., bytes)| bytes > 0) {
            // Stretches that overlap are of damaged records.
            let from = found.last().map_or(from, |last| from.max(last.until));
            found.push(Segment { from, until: until.max(from), bytes_before, bytes });
            bytes_before = bytes_before.saturating_add(bytes);
        }
        Self { segments: found }
    }

    pub fn total_bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.bytes_before.saturating_add(last.bytes))
    }

    /// Bytes before `at`, that moment excluded.
    pub fn before(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until < at), at)
    }

    fn until(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until <= at), at)
    }

    /// Bytes of the first `whole` segments and of the part of the next that lies before `at`.
    fn up_to(&self, whole: usize, at: Timestamp) -> f64 {
        let done = whole.checked_sub(1).and_then(|index| self.segments.get(index));
        let done = done.map_or(0, |segment| segment.bytes_before.saturating_add(segment.bytes)) as f64;
        let Some(next) = self.segments.get(whole) else { return done };
        let width = next.until.since(next.from).as_nanos();
        if width == 0 {
            return done;
        }
        done + next.bytes as f64 * (at.since(next.from).as_nanos() as f64 / width as f64).min(1.0)
    }

    /// Bytes in the half-open `from..until`.
    pub fn between(&self, from: Timestamp, until: Timestamp) -> f64 {
        (self.before(until) - self.before(from)).max(0.0)
    }

    /// Bytes in `window`, both its ends included.
    pub fn within(&self, window: Window) -> f64 {
        (self.until(window.until) - self.before(window.from)).max(0.0)
    }

    /// When the last byte came.
    pub fn end(&self) -> Option<Timestamp> {
        self.segments.last().map(|segment| segment.until)
    }

    pub(crate) fn next_byte(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.segments.partition_point(|segment| segment.until < at);
        self.segments.get(next).map(|segment| segment.from.max(at))
    }

    pub(crate) const fn stretches(&self) -> usize {
        self.segments.len()
    }

    /// The longest stretch of `from..until` in which no byte comes.
    pub(crate) fn longest_silence(&self, from: Timestamp, until: Timestamp) -> Duration {
        let first = self.segments.partition_point(|segment| segment.until < from);
        let mut silent_since = from;
        let mut longest = Duration::ZERO;
        for segment in self.segments[first..].iter().take_while(|segment| segment.from < until) {
            longest = longest.max(segment.from.since(silent_since));
            silent_since = segment.until;
        }
        longest.max(until.since(silent_since))
    }
}

/// When the first and the last byte came, where that is known more exactly than by bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirstAndLast {
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
}

/// A stretch of time cut into bins of one width. Bins are half-open, `t..t + width`, and begin with the stretch. The last
/// one ends with the stretch, its end included: from half a width, for rates over less are noise, to one and a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bins {
    stretch: Window,
    width: Duration,
}

impl Bins {
    /// `stretch` in bins of `width`, which is at least a nanosecond.
    pub fn of(stretch: Window, width: Duration) -> Self {
        Self { stretch, width: width.max(Duration::from_nanos(1)) }
    }

    /// How many there are; none in a stretch without length.
    pub fn count(&self) -> usize {
        let nanos = self.stretch.until.since(self.stretch.from).as_nanos();
        let rounded = (nanos + self.width.as_nanos() / 2) / self.width.as_nanos();
        usize::try_from(rounded).unwrap_or(usize::MAX).max(usize::from(nanos > 0))
    }

    /// The bins in order.
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
            if bin.until == end { curve.within(bin) } else { curve.between(bin.from, bin.until) }
        })
    }

    /// The rate of `curve` in each bin in Mbit/s, over the time that the bin really has.
    pub fn mbps(&self, curve: &ByteCurve) -> Vec<f64> {
        let bins = self.windows().zip(self.bytes(curve));
        bins.map(|(bin, bytes)| bin.mbps(bytes).unwrap_or_default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_micros(micros)
    }

    #[test]
    fn silence_is_measured_across_bins_and_at_both_ends() {
        let mut series = DeliverySeries::starting_at(at(0));
        for ms in (0..100).chain(218..400) {
            series.record(at(ms * 1000), 1000);
        }
        let curve = ByteCurve::of_series(&series);
        let silence = |from_ms: u64, until_ms: u64| {
            curve.longest_silence(at(from_ms * 1000), at(until_ms * 1000)).as_millis()
        };
        assert_eq!(silence(0, 390), 119);
        assert_eq!(silence(50, 160), 61);
        assert_eq!(silence(150, 300), 68);
        assert_eq!(silence(230, 390), 0);
        assert_eq!(silence(500, 600), 100);
    }

    #[test]
    fn bytes_stay_out_of_silences() {
        let mut series = DeliverySeries::starting_at(at(0));
        series.record(at(2_000), 100);
        series.record(at(4_000), 100);
        series.record(at(38_000), 100);
        series.record(at(39_000), 100);
        let curve = ByteCurve::of_series(&series);
        assert!(curve.before(at(2_000)).abs() < 1e-9);
        assert!((curve.before(at(3_000)) - 100.0).abs() < 1e-9);
        assert!((curve.between(at(4_001), at(38_000))).abs() < 1e-9);
        assert!((curve.between(at(38_000), at(38_500)) - 100.0).abs() < 1e-9);
        assert_eq!(curve.next_byte(at(5_000)), Some(at(38_000)));
        assert_eq!(curve.next_byte(at(38_200)), Some(at(38_200)));
        assert_eq!(curve.next_byte(at(39_001)), None);
        let all = Window { from: at(2_000), until: at(39_000) };
        assert!((curve.within(all) - 400.0).abs() < 1e-9);
    }
}
