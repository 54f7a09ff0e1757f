//! Traces of real links: bytes of a file in, a schedule or a mistake with its line out.
//!
//! | format | a line | becomes |
//! |---|---|---|
//! | Mahimahi | `ms` | [`OpportunitySchedule`] |
//! | `CellReplay` | `time_ms base_delay_ms opportunity_ms…` | [`TrainSchedule`] |
//! | bytes per second | `second,bytes_per_second` | [`RateSchedule`](pathbench_link::RateSchedule) |
//! | loss | `second,loss` | [`LossSchedule`](pathbench_link::LossSchedule) |
//! | delay | `second,delay_ms` | [`DelaySchedule`](pathbench_link::DelaySchedule) |
//!
//! Lines end in LF, CR LF or CR; blanks around a line, an UTF-8 byte order mark and empty lines at the end of the file do not
//! matter. The tables (those with commas) may have a header of just those names, comments (`#`) and empty lines.
//! All traces repeat from their end.
//!
//! Traces of loss go by time only: a packet-by-packet pattern (a 0 or 1 a packet) would meet other packets with every
//! transport, and so mean nothing here.

mod line;
mod opportunities;
mod table;

pub use opportunities::{cellreplay, mahimahi};
pub use table::{bytes_per_second, delay, loss};

use line::Lines;
use pathbench_link::RateModel;
#[cfg(doc)]
use pathbench_link::{OpportunitySchedule, TrainSchedule};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

pub const MAX_BYTES: usize = 128 << 20;
/// Most lines, or opportunities of all packet trains together: eighteen minutes of a gigabit in Mahimahi's format would
/// be 90 million, a minute is 5 million.
pub const MAX_VALUES: usize = 20_000_000;
/// Latest time in a trace: 31 days.
pub const MAX_SECONDS: u64 = 31 * 86_400;

/// Why a trace cannot be used. Says the line, what is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    #[error("there is nothing in it; each line is to be {expected}")]
    Empty { expected: &'static str },
    #[error("it has {bytes} bytes, and no more than {MAX_BYTES} are read; cut it, traces repeat anyway")]
    TooLarge { bytes: usize },
    #[error("line {line}: there are more than {MAX_VALUES} values up to here; cut it, traces repeat anyway")]
    TooLong { line: u64 },
    #[error("line {line}: `{found}` is not {expected}")]
    Malformed { line: u64, found: String, expected: &'static str },
    #[error("line {line}: {what} is {found}, and may be {range}")]
    OutOfRange { line: u64, what: &'static str, found: String, range: &'static str },
    #[error("line {line}: {found} comes after {before}; times must {rule} from line to line, so sort them")]
    Order { line: u64, found: String, before: String, rule: &'static str },
    #[error("line {line}: the last time is 0, so it could not repeat; it must last for some time")]
    NoTime { line: u64 },
    #[error(
        "line {line}: the first time is {found} s; times count from the trace's begin, so subtract the first one from all"
    )]
    BeginsLate { line: u64, found: String },
    #[error("line {line}: the columns are `{found}`; this trace has the columns `{expected}`")]
    Header { line: u64, found: String, expected: &'static str },
    #[error(
        "line {line}: `{found}` is of no known format; a line is one number (mahimahi), three or more with blanks between \
         them (cellreplay), or two with a comma (bytes-per-second)"
    )]
    Unknown { line: u64, found: String },
}

/// The formats of files that say how fast a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateFormat {
    /// Delivery opportunities; see [`mahimahi()`].
    Mahimahi,
    /// Packet trains; see [`cellreplay()`].
    CellReplay,
    /// A table; see [`bytes_per_second`].
    BytesPerSecond,
}

impl RateFormat {
    pub const ALL: [Self; 3] = [Self::Mahimahi, Self::CellReplay, Self::BytesPerSecond];

    /// As it is called in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mahimahi => "mahimahi",
            Self::CellReplay => "cellreplay",
            Self::BytesPerSecond => "bytes-per-second",
        }
    }

    /// The format of a file by its first line that is not empty or a comment: the three look different whatever the
    /// file is called.
    pub fn detect(bytes: &[u8]) -> Result<Self, TraceError> {
        let expected = "of the format mahimahi, cellreplay or bytes-per-second";
        let first = Lines::new(bytes)?.find(|line| !line.text.is_empty() && !line.is_comment());
        let first = first.ok_or(TraceError::Empty { expected })?;
        if first.text.contains(&b',') {
            return Ok(Self::BytesPerSecond);
        }
        let numbers = first.fields().all(|field| !field.is_empty() && field.iter().all(u8::is_ascii_digit));
        match (numbers, first.fields().count()) {
            (true, 1) => Ok(Self::Mahimahi),
            (true, 3..) => Ok(Self::CellReplay),
            _ => Err(TraceError::Unknown { line: first.number, found: line::shown(first.text) }),
        }
    }
}

impl fmt::Display for RateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a format of traces; there are mahimahi, cellreplay and bytes-per-second")]
pub struct UnknownRateFormat;

impl FromStr for RateFormat {
    type Err = UnknownRateFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or(UnknownRateFormat)
    }
}

/// Reads a trace of how fast a link is; what format it has is seen from its content where `format` does not say.
pub fn rate(bytes: &[u8], format: Option<RateFormat>) -> Result<RateModel, TraceError> {
    let format = format.map_or_else(|| RateFormat::detect(bytes), Ok)?;
    Ok(match format {
        RateFormat::Mahimahi => RateModel::Opportunities(Arc::new(mahimahi(bytes)?)),
        RateFormat::CellReplay => RateModel::Trains(Arc::new(cellreplay(bytes)?)),
        RateFormat::BytesPerSecond => RateModel::Steps(Arc::new(bytes_per_second(bytes)?)),
    })
}
