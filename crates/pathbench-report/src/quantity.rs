//! Quantities in words: three significant digits, a unit for the magnitude, a dash for values that are not numbers.

use pathbench_record::document::Distribution;
use pathbench_record::statistics;
pub use pathbench_record::text::{NONE, duration_ms as duration, plain};
use pathbench_record::text::{scaled, three_digits};

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

/// Both directions of a link in words, forward first; one value if they are equal. `None` if neither has a value.
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

/// Decimal bytes: `1.25 GB`, `34.5 MB`, `512 B`.
pub fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    scaled(count as f64, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
}

/// A fraction of 1 in percent: `66 %`, `0.4 %`, `< 0.1 %`.
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
    /// A fraction of 1.
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

/// The bounds of a median.
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
    /// Lowest and highest value, if there are too few values for an interval
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
    pub fn from_distribution(found: &Distribution) -> Option<Self> {
        let (kind, [low, high]) = match found.ci95 {
            Some(interval) => (BoundsKind::Interval, interval),
            None => (BoundsKind::Range, [found.min, found.max]),
        };
        (found.n > 1 && low.is_finite() && high.is_finite()).then_some(Self { kind, low, high })
    }
}

/// `range 190–230`, `95 % CI 190–230`: the bounds of a median, without a unit if the median has the same one. Empty
/// without bounds.
pub fn bounds(found: &Distribution, show: fn(f64) -> String) -> String {
    let Some(Bounds { kind, low, high }) = Bounds::from_distribution(found) else { return String::new() };
    let (range, median) = (range(low, high, show), show(found.median));
    let numbers = match (range.rsplit_once(' '), median.rsplit_once(' ')) {
        _ if range == median => return String::new(),
        (Some((numbers, unit)), Some((_, same))) if unit == same && !numbers.contains(' ') => numbers,
        _ => &range,
    };
    format!("{} {numbers}", kind.name())
}

/// `210 ms (range 190–230)`: a median with its bounds.
pub fn with_bounds(found: &Distribution, show: fn(f64) -> String) -> String {
    let (median, bounds) = (show(found.median), bounds(found, show));
    if bounds.is_empty() { median } else { format!("{median} ({bounds})") }
}

/// Lowest to highest, with a common unit only once: `1.36–1.39 Gbit/s`, `950 Mbit/s–1.02 Gbit/s`.
pub fn range(min: f64, max: f64, show: fn(f64) -> String) -> String {
    let (low, high) = (show(min), show(max));
    if low == high { low } else { with_one_unit(&low, "–", &high) }
}

/// Two quantities, with a common unit only once: `941 / 938 Mbit/s`.
pub(crate) fn with_one_unit(one: &str, between: &str, other: &str) -> String {
    match (one.rsplit_once(' '), other.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same && !number.starts_with('<') => {
            format!("{number}{between}{other}")
        }
        _ => format!("{one}{between}{other}"),
    }
}

/// The distribution of the finite `values`; infinities and NaN are left out.
pub fn distribution(values: &[f64]) -> Option<Distribution> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    statistics::distribution(&finite)
}

/// `2.41 s` for one value, `2.41 s (range 2.10–3.02)` for several that differ; `None` for none.
pub fn spread(values: &[f64], show: fn(f64) -> String) -> Option<String> {
    Some(with_bounds(&distribution(values)?, show))
}

/// Facts in one text whose lines break between facts only.
pub(crate) fn joined_facts(facts: &[String]) -> String {
    facts.iter().map(|fact| fact.replace(' ', "\u{a0}")).collect::<Vec<_>>().join(" · ")
}

/// `1 run`, `3 runs`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
