//! Tables of a time and a value: rate, loss, delay.
//!
//! Two numbers a line with a comma between them, both with fractions where wanted. A header, if there is one, names just the two columns.
//! Lines of nothing and lines that begin with `#` say nothing. Times are seconds from the trace's begin, increasing; a
//! value holds from its time to the next line's, the first one from zero on, the last one for as long as the one before it: then the
//! trace repeats. A trace of one line holds for ever.

use super::line::{Line, Lines, shown};
use super::{MAX_SECONDS, MAX_VALUES, TraceError};
use pathbench_link::{DelaySchedule, End, LossSchedule, RateSchedule, Steps};
use std::time::Duration;

/// Times that begin later than this are of some clock, not of the trace.
const LATEST_BEGIN: Duration = Duration::from_secs(3_600);
const MAX_BYTES_PER_SECOND: f64 = 125e9;

struct Table<V> {
    columns: &'static str,
    expected: &'static str,
    /// What the second column is called in messages, and what it may be.
    what: &'static str,
    range: &'static str,
    value: fn(f64) -> Option<V>,
    percent: bool,
}

/// Reads a `second,bytes_per_second` trace. Rates are rounded to whole bits per second; 0 is no service.
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
pub fn loss(bytes: &[u8]) -> Result<LossSchedule, TraceError> {
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
pub fn delay(bytes: &[u8]) -> Result<DelaySchedule, TraceError> {
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
    let mut steps: Vec<(Duration, V)> = Vec::new();
    let mut last: Option<Duration> = None;
    let mut interval = Duration::ZERO;
    let mut header_allowed = true;
    for line in Lines::new(bytes)?.filter(|line| !line.text.is_empty() && !line.is_comment()) {
        if std::mem::take(&mut header_allowed) && is_header(line, table.columns)? {
            continue;
        }
        let (at, value) = row(line, table)?;
        match last {
            None if at > LATEST_BEGIN => {
                let found = at.as_secs_f64().to_string();
                return Err(TraceError::BeginsLate { line: line.number, found });
            }
            None => steps.push((Duration::ZERO, value)),
            Some(before) if at <= before => {
                let (found, before) =
                    (format!("{} s", at.as_secs_f64()), format!("{} s", before.as_secs_f64()));
                return Err(TraceError::Order { line: line.number, found, before, rule: "increase" });
            }
            Some(_) if steps.len() == MAX_VALUES => return Err(TraceError::TooLong { line: line.number }),
            Some(before) => {
                interval = at.saturating_sub(before);
                steps.push((at, value));
            }
        }
        last = Some(at);
    }
    let last = last.ok_or(TraceError::Empty { expected: table.expected })?;
    let end = if interval.is_zero() { End::Hold } else { End::Repeat(last + interval) };
    Ok(Steps { steps, end })
}

/// Whether the line is the header. One that has words in it but not the right ones is a mistake.
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

fn number(text: &[u8]) -> Option<f64> {
    let decimal = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    if text.len() > 40 || !text.iter().all(decimal) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
}
