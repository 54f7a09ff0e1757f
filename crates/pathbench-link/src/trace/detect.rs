//! Detects the format of a trace from its content.

use super::error::TraceError;
use super::format::TraceFormat;
use super::header::Header;
use super::lines::{Line, Lines, number, shown};
use super::ping;
use super::unit::RateUnit;

/// The shapes of a file, by its first line that is neither empty nor a comment.
pub(super) enum Shape {
    Json,
    Ping,
    Header,
    Comma,
    SingleNumber,
    /// Two numbers with a blank between them.
    Pair,
    Train,
    Other,
}

pub(super) fn shape<'a>(bytes: &'a [u8], expected: &'static str) -> Result<(Shape, Line<'a>), TraceError> {
    let first = Lines::with_content(bytes)?.next().ok_or(TraceError::Empty { expected })?;
    let is_number = |field: &[u8]| number(field).is_some();
    let whole = first.fields().all(|field| field.iter().all(u8::is_ascii_digit));
    let shape = if ping::is_ping(first.text) {
        Shape::Ping
    } else if matches!(first.text.first(), Some(b'{' | b'[')) {
        Shape::Json
    } else if Header::read(bytes)?.is_some() {
        Shape::Header
    } else if first.text.contains(&b',') || first.text.contains(&b';') {
        Shape::Comma
    } else {
        match first.fields().count() {
            1 if is_number(first.text) => Shape::SingleNumber,
            2 if first.fields().all(is_number) => Shape::Pair,
            3.. if whole => Shape::Train,
            _ => Shape::Other,
        }
    };
    Ok((shape, first))
}

fn unknown(line: Line<'_>) -> TraceError {
    TraceError::Unknown { line: line.number, found: shown(line.text) }
}

/// The format of a rate trace, from its content; the file's name is not used.
pub fn detect_rate(bytes: &[u8], unit: Option<RateUnit>) -> Result<TraceFormat, TraceError> {
    let (shape, first) = shape(bytes, "of one of the formats of rate traces")?;
    Ok(match shape {
        Shape::Json => TraceFormat::AlphaRtc,
        Shape::Header => TraceFormat::Csv,
        Shape::Comma if unit.is_some() => TraceFormat::Csv,
        Shape::Comma => {
            let (line, found) = (first.number, shown(first.text));
            return Err(TraceError::NoRateUnit { line, found, units: RateUnit::choices() });
        }
        Shape::SingleNumber => TraceFormat::Mahimahi,
        Shape::Pair => TraceFormat::Pensieve,
        Shape::Train => TraceFormat::CellReplay,
        Shape::Ping => return Err(TraceFormat::Ping.lacks("rate")),
        Shape::Other => return Err(unknown(first)),
    })
}

/// The format of a trace of delays or losses; `None`: a table of two columns.
pub(super) fn detect_samples(bytes: &[u8]) -> Result<Option<TraceFormat>, TraceError> {
    let (shape, first) = shape(bytes, "of one of the formats of delay and loss traces")?;
    Ok(match shape {
        Shape::Json if is_irtt(bytes) => Some(TraceFormat::Irtt),
        Shape::Json => Some(TraceFormat::AlphaRtc),
        Shape::Ping => Some(TraceFormat::Ping),
        Shape::Header if Header::read(bytes)?.is_some_and(|header| header.is_lens()) => {
            Some(TraceFormat::Irtt)
        }
        // This program's own tables.
        Shape::Header if is_plain_table(first.text) => None,
        Shape::Header => Some(TraceFormat::Csv),
        Shape::SingleNumber => Some(TraceFormat::LeoReplayer),
        Shape::Comma | Shape::Pair | Shape::Train => None,
        Shape::Other => return Err(unknown(first)),
    })
}

fn is_plain_table(header: &[u8]) -> bool {
    let bare: Vec<u8> =
        header.iter().filter(|byte| !matches!(byte, b' ' | b'"')).map(u8::to_ascii_lowercase).collect();
    bare == b"second,delay_ms" || bare == b"second,loss"
}

/// IRTT's JSON has its round trips behind its configuration and statistics.
fn is_irtt(bytes: &[u8]) -> bool {
    const BEGIN: usize = 1 << 16;
    let begin = &bytes[..bytes.len().min(BEGIN)];
    let has = |key: &[u8]| begin.windows(key.len()).any(|window| window == key);
    has(b"\"round_trips\"") || has(b"\"system_info\"")
}
