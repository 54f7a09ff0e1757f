//! Scales with round ticks.

use crate::quantity;
use crate::rate_axis::nominal_mbps;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) is_logarithmic: bool,
    pub(crate) ticks: Vec<(f64, Option<String>)>,
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) detail: String,
    pub(crate) is_heading: bool,
}

impl Row {
    pub(crate) fn new(label: &str, detail: String) -> Self {
        Self { label: label.to_owned(), detail, is_heading: false }
    }
}

struct Steps {
    step: f64,
    count: usize,
}

impl Steps {
    /// About `wanted` steps of 1, 2, 2.5 or 5 times a power of ten.
    fn holding(highest: f64, wanted: usize) -> Self {
        let rough = highest / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| step * wanted as f64 >= highest * 0.999)
            .unwrap_or(10.0 * power);
        // A value slightly above a tick does not add a step.
        Self { step, count: ((highest / step) - 0.02).ceil().max(1.0) as usize }
    }

    fn number(&self, tick: f64) -> String {
        let decimals = (0..4_i32).find(|decimals| {
            let scaled = self.step * 10f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6
        });
        format!("{tick:.*}", decimals.unwrap_or(4) as usize)
    }
}

/// Pixels between the labels of a vertical axis.
const LABEL_HEIGHT: f64 = 14.0;

fn sane(highest: f64) -> f64 {
    if highest.is_finite() && highest > 1e-9 { highest.min(1e15) } else { 1.0 }
}

impl Scale {
    fn with_ticks(low: f64, high: f64, ticks: impl Iterator<Item = (f64, Option<String>)>) -> Self {
        Self { low, high, ticks: ticks.collect(), ..Self::default() }
    }

    fn logarithmic(low: f64, high: f64, ticks: impl Iterator<Item = (f64, Option<String>)>) -> Self {
        Self { is_logarithmic: true, ..Self::with_ticks(low, high, ticks) }
    }

    /// From 0 to a round value of at least `highest`, with numbers in `unit` (name, factor).
    pub(crate) fn linear(highest: f64, wanted: usize, unit: (&str, f64)) -> Self {
        let highest = sane(highest / unit.1);
        let steps = Steps::holding(highest, wanted);
        let ticks = (0..=steps.count).map(|index| {
            let tick = index as f64 * steps.step;
            (tick * unit.1, Some(steps.number(tick)))
        });
        let high = (steps.count as f64 * steps.step).max(highest) * unit.1;
        Self { title: unit.0.to_owned(), ..Self::with_ticks(0.0, high, ticks) }
    }

    /// Rates from 0 to at least `end_mbps`. Ticks may end at the rate of the links.
    pub(crate) fn rates(end_mbps: f64, wanted: usize) -> Self {
        let scale = Self::linear(nominal_mbps(end_mbps), wanted, rate_unit(end_mbps));
        Self { high: scale.high.max(sane(end_mbps)), ..scale }
    }

    /// From 0 to exactly `end_ms`; ticks only at round values.
    pub(crate) fn time(end_ms: f64, plot_width: f64) -> Self {
        let unit = time_unit(end_ms);
        let scale = Self::linear(end_ms, (plot_width / 70.0) as usize, unit);
        let high = if end_ms.is_finite() && end_ms > 0.0 { end_ms } else { scale.high };
        let ticks = scale.ticks.into_iter().filter(|(tick, _)| *tick <= high * 1.000_001);
        Self { title: scale.title, ..Self::with_ticks(0.0, high, ticks) }
    }

    pub(crate) fn sizes(largest: f64) -> Self {
        let step = match largest {
            ..=1600.0 => 500.0,
            ..=9200.0 => 3000.0,
            _ => return Self::linear(largest, 3, ("", 1.0)),
        };
        let steps = (largest / step - 0.02).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|index| f64::from(index) * step);
        let ticks = ticks.map(|tick| (tick, Some(format!("{tick:.0}"))));
        // Space above the largest value for lines that are drawn side by side.
        Self::with_ticks(0.0, (steps * step).max(largest) * 1.05, ticks)
    }

    pub(crate) fn parts(shown: &[f64]) -> Self {
        let ticks = shown.iter().map(|part| (*part, Some(format!("{:.0} %", part * 100.0))));
        Self::with_ticks(0.0, 1.0, ticks)
    }

    pub(crate) fn rows(rows: impl IntoIterator<Item = Row>) -> Self {
        let rows: Vec<Row> = rows.into_iter().collect();
        Self { low: rows.len() as f64, rows, ..Self::default() }
    }

    pub(crate) fn bare() -> Self {
        Self { high: 1.0, ..Self::default() }
    }

    /// Milliseconds of either sign; includes zero.
    pub(crate) fn signed_ms(values: impl Iterator<Item = f64>) -> Self {
        let finite = values.filter(|value| value.is_finite()).map(|value| value.clamp(-1e9, 1e9));
        let (low, high) = finite.fold((0.0_f64, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        let (unit, factor) = time_unit(high.max(-low));
        let steps = Steps::holding(sane((high - low) / factor), 6);
        let (first, last) =
            ((low / factor / steps.step).floor() as i32, (high / factor / steps.step).ceil() as i32);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|index| {
            let tick = f64::from(index) * steps.step;
            let sign = if index < 0 { "−" } else { "" };
            (tick * factor, Some(format!("{sign}{} {unit}", steps.number(tick.abs()))))
        });
        let end = |index: i32| f64::from(index) * steps.step * factor;
        Self::with_ticks(end(first), end(last), ticks)
    }

    /// Positive milliseconds between round values: 1, 2 or 5 times a power of ten.
    pub(crate) fn logarithmic_ms(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.clamp(1e-3, 1e8))
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if high <= 0.0 { (1.0, 10.0) } else { (low, high) };
        // Steps -9 to 24 cover the clamped range.
        let low = (-9..=24).rev().find(|step| round_value(*step) <= low).unwrap_or(-9);
        let high = (-9..=24).find(|step| round_value(*step) >= high).unwrap_or(24).max(low + 1);
        let powers = (low..=high).filter(|step| step.rem_euclid(3) == 0).count();
        let shown = |step: i32| step.rem_euclid(3) == 0 || high - low <= 5 || powers < 2;
        let ticks = (low..=high)
            .filter(|step| step.rem_euclid(3) == 0 || high - low < 15)
            .map(|step| (round_value(step), shown(step).then(|| round_words(step))));
        Self::logarithmic(round_value(low), round_value(high), ticks)
    }

    /// Labels every tick of a duration, if an axis of `height` pixels has room for all.
    pub(crate) fn with_every_label(mut self, height: f64) -> Self {
        if self.ticks.len() as f64 * LABEL_HEIGHT <= height {
            for (value, label) in &mut self.ticks {
                label.get_or_insert_with(|| window(*value));
            }
        }
        self
    }

    /// Positive ratios; 1 is in the middle.
    pub(crate) fn ratio(values: impl Iterator<Item = f64>) -> Self {
        let furthest = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.max(1.0 / value))
            .fold(2.0_f64, f64::max)
            .min(1e4);
        let mut scale = Self::logarithmic_ms([1.0 / furthest, furthest].into_iter());
        for (value, label) in &mut scale.ticks {
            let inverse = *value < 1.0;
            let words = if inverse { format!("1/{:.0}", 1.0 / *value) } else { format!("{value:.0}") };
            *label = label.take().map(|_| words);
        }
        scale
    }

    /// Lengths of IP packets; the shortest TCP packet has 40 bytes.
    pub(crate) fn lengths(longest: u32) -> Self {
        Self::of_packets(longest, (36.0, 1700.0), &[52, 100, 256, 576, 1500, 4096, 9000, 65_535])
    }

    /// Payloads of packets, from one byte.
    pub(crate) fn payloads(longest: u32) -> Self {
        Self::of_packets(longest, (0.8, 1800.0), &[1, 10, 100, 536, 1460, 9000, 65_535])
    }

    /// From `low` to an end for Ethernet's packets (`ethernet`), jumbo frames or GSO packets.
    fn of_packets(longest: u32, (low, ethernet): (f64, f64), known: &[u32]) -> Self {
        let high = [ethernet, 10_400.0].into_iter().find(|end| f64::from(longest) < *end).unwrap_or(72_000.0);
        let known = known.iter().filter(|length| f64::from(**length) < high);
        Self::logarithmic(low, high, known.map(|length| (f64::from(*length), Some(length.to_string()))))
    }

    /// Counts up to a power of ten; a count of 1 is slightly above the axis.
    pub(crate) fn counts(most: u64) -> Self {
        let powers = ((most.max(1) as f64).log10().ceil() as i32).max(1);
        let words = |power: i32| match power {
            0..=2 => 10_u32.pow(power as u32).to_string(),
            3..=5 => format!("{}k", 10_u32.pow(power as u32 - 3)),
            6..=8 => format!("{}M", 10_u32.pow(power as u32 - 6)),
            _ => format!("10^{power}"),
        };
        let shown = |power: i32| powers < 4 || power % 2 == powers % 2;
        let ticks = (0..=powers).map(|power| (10f64.powi(power), shown(power).then(|| words(power))));
        Self::logarithmic(10f64.powf(-0.35), 10f64.powi(powers), ticks)
    }

    pub(crate) fn part(&self, value: f64) -> f64 {
        let part = if !value.is_finite() {
            return 0.0;
        } else if self.is_logarithmic {
            let (low, high) = (self.low.log10(), self.high.log10());
            if value > 0.0 { (value.log10() - low) / (high - low) } else { 0.0 }
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The `step`th round value: step 0 is 1, step 1 is 2, step 2 is 5, step 3 is 10.
fn round_value(step: i32) -> f64 {
    [1.0, 2.0, 5.0][step.rem_euclid(3) as usize] * 10f64.powi(step.div_euclid(3))
}

fn round_words(step: i32) -> String {
    let value = round_value(step);
    match step {
        ..0 => format!("{value:.*} ms", (-step.div_euclid(3)).clamp(0, 9) as usize),
        0..9 => format!("{value:.0} ms"),
        _ => format!("{:.0} s", value / 1e3),
    }
}

/// The unit for rates up to `mbps`: its name, and Mbit/s per unit.
pub(crate) fn rate_unit(mbps: f64) -> (&'static str, f64) {
    match mbps {
        1000.0.. => ("Gbit/s", 1000.0),
        1.0.. => ("Mbit/s", 1.0),
        _ => ("kbit/s", 0.001),
    }
}

pub(crate) fn time_unit(ms: f64) -> (&'static str, f64) {
    match ms {
        7_200_000.0.. => ("h", 3_600_000.0),
        600_000.0.. => ("min", 60_000.0),
        1000.0.. => ("s", 1000.0),
        _ => ("ms", 1.0),
    }
}

pub(crate) fn window(ms: f64) -> String {
    quantity::plain(&quantity::duration(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(scale: &Scale) -> Vec<f64> {
        scale.ticks.iter().map(|tick| tick.0).collect()
    }

    fn words(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().filter_map(|(_, words)| words.as_deref()).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_highest_value() {
        assert_eq!(values(&Scale::linear(1.88, 4, ("", 1.0))), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(values(&Scale::linear(938.0, 4, ("", 1.0))), [0.0, 250.0, 500.0, 750.0, 1000.0]);
        let ten = Scale::time(10_000.0, 700.0);
        assert_eq!((ten.ticks.len(), ten.high, ten.title.as_str()), (11, 10_000.0, "s"));
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            let scale = Scale::linear(odd, 4, ("", 1.0));
            assert!(scale.high > 0.0 && scale.high.is_finite() && scale.ticks.len() < 20, "{odd}: {scale:?}");
        }
    }

    #[test]
    fn sizes_have_ticks_that_people_know() {
        assert_eq!(values(&Scale::sizes(9000.0)), [0.0, 3000.0, 6000.0, 9000.0]);
        assert_eq!(values(&Scale::sizes(1480.0)), [0.0, 500.0, 1000.0, 1500.0]);
        assert!(Scale::sizes(65_535.0).high >= 65_535.0);
        assert!(Scale::sizes(f64::NAN).high > 0.0 && Scale::sizes(0.0).high > 0.0);
    }

    #[test]
    fn a_logarithmic_scale_encloses_its_values() {
        let of = |values: &[f64]| Scale::logarithmic_ms(values.iter().copied());
        let scale = of(&[18.0, 4200.0, 0.0, f64::NAN]);
        assert_eq!(words(&scale), ["10 ms", "100 ms", "1 s"]);
        assert_eq!(values(&scale).first().map(|tick| tick.round() as u32), Some(10));
        assert_eq!(values(&scale).last().map(|tick| tick.round() as u32), Some(5000));
        assert!((scale.part(10.0 * 500f64.sqrt()) - 0.5).abs() < 1e-9, "the middle of the logarithms");
        assert_eq!((scale.part(0.0).to_bits(), scale.part(1e9).to_bits()), (0, 1f64.to_bits()));
        assert_eq!(words(&of(&[20.0, 45.0])), ["20 ms", "50 ms"]);
        assert_eq!(words(&of(&[0.2])), ["0.2 ms", "0.5 ms"]);
        for odd in [1e-300, 1e300, 7.0] {
            assert!(of(&[odd]).part(odd).is_finite());
        }
    }

    #[test]
    fn numbers_have_the_decimals_of_the_step() {
        let second = |highest: f64| Scale::linear(highest, 4, ("", 1.0)).ticks[1].1.clone();
        assert_eq!(second(1.88).as_deref(), Some("0.5"));
        assert_eq!(second(938.0).as_deref(), Some("250"));
        assert_eq!(second(0.9).as_deref(), Some("0.25"));
    }

    #[test]
    fn durations_of_both_signs_have_zero_among_their_ticks() {
        let scale = Scale::signed_ms([-230.0, 4120.0, f64::NAN].into_iter());
        assert_eq!(words(&scale), ["−1 s", "0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]);
        assert!((scale.part(0.0) - 1.0 / 6.0).abs() < 1e-9);
        assert!(scale.part(f64::INFINITY).is_finite());
        for odd in [[0.0, 0.0], [-1e300, 1e300], [f64::NAN, -5.0]] {
            let scale = Scale::signed_ms(odd.into_iter());
            assert!(scale.ticks.len() < 20 && scale.part(odd[1]).is_finite(), "{odd:?}: {scale:?}");
        }
    }

    #[test]
    fn a_ratio_and_its_inverse_lie_equally_far_from_the_middle() {
        let scale = Scale::ratio([0.3, 1.5].into_iter());
        assert!((scale.part(1.0) - 0.5).abs() < 1e-9);
        let is_one = |(value, words): &(f64, Option<String>)| {
            (*value - 1.0).abs() < 1e-9 && words.as_deref() == Some("1")
        };
        assert!(scale.ticks.iter().any(is_one));
        assert!(words(&scale).contains(&"1/5"));
    }
}
