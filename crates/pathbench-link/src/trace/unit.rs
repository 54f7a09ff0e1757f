//! Units of rates and times, by their names in options and in the headers of tables.

/// A unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateUnit {
    Bits,
    Kilobits,
    Megabits,
    Gigabits,
    Bytes,
    Kilobytes,
    Megabytes,
}

impl RateUnit {
    pub const ALL: [Self; 7] = [
        Self::Megabits,
        Self::Kilobits,
        Self::Bits,
        Self::Gigabits,
        Self::Bytes,
        Self::Kilobytes,
        Self::Megabytes,
    ];

    /// The name in scenarios and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bits => "bit/s",
            Self::Kilobits => "kbit/s",
            Self::Megabits => "mbit/s",
            Self::Gigabits => "gbit/s",
            Self::Bytes => "bytes/s",
            Self::Kilobytes => "kbytes/s",
            Self::Megabytes => "mbytes/s",
        }
    }

    pub const fn bits(self) -> f64 {
        match self {
            Self::Bits => 1.0,
            Self::Kilobits => 1e3,
            Self::Megabits => 1e6,
            Self::Gigabits => 1e9,
            Self::Bytes => 8.0,
            Self::Kilobytes => 8e3,
            Self::Megabytes => 8e6,
        }
    }

    /// The choice in messages.
    pub(super) fn choices() -> String {
        Self::ALL.map(|unit| format!("\"{}\"", unit.name())).join(", ")
    }

    /// The unit at the end of a column's name, as in `throughput_mbps`, `rate (Mbit/s)` or `bytes_per_second`. `None` for
    /// a name without a unit, and for one that may mean bits or bytes (`MBPS`, `mb/s`).
    pub(super) fn from_column(column: &str) -> Option<Self> {
        let words = words(column);
        let last = words.last()?;
        let (quantity, second) = match words.as_slice() {
            [.., quantity, per, time] if per.eq_ignore_ascii_case("per") => (*quantity, *time),
            _ => match last.rsplit_once('/') {
                Some((quantity, time)) => (quantity, time),
                None => match last.strip_suffix("ps") {
                    Some(quantity) => (quantity, "s"),
                    None => (*last, ""),
                },
            },
        };
        if !matches!(second.to_ascii_lowercase().as_str(), "" | "s" | "sec" | "second") {
            return None;
        }
        let lower = quantity.to_ascii_lowercase();
        let (prefix, name) = ["kilo", "mega", "giga", "k", "m", "g"]
            .iter()
            .find_map(|prefix| Some((*prefix, lower.strip_prefix(prefix)?)))
            .filter(|(_, name)| matches!(*name, "b" | "bit" | "bits" | "byte" | "bytes"))
            .unwrap_or(("", lower.as_str()));
        let is_byte = match name {
            "bit" | "bits" => false,
            // A bare number of bytes is an amount.
            "byte" | "bytes" if !second.is_empty() => true,
            // `Mbps` and `mbps` are bits by custom, `MBps` and `MB/s` bytes.
            "b" if quantity.ends_with('B') && !second.is_empty() => true,
            "b" if last.ends_with("bps") || quantity.starts_with(['M', 'G', 'K']) => false,
            _ => return None,
        };
        // Without a second, it is an amount of data unless another word names a rate, as in `bw_mbit`.
        let names_rate = || words.iter().any(|word| is_rate_word(&word.to_ascii_lowercase()));
        if second.is_empty() && (prefix.is_empty() || name == "b" || !names_rate()) {
            return None;
        }
        Some(match (prefix.as_bytes().first(), is_byte) {
            (None, false) => Self::Bits,
            (Some(b'k'), false) => Self::Kilobits,
            (Some(b'm'), false) => Self::Megabits,
            (Some(b'g'), false) => Self::Gigabits,
            (None, true) => Self::Bytes,
            (Some(b'k'), true) => Self::Kilobytes,
            (Some(b'm'), true) => Self::Megabytes,
            _ => return None,
        })
    }
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl TimeUnit {
    pub const ALL: [Self; 4] = [Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Nanoseconds];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        }
    }

    pub(super) const fn seconds(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 1e-3,
            Self::Microseconds => 1e-6,
            Self::Nanoseconds => 1e-9,
        }
    }

    /// The unit at the end of a column's name, as in `rtt_ms`.
    pub(super) fn from_column(column: &str) -> Option<Self> {
        match words(column).last()?.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => Some(Self::Seconds),
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" | "millis" => Some(Self::Milliseconds),
            "us" | "usec" | "microsecond" | "microseconds" | "micros" => Some(Self::Microseconds),
            "ns" | "nsec" | "nanosecond" | "nanoseconds" | "nanos" => Some(Self::Nanoseconds),
            _ => None,
        }
    }
}

/// Whether a word of a column's name, in small letters, names a rate.
pub(super) fn is_rate_word(word: &str) -> bool {
    matches!(
        word,
        "throughput" | "rate" | "bandwidth" | "bw" | "capacity" | "goodput" | "bitrate" | "datarate" | "tput"
    )
}

/// The words of a column's name.
pub(super) fn words(column: &str) -> Vec<&str> {
    let separates = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '/' | '%');
    column.split(separates).filter(|word| !word.is_empty()).collect()
}
