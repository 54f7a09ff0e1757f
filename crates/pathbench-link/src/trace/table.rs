//! Tables of a time and a value with fixed columns: `second,bytes_per_second`, `second,loss` and `second,delay_ms`.

use super::error::TraceError;
use super::limits::MAX_SECONDS;
use super::lines::{Line, Lines, number, shown};
use super::steps::{LATEST_BEGIN, StepBuilder};
use crate::{DelaySchedule, LossSchedule, RateSchedule, Steps};
use std::time::Duration;

const MAX_BYTES_PER_SECOND: f64 = 125e9;

/// A table of a time and a value.
///
/// Each line has two numbers separated by a comma, with optional fractions. An optional header has the two column
/// names. Empty lines and lines that begin with `#` are ignored. Times are increasing seconds since the trace's start.
/// A value applies until the time of the next line. The first value applies from zero; the last one has the duration
/// of the previous one, and then the trace repeats. The value of a trace with one line applies forever.
struct Table<V> {
    columns: &'static str,
    expected: &'static str,
    /// Name and range of the second column in messages.
    what: &'static str,
    range: &'static str,
    value: fn(f64) -> Option<V>,
    percent: bool,
}

/// Reads a `second,bytes_per_second` trace. Rates are rounded to whole bits per second; 0 is an outage.
pub fn bytes_per_second(bytes: &[u8]) -> Result<RateSchedule, TraceError> {
    read(
        bytes,
        &Table {
            columns: "second,bytes_per_second",
            expected: "`second,bytes_per_second`, two numbers with a comma between them",
            what: "the rate",
            range: "0 to 125000000000 bytes per second",
            value: |value| {
                (0.0..=MAX_BYTES_PER_SECOND).contains(&value).then(|| (value * 8.0).round() as u64)
            },
            percent: false,
        },
    )
}

/// Reads a `second,loss` trace: probabilities from 0 to 1, or percentages with their sign (`2.5%`).
pub(super) fn loss(bytes: &[u8]) -> Result<LossSchedule, TraceError> {
    read(
        bytes,
        &Table {
            columns: "second,loss",
            expected: "`second,loss`, two numbers with a comma between them (loss 0 to 1, or with % behind it)",
            what: "the loss",
            range: "0 to 1 (or 0% to 100%)",
            value: |value| (0.0..=1.0).contains(&value).then_some(value),
            percent: true,
        },
    )
}

/// Reads a `second,delay_ms` trace of one-way delays.
pub(super) fn delay(bytes: &[u8]) -> Result<DelaySchedule, TraceError> {
    read(
        bytes,
        &Table {
            columns: "second,delay_ms",
            expected: "`second,delay_ms`, two numbers with a comma between them",
            what: "the delay",
            range: "0 to 60000 ms",
            value: |value| {
                (0.0..=60_000.0).contains(&value).then(|| Duration::from_nanos((value * 1e6).round() as u64))
            },
            percent: false,
        },
    )
}

fn read<V>(bytes: &[u8], table: &Table<V>) -> Result<Steps<V>, TraceError> {
    let mut steps = StepBuilder::new();
    let mut is_first = true;
    let mut header_allowed = true;
    for line in Lines::with_content(bytes)? {
        if std::mem::take(&mut header_allowed) && is_header(line, table.columns)? {
            continue;
        }
        let (at, value) = row(line, table)?;
        if std::mem::take(&mut is_first) && at > LATEST_BEGIN {
            let found = at.as_secs_f64().to_string();
            return Err(TraceError::BeginsLate { line: line.number, found });
        }
        steps.push(&line, at, value)?;
    }
    steps.finish().ok_or(TraceError::Empty { expected: table.expected })
}

/// Whether the line is the header. Other column names are an error.
fn is_header(line: Line<'_>, columns: &'static str) -> Result<bool, TraceError> {
    if !line.text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'_')) {
        return Ok(false);
    }
    let bare =
        line.text.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'"')).map(u8::to_ascii_lowercase);
    if bare.eq(columns.bytes()) {
        return Ok(true);
    }
    Err(TraceError::Header { line: line.number, found: shown(line.text), expected: columns })
}

fn row<V>(line: Line<'_>, table: &Table<V>) -> Result<(Duration, V), TraceError> {
    let malformed =
        || TraceError::Malformed { line: line.number, found: shown(line.text), expected: table.expected };
    let mut columns = line.text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let (Some(time), Some(value), None) = (columns.next(), columns.next(), columns.next()) else {
        return Err(malformed());
    };
    let seconds = number(time).ok_or_else(malformed)?;
    let (digits, scale) = match value.strip_suffix(b"%") {
        Some(digits) if table.percent => (digits.trim_ascii_end(), 100.0),
        _ => (value, 1.0),
    };
    let number = number(digits).ok_or_else(malformed)?;
    let out_of_range =
        |what, found, range| TraceError::OutOfRange { line: line.number, what, found: shown(found), range };
    if !(0.0..=MAX_SECONDS as f64).contains(&seconds) {
        return Err(out_of_range("the time", time, "0 to 2678400 seconds (31 days)"));
    }
    let value = (table.value)(number / scale).ok_or_else(|| out_of_range(table.what, value, table.range))?;
    Ok((Duration::from_nanos((seconds * 1e9).round() as u64), value))
}
