//! Quantities in words: three significant digits, the unit that fits, and a dash for what is not a number.

use pathbench_record::document::Distribution;
use pathbench_record::statistics;

pub const NONE: &str = "–";

fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `value` in the largest of `units` (factor, name; largest first) in which it is at least 1.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    // 0.9995 lets 999.6 Mbit/s become 1.00 Gbit/s rather than `1000 Mbit/s`.
    let fits = |&&(factor, _): &&(f64, &str)| value.abs() >= 0.9995 * factor;
    let Some((factor, unit)) = units.iter().find(fits).or(units.last()) else {
        return NONE.to_owned();
    };
    let scaled = value / factor;
    if scaled.abs() >= 1e6 {
        format!("{scaled:.2e} {unit}")
    } else {
        format!("{} {unit}", three_digits(scaled))
    }
}

/// A rate given in Mbit/s: `938 Mbit/s`, `1.38 Gbit/s`, `512 kbit/s`.
pub fn rate(mbps: f64) -> String {
    if mbps == 0.0 {
        return "0 Mbit/s".to_owned();
    }
    scaled(mbps, &[(1e3, "Gbit/s"), (1.0, "Mbit/s"), (1e-3, "kbit/s"), (1e-6, "bit/s")])
}

pub fn bit_rate(bps: u64) -> String {
    rate(bps as f64 / 1e6)
}

/// `text` without the zeros that a value somebody wrote down does not need: `1 Gbit/s` for `1.00 Gbit/s`.
pub fn plain(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
}

/// What both directions of a link have in words, forward first: once where it is the same. `None` where neither has it.
pub fn each_direction<T: PartialEq>(
    forward: Option<T>,
    reverse: Option<T>,
    words: impl Fn(T) -> String,
) -> Option<String> {
    if forward == reverse {
        return forward.map(words);
    }
    let [forward, reverse] = [forward, reverse].map(|one| one.map_or_else(|| NONE.to_owned(), &words));
    Some(format!("{forward} / {reverse}"))
}

/// A duration given in ms: `0.35 ms`, `210 ms`, `2.41 s`, `15.4 min`.
pub fn duration(ms: f64) -> String {
    if !ms.is_finite() {
        return NONE.to_owned();
    }
    if ms.abs() >= 120_000.0 {
        return scaled(ms / 60_000.0, &[(60.0, "h"), (1.0, "min")]);
    }
    if ms == 0.0 {
        return "0 ms".to_owned();
    }
    scaled(ms, &[(1e3, "s"), (1.0, "ms"), (1e-3, "µs")])
}

/// Decimal bytes: `1.25 GB`, `34.5 MB`, `512 B`.
pub fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    scaled(count as f64, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
}

/// A part of 1 in percent: `66 %`, `0.4 %`, `< 0.1 %`.
pub fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if !percent.is_finite() {
        NONE.to_owned()
    } else if percent == 0.0 || (9.95..1e6).contains(&percent.abs()) {
        format!("{percent:.0} %")
    } else if percent.abs() < 0.1 {
        "< 0.1 %".to_owned()
    } else if percent.abs() >= 1e6 {
        format!("{percent:.1e} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// How often one figure is another: `1.96 ×`.
pub fn ratio(value: f64) -> String {
    if value.is_finite() && value.abs() < 1e6 {
        format!("{} ×", three_digits(value))
    } else {
        NONE.to_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Rate,
    /// In ms.
    Duration,
    Bytes,
    /// A part of 1.
    Percent,
    Ratio,
}

impl Unit {
    pub fn words(self) -> fn(f64) -> String {
        match self {
            Self::Rate => rate,
            Self::Duration => duration,
            Self::Bytes => |count| bytes(count as u64),
            Self::Percent => percent,
            Self::Ratio => ratio,
        }
    }
}

/// What stands beside a median, everywhere by the same rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub kind: BoundsKind,
    pub low: f64,
    pub high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoundsKind {
    /// Distribution-free 95 % confidence interval of the median, from order statistics.
    Interval,
    /// Lowest and highest of fewer values than it takes for an interval
    /// ([`FEWEST_FOR_INTERVAL`](statistics::FEWEST_FOR_INTERVAL)).
    Range,
}

impl BoundsKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interval => "95 % CI",
            Self::Range => "range",
        }
    }
}

impl Bounds {
    /// Those of a median; none for a single value.
    pub fn of(found: &Distribution) -> Option<Self> {
        let (kind, [low, high]) = match found.ci95 {
            Some(interval) => (BoundsKind::Interval, interval),
            None => (BoundsKind::Range, [found.min, found.max]),
        };
        (found.n > 1 && low.is_finite() && high.is_finite()).then_some(Self { kind, low, high })
    }

    /// Low to high, without the unit where both have that of the median; empty where there is nothing to add to it.
    pub fn numbers(self, median: f64, show: fn(f64) -> String) -> String {
        let (range, median) = (range(self.low, self.high, show), show(median));
        if range == median {
            return String::new();
        }
        match (range.rsplit_once(' '), median.rsplit_once(' ')) {
            (Some((numbers, unit)), Some((_, same))) if unit == same && !numbers.contains(' ') => {
                numbers.to_owned()
            }
            _ => range,
        }
    }
}

/// `range 190–230`, `95 % CI 190–230`: what stands under or behind a median. Empty where there is nothing to add to it.
pub fn bounds(found: &Distribution, show: fn(f64) -> String) -> String {
    let bounds = Bounds::of(found).map(|bounds| (bounds.kind.name(), bounds.numbers(found.median, show)));
    match bounds {
        Some((kind, numbers)) if !numbers.is_empty() => format!("{kind} {numbers}"),
        _ => String::new(),
    }
}

/// `210 ms (range 190–230)`: a median with what stands beside it.
pub fn with_bounds(found: &Distribution, show: fn(f64) -> String) -> String {
    let (median, bounds) = (show(found.median), bounds(found, show));
    if bounds.is_empty() { median } else { format!("{median} ({bounds})") }
}

/// Lowest to highest, the unit said once where it is the same: `1.36–1.39 Gbit/s`, `950 Mbit/s–1.02 Gbit/s`.
pub fn range(min: f64, max: f64, show: fn(f64) -> String) -> String {
    let (low, high) = (show(min), show(max));
    if low == high {
        return low;
    }
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same && !number.starts_with('<') => {
            format!("{number}–{high}")
        }
        _ => format!("{low}–{high}"),
    }
}

/// The finite ones of `values`: a figure that is no number has no place in a sentence.
fn finite(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter(|value| value.is_finite()).collect()
}

/// The median of the finite `values`, the mean of the middle two when their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    statistics::median(&finite(values))
}

pub fn distribution(values: &[f64]) -> Option<Distribution> {
    statistics::distribution(&finite(values))
}

/// `2.41 s` for one value, `2.41 s (range 2.10–3.02)` for several that differ; `None` for none.
pub fn spread(values: &[f64], show: fn(f64) -> String) -> Option<String> {
    Some(with_bounds(&distribution(values)?, show))
}

/// `1 run`, `3 runs`.
pub fn counted(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
