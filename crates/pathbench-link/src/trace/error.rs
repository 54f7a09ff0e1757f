//! Why a trace is invalid.

use super::limits::{MAX_BYTES, MAX_VALUES};
use thiserror::Error;

/// Why a trace is invalid, with the line, the error and the valid form or the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    #[error("the file is empty; each line must be {expected}")]
    Empty { expected: &'static str },
    #[error("the file has {bytes} bytes, more than the limit of {MAX_BYTES}; shorten it: traces repeat")]
    TooLarge { bytes: usize },
    #[error("the file is compressed (gzip); decompress it first: gunzip FILE")]
    Compressed,
    #[error(
        "line {line}: there are more than {MAX_VALUES} values up to here; shorten the file: traces repeat"
    )]
    TooLong { line: u64 },
    #[error("line {line}: `{found}` is not {expected}")]
    Malformed { line: u64, found: String, expected: &'static str },
    #[error("line {line}: {what} is {found}, but must be {range}")]
    OutOfRange { line: u64, what: &'static str, found: String, range: &'static str },
    #[error("line {line}: {found} comes after {before}; times must {rule}")]
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
        "line {line}: `{found}` is of no known format; a line is one number (mahimahi), three or more whole numbers with \
         blanks between them (cellreplay), two with a blank (pensieve), a table with a header (csv) or ping's output; JSON is \
         alphartc or irtt"
    )]
    Unknown { line: u64, found: String },
    #[error(
        "line {line}: `{found}` has no unit: it may be Mbit/s or bytes per second; give the unit (rate_trace_unit in a \
         scenario, --unit of `pathbench lab import-trace`): {units}"
    )]
    NoRateUnit { line: u64, found: String, units: String },
    #[error(
        "line {line}: the column `{found}` has no unit of time; give it: --delay-unit ms, us, ns or s of \
         `pathbench lab import-trace`, or rename the column, as in {found}_ms"
    )]
    NoTimeUnit { line: u64, found: String },
    #[error(
        "line {line}: the column `{found}` is in {own}, but the unit given is {given}; leave one of the two out"
    )]
    UnitConflict { line: u64, found: String, own: &'static str, given: &'static str },
    #[error(
        "line {line}: {found} Mbit/s is more than {most}, which is much for a pensieve trace; give the unit (rate_trace_unit, \
         --unit): {units}"
    )]
    Implausible { line: u64, found: String, most: u32, units: String },
    #[error(
        "line {line}: none of the columns `{found}` is {what}; name one of them {example}, or give --column NAME of `pathbench lab import-trace`"
    )]
    NoColumn { line: u64, found: String, what: &'static str, example: &'static str },
    #[error("line {line}: none of the columns `{found}` is a time; name one of them time_s or timestamp")]
    NoTimeColumn { line: u64, found: String },
    #[error(
        "line {line}: the columns {found} can each be {what}; choose one: --column NAME of `pathbench lab import-trace`"
    )]
    SeveralColumns { line: u64, found: String, what: &'static str },
    #[error(
        "line {line}: the time zone changes from {before} to {found}; write all times in one zone, such as UTC"
    )]
    ZoneChanges { line: u64, before: String, found: String },
    #[error("line {line}: {problem}; {remedy}")]
    Json { line: u64, problem: String, remedy: &'static str },
    #[error(
        "both directions have a trace; choose one: --direction upload or download of `pathbench lab import-trace`"
    )]
    SeveralDirections,
    #[error(
        "line {line}: single numbers are delivery opportunities (mahimahi) or delays (leoreplayer); give --format"
    )]
    SingleNumbers { line: u64 },
    #[error(
        "no line is an answer of ping; if ping printed another language than English, repeat it with LC_ALL=C"
    )]
    NoAnswer,
    #[error("line {line}: another ping begins here; give each its own file")]
    SeveralPings { line: u64 },
    #[error("the format {format} has no {what}; it has {has}")]
    Lacks { format: &'static str, what: &'static str, has: &'static str },
}
