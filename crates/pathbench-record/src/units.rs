//! Quantities as users write them in scenario files and on the command line, always with their unit.
//!
//! Every type parses and prints ([`FromStr`], [`fmt::Display`]) without loss: printed text parses back to
//! the same value. Decimal places are exact, never rounded: values without an exact representation are rejected.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Error for a text that is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {remedy}")]
pub struct UnitError {
    /// The error, with the text.
    pub problem: String,
    /// The valid form, with an example.
    pub remedy: String,
}

impl UnitError {
    fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: remedy.into() }
    }
}

type Scale = (&'static str, u64);

/// A kind of quantity: its units and its name in messages.
struct Kind {
    /// From the smallest to the largest.
    scales: &'static [Scale],
    noun: &'static str,
    remedy: &'static str,
    grain: &'static str,
}

const RATE: Kind = Kind {
    scales: &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)],
    noun: "a rate",
    remedy: "give a number with bit, kbit, mbit or gbit (per second), as in \"50mbit\"",
    grain: "a whole number of bits per second",
};

const SPAN: Kind = Kind {
    scales: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ],
    noun: "a duration",
    remedy: "give a number with us, ms, s, m (minutes), h or d, as in \"10ms\"",
    grain: "a whole number of nanoseconds",
};

const SIZE: Kind = Kind {
    scales: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1_024),
        ("MB", 1_000_000),
        ("MiB", 1_048_576),
        ("GB", 1_000_000_000),
        ("GiB", 1_073_741_824),
    ],
    noun: "a size",
    remedy: "give bytes, or a number with kB, MB, GB (1000s) or KiB, MiB, GiB (1024s), as in \"256kB\"",
    grain: "a whole number of bytes",
};

const PERCENT: Kind = Kind {
    scales: &[("%", 10_000_000)],
    noun: "a percentage",
    remedy: "give a percentage with its sign, as in \"0.1%\"",
    grain: "a multiple of 0.0000001%",
};

const QUEUE_REMEDY: &str =
    "give a time at the link's rate (\"100ms\"), a number of packets (\"200p\") or bytes (\"256kB\")";

impl Kind {
    fn split<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str), UnitError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(UnitError::new(format!("an empty text is not {}", self.noun), self.remedy));
        }
        if trimmed.starts_with('-') {
            return Err(UnitError::new(format!("`{trimmed}` is negative"), self.remedy));
        }
        let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        if number.is_empty() {
            return Err(UnitError::new(format!("`{trimmed}` is not {}", self.noun), self.remedy));
        }
        Ok((number, unit.trim_start()))
    }

    /// The multiplier of `unit`, which must be a unit of this kind.
    fn scale(&self, text: &str, unit: &str) -> Result<u64, UnitError> {
        if unit.is_empty() {
            return Err(UnitError::new(format!("`{}` has no unit", text.trim()), self.remedy));
        }
        self.scales
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|&(_, scale)| scale)
            .ok_or_else(|| self.unknown_unit(text, unit))
    }

    fn unknown_unit(&self, text: &str, unit: &str) -> UnitError {
        let spelled = self.scales.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        // `KB` can mean 1000 or 1024 bytes, and `mbps` means bytes in tc and bits elsewhere, so both are rejected.
        let problem = match spelled {
            Some((name, _)) if unit != "KB" => format!("`{}` spells the unit {name} wrongly", text.trim()),
            _ => format!("`{}` has the unit `{unit}`, which is unknown or ambiguous", text.trim()),
        };
        UnitError::new(problem, self.remedy)
    }

    /// `number` × `scale`, exact, at most `u64::MAX`.
    fn exact(&self, text: &str, number: &str, scale: u64) -> Result<u64, UnitError> {
        let wrong = |what: String| UnitError::new(format!("`{}` {what}", text.trim()), self.remedy);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return Err(wrong(format!("is not {}", self.noun)));
        }
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        if whole.len() > 20 {
            return Err(wrong("is too large".to_owned()));
        }
        if fraction.len() > 18 {
            return Err(wrong(format!("is not {}", self.grain)));
        }
        // At most 20 digits (18 for the fraction) times 86400e9: far below 2^128.
        let value_of = |part: &str| part.bytes().fold(0_u128, |sum, byte| sum * 10 + u128::from(byte - b'0'));
        let divisor = 10_u128.pow(fraction.len() as u32);
        let scaled = value_of(fraction) * u128::from(scale);
        if !scaled.is_multiple_of(divisor) {
            return Err(wrong(format!("is not {}", self.grain)));
        }
        u64::try_from(value_of(whole) * u128::from(scale) + scaled / divisor)
            .map_err(|_| wrong("is too large".to_owned()))
    }

    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let (number, unit) = self.split(text)?;
        let scale = self.scale(text, unit)?;
        self.exact(text, number, scale)
    }
}

/// Writes `value / scale` with all its decimals; `scale` must be a power of ten.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, scale: u64, unit: &str) -> fmt::Result {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return f.pad(&format!("{whole}{unit}"));
    }
    let digits = scale.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    f.pad(&format!("{whole}.{}{unit}", fraction.trim_end_matches('0')))
}

/// The largest scale that is at most `value`, so that the number before the unit is at least 1.
fn fitting(scales: &[Scale], value: u64) -> Scale {
    scales.iter().rev().find(|(_, scale)| value >= *scale).or(scales.first()).copied().unwrap_or(("", 1))
}

/// Bits per second: `"50mbit"`, `"2.5gbit"`.
///
/// `mbps`, `Mb` and similar units are rejected: in `tc` they are bytes per second, elsewhere bits.
///
/// ```rust
/// use pathbench_record::units::Rate;
///
/// let rate: Rate = "2.5gbit".parse()?;
/// assert_eq!(rate, Rate(2_500_000_000));
/// assert_eq!(rate.to_string(), "2.5gbit");
/// assert!("50Mb".parse::<Rate>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        // Bits are unambiguous, so `Mbit` and `mbit` are the same.
        RATE.parse(&text.to_ascii_lowercase()).map(Self).map_err(|mut error| {
            error.problem = error.problem.replace(&text.trim().to_ascii_lowercase(), text.trim());
            error
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = fitting(RATE.scales, self.0);
        write_decimal(f, self.0, scale, unit)
    }
}

/// A duration: `"250us"`, `"1ms"`, `"3s"`, `"2m"`, `"1h"`, `"7d"`; exact to the nanosecond, at most about 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        SPAN.parse(text).map(|nanos| Self(Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return f.pad("0s");
        }
        if nanos.is_multiple_of(60_000_000_000) {
            return f.pad(&format!("{}m", nanos / 60_000_000_000));
        }
        let (unit, scale) = fitting(&SPAN.scales[..4], nanos);
        write_decimal(f, nanos, scale, unit)
    }
}

/// A number of bytes: `"1500"`, `"256kB"` (256 000), `"64KiB"` (65 536).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = SIZE.split(text)?;
        let scale = if unit.is_empty() { 1 } else { SIZE.scale(text, unit)? };
        SIZE.exact(text, number, scale).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = SIZE.scales.iter().rev().find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale));
        match whole {
            Some((unit, scale)) if *scale > 1 => f.pad(&format!("{}{unit}", self.0 / scale)),
            _ => f.pad(&format!("{}", self.0)),
        }
    }
}

/// A fraction: `"0.1%"`; exact to a billionth, 0 to 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Percent {
    billionths: u32,
}

impl Percent {
    /// `value` per cent, at most 100.
    pub const fn whole(value: u32) -> Self {
        Self { billionths: (if value > 100 { 100 } else { value }) * 10_000_000 }
    }

    /// 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.billionths) / 1e9
    }
}

impl FromStr for Percent {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let billionths = PERCENT.parse(text)?;
        match u32::try_from(billionths) {
            Ok(billionths) if billionths <= 1_000_000_000 => Ok(Self { billionths }),
            _ => Err(UnitError::new(
                format!("`{}` is more than the whole", text.trim()),
                "give 0% to 100%, as in \"0.1%\"",
            )),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, u64::from(self.billionths), 10_000_000, "%")
    }
}

/// Limit of a queue: a time at the link's rate (`"100ms"`), packets (`"200p"`) or bytes (`"256kB"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueLimit {
    /// The bytes that the link sends in this time.
    Time(Duration),
    /// Packets of any size.
    Packets(u32),
    Bytes(u64),
}

impl FromStr for QueueLimit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let queue = |error: UnitError| UnitError::new(error.problem, QUEUE_REMEDY);
        let kind = Kind { noun: "a queue size", ..SIZE };
        let (number, unit) = kind.split(text).map_err(queue)?;
        if unit == "p" {
            let kind = Kind { grain: "a whole number of packets", ..kind };
            let packets = kind.exact(text, number, 1).map_err(queue)?;
            return u32::try_from(packets)
                .map(Self::Packets)
                .map_err(|_| UnitError::new(format!("`{}` is too large", text.trim()), QUEUE_REMEDY));
        }
        if SPAN.scales.iter().any(|(name, _)| *name == unit) {
            return text.parse::<Span>().map(|span| Self::Time(span.0)).map_err(queue);
        }
        // Without a unit the number could be packets or bytes.
        let scale = kind.scale(text, unit).map_err(queue)?;
        kind.exact(text, number, scale).map(Self::Bytes).map_err(queue)
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => Span(*time).fmt(f),
            Self::Packets(packets) => f.pad(&format!("{packets}p")),
            Self::Bytes(bytes) => {
                let size = Size(*bytes).to_string();
                let unit = if size.ends_with('B') { "" } else { "B" };
                f.pad(&format!("{size}{unit}"))
            }
        }
    }
}

/// A [`Duration`] as a number of milliseconds in JSON, for fields named `…_ms`; exact below 104 days.
///
/// For `#[serde(with = "pathbench_record::units::milliseconds")]`.
pub mod milliseconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    /// Writes `duration` as milliseconds.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_nanos() as f64 / 1e6)
    }

    /// Reads milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let nanos = (f64::deserialize(deserializer)? * 1e6).round();
        if (0.0..18.0e18).contains(&nanos) {
            Ok(Duration::from_nanos(nanos as u64))
        } else {
            Err(D::Error::custom("a duration in milliseconds must lie between 0 and 18e12"))
        }
    }
}
