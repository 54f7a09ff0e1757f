//! Scales with round ticks.

use crate::quantity;

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
    fn numbers_have_the_decimals_of_the_step() {
        assert_eq!(Axis::holding(1.88, 4).number(0.5), "0.5");
        assert_eq!(Axis::holding(938.0, 4).number(250.0), "250");
        assert_eq!(Axis::holding(0.9, 4).number(0.25), "0.25");
    }
}
