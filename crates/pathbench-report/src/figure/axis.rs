//! Scales with round ticks.

use crate::quantity;
use crate::svg::Area;

/// A linear scale from 0 to `max`, with ticks at round values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Value at the far end, a tick.
    pub(super) max: f64,
    /// Tick values, 0 first.
    pub(super) ticks: Vec<f64>,
    step: f64,
}

impl Axis {
    /// A scale that holds `highest`, with about `wanted` steps of 1, 2 or 5 times a power of ten.
    pub(super) fn holding(highest: f64, wanted: usize) -> Self {
        let highest = if highest.is_finite() && highest > 1e-9 { highest.min(1e15) } else { 1.0 };
        let rough = highest / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| step * wanted as f64 >= highest * 0.999)
            .unwrap_or(10.0 * power);
        // A value a hair above a tick does not open another step.
        let steps = ((highest / step) - 0.02).ceil().max(1.0) as usize;
        let ticks: Vec<f64> = (0..=steps).map(|index| index as f64 * step).collect();
        Self { max: (steps as f64 * step).max(highest), ticks, step }
    }

    /// A scale of packet sizes: its ticks are those that people know.
    pub(super) fn of_sizes(largest: f64) -> Self {
        let step = match largest {
            ..=1600.0 => 500.0,
            ..=9200.0 => 3000.0,
            _ => return Self::holding(largest, 3),
        };
        let steps = (largest / step - 0.02).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|index| f64::from(index) * step).collect();
        // Room over the largest for lines that are drawn side by side.
        Self { max: (steps * step).max(largest) * 1.05, ticks, step }
    }

    /// A time scale that ends exactly at `end`; ticks only at round values before it.
    pub(super) fn until(end: f64, wanted: usize) -> Self {
        let mut axis = Self::holding(end, wanted);
        let end = if end.is_finite() && end > 0.0 { end } else { axis.max };
        axis.max = end;
        axis.ticks.retain(|tick| *tick <= end * 1.000_001);
        axis
    }

    /// Where `value` lies, 0 to 1; values outside are brought to the nearer end.
    pub(super) fn part(&self, value: f64) -> f64 {
        if value.is_finite() { (value / self.max).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// A tick's number with as many decimals as the step needs.
    pub(super) fn number(&self, tick: f64) -> String {
        let decimals = (0..4_i32).find(|decimals| {
            let scaled = self.step * 10f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6
        });
        format!("{tick:.*}", decimals.unwrap_or(4) as usize)
    }
}

/// The time axis of a plot.
#[derive(Debug)]
pub(super) struct TimeScale {
    pub(super) axis: Axis,
    /// Its unit's name, and ms per unit.
    pub(super) unit: (&'static str, f64),
}

impl TimeScale {
    /// A scale from 0 to `end_ms` for a plot of this width.
    pub(super) fn until(end_ms: f64, plot_width: f64) -> Self {
        let unit = time_unit(end_ms);
        Self { axis: Axis::until(end_ms / unit.1, (plot_width / 70.0) as usize), unit }
    }

    pub(super) fn x(&self, plot: Area, t_ms: f64) -> f64 {
        plot.x + self.axis.part(t_ms / self.unit.1) * plot.width
    }
}

/// A logarithmic scale of durations between round values: 1, 2 or 5 times a power of ten of a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogScale {
    /// Numbers of the round values at its ends: 0 is 1 ms, 1 is 2 ms, 2 is 5 ms, 3 is 10 ms.
    low: i32,
    high: i32,
}

/// The `step`th round value in ms.
fn round_value(step: i32) -> f64 {
    [1.0, 2.0, 5.0][step.rem_euclid(3) as usize] * 10f64.powi(step.div_euclid(3))
}

impl LogScale {
    /// Round values that enclose the positive ones of `values`.
    pub(super) fn holding(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.clamp(1e-3, 1e8))
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            return Self { low: 0, high: 3 };
        }
        // Steps -9 to 24 hold all that the clamp lets through.
        let below = (-9..=24).rev().find(|step| round_value(*step) <= low).unwrap_or(-9);
        let above = (-9..=24).find(|step| round_value(*step) >= high).unwrap_or(24);
        Self { low: below, high: above.max(below + 1) }
    }

    /// Where `ms` lies, 0 to 1; values outside are brought to the nearer end.
    pub(super) fn part(self, ms: f64) -> f64 {
        let (low, high) = (round_value(self.low).log10(), round_value(self.high).log10());
        let power = if ms > 0.0 && ms.is_finite() { ms.log10() } else { low };
        ((power - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Round values; with words the powers of ten, and where there is hardly one of them the others, too.
    pub(super) fn ticks(self) -> Vec<(f64, Option<String>)> {
        let powers = (self.low..=self.high).filter(|step| step.rem_euclid(3) == 0).count();
        let shown = |step: i32| step.rem_euclid(3) == 0 || self.high - self.low <= 5 || powers < 2;
        let drawn = |step: &i32| step.rem_euclid(3) == 0 || self.high - self.low < 15;
        (self.low..=self.high)
            .filter(drawn)
            .map(|step| (round_value(step), shown(step).then(|| round_words(step))))
            .collect()
    }
}

/// The `step`th round value in words: `0.1 ms`, `20 ms`, `1 s`.
fn round_words(step: i32) -> String {
    let value = round_value(step);
    match step {
        ..0 => format!("{value:.*} ms", (-step.div_euclid(3)).clamp(0, 9) as usize),
        0..9 => format!("{value:.0} ms"),
        _ => format!("{:.0} s", value / 1e3),
    }
}

/// The unit in which rates up to `mbps` read well: its name, and Mbit/s per unit.
pub(super) fn rate_unit(mbps: f64) -> (&'static str, f64) {
    if mbps >= 1000.0 {
        ("Gbit/s", 1000.0)
    } else if mbps >= 1.0 {
        ("Mbit/s", 1.0)
    } else {
        ("kbit/s", 0.001)
    }
}

/// The unit in which times up to `ms` read well: its name, and ms per unit.
pub(super) fn time_unit(ms: f64) -> (&'static str, f64) {
    if ms >= 7_200_000.0 {
        ("h", 3_600_000.0)
    } else if ms >= 600_000.0 {
        ("min", 60_000.0)
    } else if ms >= 1000.0 {
        ("s", 1000.0)
    } else {
        ("ms", 1.0)
    }
}

/// A window's width in words: `100 ms`, `0.5 s`.
pub(super) fn window(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { quantity::duration(ms).replace(".00", "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_the_highest_value() {
        assert_eq!(Axis::holding(1.88, 4).ticks, [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(Axis::holding(938.0, 4).ticks, [0.0, 250.0, 500.0, 750.0, 1000.0]);
        let ten = Axis::until(10.0, 10);
        assert_eq!((ten.ticks.len(), ten.max), (11, 10.0));
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            let axis = Axis::holding(odd, 4);
            assert!(axis.max > 0.0 && axis.max.is_finite() && axis.ticks.len() < 20, "{odd}: {axis:?}");
        }
    }

    #[test]
    fn sizes_have_ticks_that_people_know() {
        assert_eq!(Axis::of_sizes(9000.0).ticks, [0.0, 3000.0, 6000.0, 9000.0]);
        assert_eq!(Axis::of_sizes(1480.0).ticks, [0.0, 500.0, 1000.0, 1500.0]);
        assert!(Axis::of_sizes(65_535.0).max >= 65_535.0);
        assert!(Axis::of_sizes(f64::NAN).max > 0.0 && Axis::of_sizes(0.0).max > 0.0);
    }

    #[test]
    fn a_logarithmic_scale_encloses_its_values() {
        let scale = LogScale::holding([18.0, 4200.0, 0.0, f64::NAN].into_iter());
        let words = |scale: LogScale| -> Vec<String> {
            scale.ticks().into_iter().filter_map(|(_, words)| words).collect()
        };
        assert_eq!(words(scale), ["10 ms", "100 ms", "1 s"]);
        assert_eq!(scale.ticks().first().map(|tick| tick.0.round() as u32), Some(10));
        assert_eq!(scale.ticks().last().map(|tick| tick.0.round() as u32), Some(5000));
        assert!((scale.part(10.0 * 500f64.sqrt()) - 0.5).abs() < 1e-9, "the middle of the logarithms");
        assert_eq!((scale.part(0.0).to_bits(), scale.part(1e9).to_bits()), (0, 1f64.to_bits()));
        assert_eq!(words(LogScale::holding([20.0, 45.0].into_iter())), ["20 ms", "50 ms"]);
        assert_eq!(words(LogScale::holding([0.2].into_iter())), ["0.2 ms", "0.5 ms"]);
        for odd in [1e-300, 1e300, 7.0] {
            assert!(LogScale::holding([odd].into_iter()).part(odd).is_finite());
        }
    }

    #[test]
    fn numbers_have_the_decimals_of_the_step() {
        assert_eq!(Axis::holding(1.88, 4).number(0.5), "0.5");
        assert_eq!(Axis::holding(938.0, 4).number(250.0), "250");
        assert_eq!(Axis::holding(0.9, 4).number(0.25), "0.25");
    }
}
