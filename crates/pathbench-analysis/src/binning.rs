//! Bytes over time, and the bins in which metrics and figures count them: the one place that does.

use pathbench_record::delivery::{BIN, DeliverySeries};
use pathbench_record::event::DeliveryLine;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// A stretch of time with both its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Begin.
    pub from: Timestamp,
    /// End, not before the begin.
    pub until: Timestamp,
}

impl Window {
    /// Length in milliseconds.
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

    /// Bytes with the stretches in which they came, in order of time.
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

    /// All bytes.
    pub fn total_bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.bytes_before.saturating_add(last.bytes))
    }

    /// Bytes before `at`, that moment excluded.
    pub fn before(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until < at), at)
    }

    /// Bytes up to `at`, that moment included.
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

    /// The first moment from `at` on at which a byte comes.
    pub(crate) fn next_byte(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.segments.partition_point(|segment| segment.until < at);
        self.segments.get(next).map(|segment| segment.from.max(at))
    }

    /// Stretches in which bytes came.
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
    /// The first.
    pub first: Option<Timestamp>,
    /// The last.
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

    /// Bytes of `curve` in each bin.
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
    use pathbench_record::direction::Direction;
    use proptest::prelude::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_micros(micros)
    }

    fn bins(from: u64, until: u64, width_micros: u64) -> Bins {
        Bins::of(Window { from: at(from), until: at(until) }, Duration::from_micros(width_micros))
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

    #[test]
    fn a_byte_that_comes_alone_comes_at_its_moment() {
        let mut series = DeliverySeries::starting_at(at(0));
        series.record(at(5_000), 7);
        series.record(at(105_000), 7);
        series.record(at(205_000), 7);
        let curve = ByteCurve::of_series(&series);
        assert!((curve.between(at(5_000), at(105_000)) - 7.0).abs() < 1e-9);
        assert!((curve.between(at(105_000), at(105_001)) - 7.0).abs() < 1e-9);
        // Half-open: a byte on an edge is in the bin that begins there, and in the last one that ends there.
        let counted: Vec<f64> = bins(5_000, 205_000, 100_000).bytes(&curve).collect();
        assert_eq!(counted, [7.0, 14.0]);
    }

    #[test]
    fn the_last_bin_is_as_long_as_what_is_left() {
        let curve = ByteCurve::of_counter(at(0), [(at(1_060_000), 1_060_000)]);
        for (until, count, last) in
            [(1_060_000, 11, 60_000.0), (1_030_000, 10, 130_000.0), (20_000, 1, 20_000.0)]
        {
            let bins = bins(0, until, 100_000);
            assert_eq!(bins.count(), count);
            assert!(bins.mbps(&curve).iter().all(|mbps| (mbps - 8.0).abs() < 1e-9));
            assert!((bins.bytes(&curve).last().unwrap() - last).abs() < 1e-6);
        }
        assert_eq!(Bins::of(Window { from: at(5), until: at(5) }, Duration::ZERO).count(), 0);
    }

    /// The receiver's bins begin when it did, a few milliseconds before the first byte was sent. The first window of a
    /// timeline once took in eleven of them: 1.05 Gbit/s on a link of 1 Gbit/s.
    #[test]
    fn no_window_holds_more_than_the_link_carries_in_it() {
        let zero = at(0);
        let mut series = DeliverySeries::starting_at(zero - Duration::from_millis(3));
        for micros in (1_000..1_000_000).step_by(100) {
            series.record(at(micros), 12_500);
        }
        let lines = DeliveryLine::of_series("r", Direction::Upload, &series, zero);
        let known = FirstAndLast { first: series.first, last: series.last };
        let curve = ByteCurve::of_lines(&lines, zero, known);
        let mbps = bins(0, 1_000_000, 100_000).mbps(&curve);
        assert!(mbps.iter().all(|mbps| *mbps <= 1_000.0 + 1e-6), "{mbps:?}");
        assert!((mbps.iter().sum::<f64>() - 9_990.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn the_curve_rises_from_nothing_to_everything(
            deliveries in prop::collection::vec((0_u64..60_000, 0_u64..5_000), 0..60),
            probes in prop::collection::vec(0_u64..4_000_000, 1..20),
        ) {
            let mut series = DeliverySeries::starting_at(at(1_000));
            let mut now = 0;
            for (wait, bytes) in deliveries {
                now += wait;
                series.record(at(now), bytes);
            }
            let curve = ByteCurve::of_series(&series);
            let mut probes = probes;
            probes.sort_unstable();
            let mut previous = 0.0;
            for probe in probes {
                let value = curve.before(at(probe));
                prop_assert!(value >= previous - 1e-6 && value <= series.total_bytes() as f64 + 1e-6);
                previous = value;
            }
            let whole = Window { from: at(0), until: at(now) };
            prop_assert!((curve.within(whole) - series.total_bytes() as f64).abs() < 1e-6);
        }

        /// However the receiver's bins lie to the bins of a figure: the bytes are the same, and none is moved further
        /// than the delivery bin that holds it.
        #[test]
        fn bins_conserve_bytes_whatever_the_origin(
            deliveries in prop::collection::vec((0_u64..30_000, 1_u64..50_000), 1..80),
            early_micros in 0_u64..25_000,
            width_micros in 1_000_u64..300_000,
            exact in any::<bool>(),
        ) {
            let zero = at(50_000);
            let mut arrivals = Vec::new();
            let mut now = 50_000;
            for (wait, bytes) in deliveries {
                now += wait;
                arrivals.push((at(now), bytes));
            }
            let mut series = DeliverySeries::starting_at(at(50_000 - early_micros));
            for &(at, bytes) in &arrivals {
                series.record(at, bytes);
            }
            let curve = if exact {
                ByteCurve::of_series(&series)
            } else {
                let lines = DeliveryLine::of_series("r", Direction::Upload, &series, zero);
                let known = FirstAndLast { first: series.first, last: series.last };
                ByteCurve::of_lines(&lines, zero, known)
            };
            let until = curve.end().unwrap().max(at(now));
            let bins = Bins::of(Window { from: zero, until }, Duration::from_micros(width_micros));
            let total: u64 = arrivals.iter().map(|(_, bytes)| bytes).sum();
            let counted: Vec<f64> = bins.bytes(&curve).collect();
            prop_assert!((counted.iter().sum::<f64>() - total as f64).abs() < 1e-3 || bins.count() == 0);
            let arrived = |from: Timestamp, until: Timestamp| -> f64 {
                arrivals.iter().filter(|(at, _)| (from..=until).contains(at)).map(|(_, bytes)| *bytes as f64).sum()
            };
            for (bin, counted) in bins.windows().zip(&counted) {
                let around = arrived(bin.from - BIN, bin.until + BIN);
                prop_assert!(*counted <= around + 1e-3, "{counted} in {bin:?}, {around} arrived around it");
                if bin.length_ms() > 20.0 {
                    let inside = arrived(bin.from + BIN, bin.until - BIN);
                    prop_assert!(*counted >= inside - 1e-3, "{counted} in {bin:?}, {inside} arrived well inside");
                }
            }
        }
    }
}
