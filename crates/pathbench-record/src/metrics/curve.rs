//! Bytes delivered up to any moment, from a series of bins.

use super::window::Window;
use crate::delivery::{BIN, DeliverySeries};
use crate::time::Timestamp;
use std::time::Duration;

/// A stretch over which a bin's bytes are taken to have come evenly.
#[derive(Debug, Clone, Copy)]
struct Segment {
    from: Timestamp,
    until: Timestamp,
    bytes_before: u64,
    bytes: u64,
}

/// Bytes delivered up to any moment.
///
/// Within a bin, bytes are spread evenly over the part of it in which they can have come: not before the first
/// byte of the series, not after the last, not within a recorded silence. Around an outage the curve is
/// therefore exact, and elsewhere off by less than a bin's bytes.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    segments: Vec<Segment>,
    bins: usize,
}

impl Curve {
    pub(super) fn of(series: &DeliverySeries) -> Self {
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

        let mut bytes_before = 0;
        let mut segments = Vec::with_capacity(bounds.len());
        for ((from, until), &bytes) in bounds.into_iter().zip(&series.bytes) {
            if bytes > 0 {
                segments.push(Segment { from, until, bytes_before, bytes });
                bytes_before += bytes;
            }
        }
        Self { segments, bins: series.bytes.len() }
    }

    /// Bytes delivered before `at`, that moment excluded.
    pub(super) fn before(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until < at), at)
    }

    /// Bytes delivered up to `at`, that moment included.
    fn until(&self, at: Timestamp) -> f64 {
        self.up_to(self.segments.partition_point(|segment| segment.until <= at), at)
    }

    /// Bytes of the first `whole` segments and of the part of the next that lies before `at`.
    fn up_to(&self, whole: usize, at: Timestamp) -> f64 {
        let done = whole.checked_sub(1).and_then(|index| self.segments.get(index));
        let done = done.map_or(0, |segment| segment.bytes_before + segment.bytes) as f64;
        let Some(next) = self.segments.get(whole) else { return done };
        let width = next.until.since(next.from).as_nanos();
        if width == 0 {
            return done;
        }
        done + next.bytes as f64 * (at.since(next.from).as_nanos() as f64 / width as f64).min(1.0)
    }

    /// Bytes delivered in `from..until`.
    pub(super) fn between(&self, from: Timestamp, until: Timestamp) -> f64 {
        (self.before(until) - self.before(from)).max(0.0)
    }

    /// Bytes delivered in `window`, both its ends included, to the nearest byte.
    pub(super) fn bytes_within(&self, window: Window) -> u64 {
        (self.until(window.until) - self.before(window.from)).max(0.0).round() as u64
    }

    /// Bins of the series, empty ones included.
    pub(super) const fn bins(&self) -> usize {
        self.bins
    }

    /// When the last byte came.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.segments.last().map(|segment| segment.until)
    }

    /// The first moment from `at` on at which a byte comes.
    pub(super) fn next_byte(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.segments.partition_point(|segment| segment.until < at);
        self.segments.get(next).map(|segment| segment.from.max(at))
    }

    /// The longest stretch of `from..until` in which no byte comes.
    pub(super) fn longest_silence(&self, from: Timestamp, until: Timestamp) -> Duration {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn silence_is_measured_across_bins_and_at_both_ends() {
        let mut series = DeliverySeries::starting_at(at(0));
        for ms in (0..100).chain(218..400) {
            series.record(at(ms * 1000), 1000);
        }
        let curve = Curve::of(&series);
        let silence = |from_ms: u64, until_ms: u64| {
            curve.longest_silence(at(from_ms * 1000), at(until_ms * 1000)).as_millis()
        };
        assert_eq!(silence(0, 390), 119);
        assert_eq!(silence(50, 160), 61);
        assert_eq!(silence(150, 300), 68);
        assert_eq!(silence(230, 390), 0);
        assert_eq!(silence(500, 600), 100);
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_micros(micros)
    }

    #[test]
    fn bytes_stay_out_of_silences() {
        let mut series = DeliverySeries::starting_at(at(0));
        series.record(at(2_000), 100);
        series.record(at(4_000), 100);
        series.record(at(38_000), 100);
        series.record(at(39_000), 100);
        let curve = Curve::of(&series);
        assert!(curve.before(at(2_000)).abs() < 1e-9);
        assert!((curve.before(at(3_000)) - 100.0).abs() < 1e-9);
        assert!((curve.between(at(4_001), at(38_000))).abs() < 1e-9);
        assert!((curve.between(at(38_000), at(38_500)) - 100.0).abs() < 1e-9);
        assert_eq!(curve.next_byte(at(5_000)), Some(at(38_000)));
        assert_eq!(curve.next_byte(at(38_200)), Some(at(38_200)));
        assert_eq!(curve.next_byte(at(39_001)), None);
        assert_eq!(curve.bytes_within(Window { from: at(2_000), until: at(39_000) }), 400);
    }

    #[test]
    fn a_byte_that_comes_alone_comes_at_its_moment() {
        let mut series = DeliverySeries::starting_at(at(0));
        series.record(at(5_000), 7);
        series.record(at(105_000), 7);
        series.record(at(205_000), 7);
        let curve = Curve::of(&series);
        assert!((curve.between(at(5_000), at(105_000)) - 7.0).abs() < 1e-9);
        assert!((curve.between(at(105_000), at(105_001)) - 7.0).abs() < 1e-9);
        assert_eq!(curve.bytes_within(Window { from: at(5_000), until: at(205_000) }), 21);
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
            let curve = Curve::of(&series);
            let mut probes = probes;
            probes.sort_unstable();
            let mut previous = 0.0;
            for probe in probes {
                let value = curve.before(at(probe));
                prop_assert!(value >= previous - 1e-6 && value <= series.total_bytes() as f64 + 1e-6);
                previous = value;
            }
            let whole = Window { from: at(0), until: at(now) };
            prop_assert_eq!(curve.bytes_within(whole), series.total_bytes());
        }
    }
}
