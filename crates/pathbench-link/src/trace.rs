//! Traces of real links: parses a file into a schedule, or reports an error with its line.
//!
//! | format | a line | becomes |
//! |---|---|---|
//! | Mahimahi | `ms` | [`OpportunitySchedule`] |
//! | `CellReplay` | `time_ms base_delay_ms opportunity_ms…` | [`TrainSchedule`] |
//! | bytes per second | `second,bytes_per_second` | [`RateSchedule`] |
//! | loss | `second,loss` | [`LossSchedule`] |
//! | delay | `second,delay_ms` | [`DelaySchedule`] |
//!
//! Lines end in LF, CR LF or CR. The parser ignores blanks around a line, a UTF-8 byte order mark, and empty lines at
//! the end of the file. Tables (formats with commas) may have a header of exactly these names, comments (`#`) and empty
//! lines. All traces repeat after their end.
//!
//! A loss trace is a function of time only: a pattern per packet (a 0 or 1 for each) would drop different packets with
//! each transport.

use crate::{
    DelaySchedule, LossSchedule, OpportunitySchedule, RateModel, RateSchedule, ScheduleEnd, Steps, Train,
    TrainSchedule,
};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

pub const MAX_BYTES: usize = 128 << 20;
/// Maximum number of lines, or of opportunities in all packet trains. In Mahimahi's format, 1 min at 1 Gbit/s takes
/// 5 million lines, and 18 min take 90 million.
pub const MAX_VALUES: usize = 20_000_000;
/// Latest time in a trace: 31 days.
pub const MAX_SECONDS: u64 = 31 * 86_400;

/// Why a trace is invalid, with the line, the error and the valid form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    #[error("the file is empty; each line must be {expected}")]
    Empty { expected: &'static str },
    #[error("the file has {bytes} bytes, more than the limit of {MAX_BYTES}; shorten it: traces repeat")]
    TooLarge { bytes: usize },
    #[error(
        "line {line}: there are more than {MAX_VALUES} values up to here; shorten the file: traces repeat"
    )]
    TooLong { line: u64 },
    #[error("line {line}: `{found}` is not {expected}")]
    Malformed { line: u64, found: String, expected: &'static str },
    #[error("line {line}: {what} is {found}, but must be {range}")]
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

/// File formats of rate traces.
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

    /// The name of the format in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mahimahi => "mahimahi",
            Self::CellReplay => "cellreplay",
            Self::BytesPerSecond => "bytes-per-second",
        }
    }

    /// Detects the format from the first line that is neither empty nor a comment; the file's name is not used.
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
            _ => Err(TraceError::Unknown { line: first.number, found: shown(first.text) }),
        }
    }
}

/// Reads a rate trace; without `format`, detects the format from the content.
///
/// ```rust
/// use pathbench_link::trace::rate;
///
/// // Two opportunities of 1500 bytes within 2 ms.
/// let model = rate(b"1\n2\n", None)?;
/// assert_eq!(model.mean_rate_bps(), Some(12_000_000));
/// assert!(rate(b"2\n1\n", None).unwrap_err().to_string().starts_with("line 2"));
/// # Ok::<(), pathbench_link::trace::TraceError>(())
/// ```
pub fn rate(bytes: &[u8], format: Option<RateFormat>) -> Result<RateModel, TraceError> {
    let format = format.map_or_else(|| RateFormat::detect(bytes), Ok)?;
    Ok(match format {
        RateFormat::Mahimahi => RateModel::Opportunities(Arc::new(mahimahi(bytes)?)),
        RateFormat::CellReplay => RateModel::Trains(Arc::new(cellreplay(bytes)?)),
        RateFormat::BytesPerSecond => RateModel::Steps(Arc::new(bytes_per_second(bytes)?)),
    })
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    /// From 1.
    number: u64,
    text: &'a [u8],
}

impl<'a> Line<'a> {
    fn is_comment(&self) -> bool {
        self.text.first() == Some(&b'#')
    }

    fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        self.text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
    }

    /// A number without sign or fraction; up to 18 digits, so that arithmetic does not overflow.
    fn whole(&self, field: &[u8], expected: &'static str) -> Result<u64, TraceError> {
        if field.is_empty() || field.len() > 18 || !field.iter().all(u8::is_ascii_digit) {
            return Err(TraceError::Malformed { line: self.number, found: shown(field), expected });
        }
        Ok(field.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
    }
}

#[derive(Debug)]
struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, TraceError> {
        if bytes.len() > MAX_BYTES {
            return Err(TraceError::TooLarge { bytes: bytes.len() });
        }
        Ok(Self { rest: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes), number: 0 })
    }

    fn trim(bytes: &'a [u8]) -> Result<Self, TraceError> {
        Self::new(bytes).map(|lines| Self { rest: lines.rest.trim_ascii_end(), ..lines })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let end = self.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = match rest {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => rest,
        };
        Some(Line { number: self.number, text: text.trim_ascii() })
    }
}

fn shown(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    let cut = &text[..text.len().min(LONGEST)];
    let ellipsis = if text.len() > LONGEST { "…" } else { "" };
    format!("{}{ellipsis}", cut.escape_ascii())
}

const MAHIMAHI_LINE: &str = "a whole number of milliseconds, and nothing else (mahimahi)";

/// Reads a Mahimahi trace (mm-link(1); Netravali et al., USENIX ATC 2015): one integer in milliseconds per line, not
/// decreasing, the last one above zero; no comments, no empty lines. Each line is an opportunity for 1500 bytes; the
/// trace repeats after its last time.
pub fn mahimahi(bytes: &[u8]) -> Result<OpportunitySchedule, TraceError> {
    let mut at_ms: Vec<u64> = Vec::new();
    let mut number = 0;
    for line in Lines::trim(bytes)? {
        number = line.number;
        let now = line.whole(line.text, MAHIMAHI_LINE)?;
        if let Some(&before) = at_ms.last()
            && now < before
        {
            let (found, before) = (format!("{now} ms"), format!("{before} ms"));
            return Err(TraceError::Order { line: number, found, before, rule: "not decrease" });
        }
        if now > MAX_SECONDS * 1_000 {
            let found = format!("{now} ms");
            return Err(TraceError::OutOfRange {
                line: number,
                what: "the time",
                found,
                range: "31 days at most",
            });
        }
        if at_ms.len() == MAX_VALUES {
            return Err(TraceError::TooLong { line: number });
        }
        at_ms.push(now);
    }
    match at_ms.last() {
        None => Err(TraceError::Empty { expected: MAHIMAHI_LINE }),
        Some(0) => Err(TraceError::NoTime { line: number }),
        Some(_) => Ok(OpportunitySchedule { at_ms }),
    }
}

const TRAIN_LINE: &str = "`time_ms base_delay_ms opportunity_ms…`, three whole numbers or more (cellreplay)";
const NUMBER: &str = "a whole number of milliseconds";
const MAX_DELAY_MS: u64 = 60_000;

/// Reads `CellReplay`'s trace of packet trains (Sentosa et al., NSDI 2025; `src/frontend/cellular_queue.cc` of
/// williamsentosa95/cellreplay). A recording has two files per direction: light load (`…-delay-light-pdo`), which this
/// function reads, and heavy load, which is a Mahimahi trace.
///
/// A line is a train of packets sent over the idle network, `time_ms base_delay_ms opportunity_ms …`: the start of the
/// train (not decreasing), the one-way delay of its first packet, and the arrival of each of its packets after the
/// first. A recording may contain reordered packets, so this function sorts the opportunities. There are no comments.
/// The trace repeats after the time of its last line.
pub fn cellreplay(bytes: &[u8]) -> Result<TrainSchedule, TraceError> {
    let mut trains: Vec<Train> = Vec::new();
    let mut values = 0;
    let mut number = 0;
    for line in Lines::trim(bytes)? {
        number = line.number;
        let train = train(line)?;
        values += train.opportunities.len();
        if values > MAX_VALUES {
            return Err(TraceError::TooLong { line: number });
        }
        if let Some(before) = trains.last()
            && train.at < before.at
        {
            let (found, before) =
                (format!("{} ms", train.at.as_millis()), format!("{} ms", before.at.as_millis()));
            return Err(TraceError::Order { line: number, found, before, rule: "not decrease" });
        }
        trains.push(train);
    }
    match trains.last() {
        None => Err(TraceError::Empty { expected: TRAIN_LINE }),
        Some(last) if last.at.is_zero() && trains.len() > 1 => Err(TraceError::NoTime { line: number }),
        Some(_) => Ok(TrainSchedule { trains }),
    }
}

fn train(line: Line<'_>) -> Result<Train, TraceError> {
    let mut fields = line.fields();
    let (Some(at), Some(delay)) = (fields.next(), fields.next()) else {
        let found = shown(line.text);
        return Err(TraceError::Malformed { line: line.number, found, expected: TRAIN_LINE });
    };
    let at = bounded(line, at, "the time", MAX_SECONDS * 1_000, "31 days at most")?;
    let base_delay = bounded(line, delay, "the base delay", MAX_DELAY_MS, "a minute at most")?;
    let mut opportunities = fields
        .map(|field| bounded(line, field, "an opportunity", MAX_DELAY_MS, "a minute at most"))
        .collect::<Result<Vec<_>, _>>()?;
    if opportunities.is_empty() {
        let found = shown(line.text);
        return Err(TraceError::Malformed { line: line.number, found, expected: TRAIN_LINE });
    }
    opportunities.sort_unstable();
    Ok(Train { at, base_delay, opportunities })
}

fn bounded(
    line: Line<'_>,
    field: &[u8],
    what: &'static str,
    most_ms: u64,
    range: &'static str,
) -> Result<Duration, TraceError> {
    let value = line.whole(field, NUMBER)?;
    if value > most_ms {
        return Err(TraceError::OutOfRange { line: line.number, what, found: format!("{value} ms"), range });
    }
    Ok(Duration::from_millis(value))
}

/// A trace that begins later than this contains clock times, not times since its start.
const LATEST_BEGIN: Duration = Duration::from_secs(3_600);
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
    let end = if interval.is_zero() { ScheduleEnd::Hold } else { ScheduleEnd::Repeat(last + interval) };
    Ok(Steps { steps, end })
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

fn number(text: &[u8]) -> Option<f64> {
    let decimal = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    if text.len() > 40 || !text.iter().all(decimal) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, &[u8])> {
        Lines::new(bytes).unwrap().map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn any_line_end_counts_as_one() {
        for text in ["1\n2\n\n3\n", "1\r\n2\r\n\r\n3\r\n", "1\r2\r\r3", "\u{feff}1\r\n 2\t\n\r3"] {
            assert_eq!(lines(text.as_bytes()), [(1, &b"1"[..]), (2, b"2"), (3, b""), (4, b"3")], "{text:?}");
        }
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn quoted_input_is_short_and_escaped() {
        assert_eq!(shown(b"\x1b[31m"), "\\x1b[31m");
        assert_eq!(shown(&[b'x'; 100]).chars().count(), 41);
    }
}
