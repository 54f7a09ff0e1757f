//! The scales of the mobility plots: durations that may be negative, delays, ratios.

use crate::figure::axis::{Axis, LogScale, time_unit};

/// A horizontal (or both ways the same) scale with its ticks.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    kind: Kind,
    /// Values and, where there is to be one, their words.
    pub(super) ticks: Vec<(f64, Option<String>)>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Linear { low: f64, high: f64 },
    Logarithmic(LogScale),
}

/// About this many ticks on a linear scale.
const TICKS: usize = 6;

impl Scale {
    /// Milliseconds of either sign; holds zero.
    pub(super) fn linear_ms(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .map(|value| value.clamp(-1e9, 1e9))
            .fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (unit, factor) = time_unit(high.max(-low));
        let steps = Axis::holding((high - low) / factor, TICKS);
        let step = steps.ticks.get(1).copied().unwrap_or(1.0);
        let (first, last) = ((low / factor / step).floor() as i32, (high / factor / step).ceil() as i32);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|index| {
            let tick = f64::from(index) * step;
            let sign = if index < 0 { "−" } else { "" };
            (tick * factor, Some(format!("{sign}{} {unit}", steps.number(tick.abs()))))
        });
        let bounds =
            Kind::Linear { low: f64::from(first) * step * factor, high: f64::from(last) * step * factor };
        Self { kind: bounds, ticks: ticks.collect() }
    }

    /// Positive milliseconds.
    pub(super) fn logarithmic_ms(values: impl Iterator<Item = f64>) -> Self {
        let scale = LogScale::holding(values);
        Self { kind: Kind::Logarithmic(scale), ticks: scale.ticks() }
    }

    /// Positive ratios; holds one, as far up as down.
    pub(super) fn ratio(values: impl Iterator<Item = f64>) -> Self {
        let furthest = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.max(1.0 / value))
            .fold(2.0_f64, f64::max)
            .min(1e4);
        let scale = LogScale::holding([1.0 / furthest, furthest].into_iter());
        let words =
            |value: f64| if value < 1.0 { format!("1/{:.0}", 1.0 / value) } else { format!("{value:.0}") };
        let ticks =
            scale.ticks().into_iter().map(|(value, said)| (value, said.map(|_| words(value)))).collect();
        Self { kind: Kind::Logarithmic(scale), ticks }
    }

    /// Where `value` lies, 0 to 1; values outside are brought to the nearer end.
    pub(super) fn part(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Linear { low, high } if value.is_finite() => ((value - low) / (high - low)).clamp(0.0, 1.0),
            Kind::Linear { .. } => 0.0,
            Kind::Logarithmic(scale) => scale.part(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_both_signs_have_zero_among_their_ticks() {
        let scale = Scale::linear_ms([-230.0, 4120.0, f64::NAN].into_iter());
        let words: Vec<String> = scale.ticks.iter().filter_map(|(_, words)| words.clone()).collect();
        assert_eq!(words, ["−1 s", "0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]);
        assert!((scale.part(0.0) - 1.0 / 6.0).abs() < 1e-9);
        assert!(scale.part(f64::INFINITY).is_finite());
        for odd in [[0.0, 0.0], [-1e300, 1e300], [f64::NAN, -5.0]] {
            let scale = Scale::linear_ms(odd.into_iter());
            assert!(scale.ticks.len() < 20 && scale.part(odd[1]).is_finite(), "{odd:?}: {scale:?}");
        }
    }

    #[test]
    fn a_ratio_and_its_inverse_lie_equally_far_from_the_middle() {
        let scale = Scale::ratio([0.3, 1.5].into_iter());
        assert!((scale.part(1.0) - 0.5).abs() < 1e-9);
        assert!(
            scale
                .ticks
                .iter()
                .any(|(value, words)| (*value - 1.0).abs() < 1e-9 && words.as_deref() == Some("1"))
        );
        assert!(scale.ticks.iter().filter_map(|(_, words)| words.as_deref()).any(|words| words == "1/5"));
    }
}
