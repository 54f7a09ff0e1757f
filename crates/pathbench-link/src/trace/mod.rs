//! Traces of real links: parses a file into schedules of rate, delay and loss, or reports an error with its line.
//!
//! | format | a line | has |
//! |---|---|---|
//! | mahimahi | `ms` | rate ([`OpportunitySchedule`](crate::OpportunitySchedule)) |
//! | cellreplay | `time_ms base_delay_ms opportunity_ms…` | rate and delay ([`TrainSchedule`](crate::TrainSchedule)) |
//! | bytes-per-second | `second,bytes_per_second` | rate |
//! | pensieve | `second Mbit/s` | rate |
//! | csv | columns by the names and units of a header | rate, delay, loss |
//! | alphartc | JSON | rate, delay, loss |
//! | leoreplayer | a delay in ms for each 10 ms | delay |
//! | irtt | IRTT's JSON, or LENS's table of it | delay, loss |
//! | ping | output of ping | delay, loss |
//!
//! Without a header, a table of two columns is `second,loss` or `second,delay_ms` where a loss or delay is expected. A rate
//! without a unit is an error: nothing distinguishes Mbit/s from bytes per second.
//!
//! Lines end in LF, CR LF or CR. The parser ignores blanks around a line, a UTF-8 byte order mark, and empty lines at
//! the end of the file. Tables may have comments (`#`) and empty lines. All traces repeat after their end.
//!
//! A loss trace is a function of time only: a pattern per packet (a 0 or 1 for each) would drop different packets with
//! each transport.

mod csv;
mod error;
mod import;
mod json;
mod lines;
mod opportunities;
mod ping;
mod samples;
mod steps;
mod summary;
mod table;
mod unit;
mod wall_clock;

pub use error::TraceError;
pub use import::{TraceContent, delay_table, import, loss_table, rate_table};
pub use opportunities::{cellreplay, mahimahi};
pub use summary::TraceSummary;
pub use table::bytes_per_second;
pub use unit::{RateUnit, TimeUnit};

use crate::{DelaySchedule, LossSchedule, RateModel};
use lines::{Line, Lines, check_size, shown};
use pathbench_record::direction::Direction;
use std::sync::Arc;
use std::time::Duration;

pub const MAX_BYTES: usize = 128 << 20;
/// Maximum number of lines, or of opportunities in all packet trains. In Mahimahi's format, 1 min at 1 Gbit/s takes
/// 5 million lines, and 18 min take 90 million.
pub const MAX_VALUES: usize = 20_000_000;
/// Latest time in a trace: 31 days.
pub const MAX_SECONDS: u64 = 31 * 86_400;

/// File formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// Delivery opportunities; see [`mahimahi()`].
    Mahimahi,
    /// Packet trains; see [`cellreplay()`].
    CellReplay,
    /// A table; see [`bytes_per_second`].
    BytesPerSecond,
    /// Pensieve's "cooked" traces.
    Pensieve,
    /// A table with a header.
    Csv,
    /// JSON of `AlphaRTC`'s gym.
    AlphaRtc,
    /// Delays of `LeoReplayer` and `LeoCC`.
    LeoReplayer,
    Irtt,
    Ping,
}

impl TraceFormat {
    pub const ALL: [Self; 9] = [
        Self::Mahimahi,
        Self::CellReplay,
        Self::BytesPerSecond,
        Self::Pensieve,
        Self::Csv,
        Self::AlphaRtc,
        Self::LeoReplayer,
        Self::Irtt,
        Self::Ping,
    ];

    /// The name of the format in scenarios and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mahimahi => "mahimahi",
            Self::CellReplay => "cellreplay",
            Self::BytesPerSecond => "bytes-per-second",
            Self::Pensieve => "pensieve",
            Self::Csv => "csv",
            Self::AlphaRtc => "alphartc",
            Self::LeoReplayer => "leoreplayer",
            Self::Irtt => "irtt",
            Self::Ping => "ping",
        }
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The quantities that a file of the format can contain, as in messages.
    const fn quantities(self) -> &'static str {
        match self {
            Self::Mahimahi | Self::BytesPerSecond | Self::Pensieve => "a rate",
            Self::CellReplay => "a rate with its delay",
            Self::Csv => "the quantities of its columns",
            Self::AlphaRtc => "the quantities of its patterns",
            Self::LeoReplayer => "a delay",
            Self::Irtt | Self::Ping => "a delay and a loss",
        }
    }

    fn lacks(self, what: &'static str) -> TraceError {
        TraceError::Lacks { format: self.name(), what, has: self.quantities() }
    }
}

/// The user's statements about a file; without them, the content decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceOptions {
    pub format: Option<TraceFormat>,
    /// Unit of the rate.
    pub unit: Option<RateUnit>,
    /// Unit of the delay, in a column without one.
    pub delay_unit: Option<TimeUnit>,
    /// Names of the columns of values; empty: those whose names fit.
    pub columns: Vec<String>,
    /// Direction, in a file that has both.
    pub direction: Option<Direction>,
}

/// The shapes of a file, by its first line that is neither empty nor a comment.
enum Shape {
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

fn shape<'a>(bytes: &'a [u8], expected: &'static str) -> Result<(Shape, Line<'a>), TraceError> {
    let first = Lines::with_content(bytes)?.next().ok_or(TraceError::Empty { expected })?;
    let is_number = |field: &[u8]| lines::number(field).is_some();
    let whole = first.fields().all(|field| field.iter().all(u8::is_ascii_digit));
    let shape = if ping::is_ping(first.text) {
        Shape::Ping
    } else if matches!(first.text.first(), Some(b'{' | b'[')) {
        Shape::Json
    } else if csv::Header::read(bytes)?.is_some() {
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
fn detect_samples(bytes: &[u8]) -> Result<Option<TraceFormat>, TraceError> {
    let (shape, first) = shape(bytes, "of one of the formats of delay and loss traces")?;
    Ok(match shape {
        Shape::Json if is_irtt(bytes) => Some(TraceFormat::Irtt),
        Shape::Json => Some(TraceFormat::AlphaRtc),
        Shape::Ping => Some(TraceFormat::Ping),
        Shape::Header if csv::Header::read(bytes)?.is_some_and(|header| header.is_lens()) => {
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

/// Reads a rate trace; without a format, detects it from the content.
///
/// ```rust
/// use pathbench_link::trace::{TraceOptions, rate};
///
/// // Two opportunities of 1500 bytes within 2 ms.
/// let model = rate(b"1\n2\n", &TraceOptions::default())?;
/// assert_eq!(model.mean_rate_bps(), Some(12_000_000));
/// assert!(rate(b"2\n1\n", &TraceOptions::default()).unwrap_err().to_string().starts_with("line 2"));
/// # Ok::<(), pathbench_link::trace::TraceError>(())
/// ```
pub fn rate(bytes: &[u8], options: &TraceOptions) -> Result<RateModel, TraceError> {
    let format = options.format.map_or_else(|| detect_rate(bytes, options.unit), Ok)?;
    let steps = match format {
        TraceFormat::Mahimahi => return Ok(RateModel::Opportunities(Arc::new(mahimahi(bytes)?))),
        TraceFormat::CellReplay => return Ok(RateModel::Trains(Arc::new(cellreplay(bytes)?))),
        TraceFormat::BytesPerSecond => bytes_per_second(bytes)?,
        TraceFormat::Pensieve => csv::pensieve(bytes, options)?,
        TraceFormat::Csv => csv::rate(bytes, options)?,
        TraceFormat::AlphaRtc => {
            json::alphartc(bytes, options.direction)?.rate.ok_or_else(|| format.lacks("capacity"))?
        }
        TraceFormat::LeoReplayer | TraceFormat::Irtt | TraceFormat::Ping => return Err(format.lacks("rate")),
    };
    Ok(RateModel::Steps(Arc::new(steps)))
}

/// Reads a trace of the delays of one direction; round trips become their half.
pub fn delay(bytes: &[u8], options: &TraceOptions) -> Result<DelaySchedule, TraceError> {
    let Some(format) = options.format.map_or_else(|| detect_samples(bytes), |format| Ok(Some(format)))?
    else {
        return table::delay(bytes);
    };
    if format == TraceFormat::AlphaRtc {
        return json::alphartc(bytes, options.direction)?.delay.ok_or_else(|| format.lacks("rtt"));
    }
    if format == TraceFormat::LeoReplayer {
        return leoreplayer(bytes);
    }
    let (samples, trip) = samples_of(bytes, format, options, "delay")?;
    samples::delays(&samples, trip).ok_or_else(|| format.lacks("answered probe"))
}

/// Reads a trace of the loss of one direction.
pub fn loss(bytes: &[u8], options: &TraceOptions) -> Result<LossSchedule, TraceError> {
    let Some(format) = options.format.map_or_else(|| detect_samples(bytes), |format| Ok(Some(format)))?
    else {
        return table::loss(bytes);
    };
    match format {
        TraceFormat::AlphaRtc => {
            json::alphartc(bytes, options.direction)?.loss.ok_or_else(|| format.lacks("loss"))
        }
        TraceFormat::Csv => csv::loss(bytes, options),
        _ => {
            let (samples, trip) = samples_of(bytes, format, options, "loss")?;
            samples::losses(&samples, trip, options.direction).ok_or_else(|| format.lacks("probe"))
        }
    }
}

fn samples_of(
    bytes: &[u8],
    format: TraceFormat,
    options: &TraceOptions,
    what: &'static str,
) -> Result<(Vec<samples::Sample>, samples::Trip), TraceError> {
    match format {
        TraceFormat::Csv => csv::delays(bytes, options),
        TraceFormat::Irtt if matches!(shape(bytes, "")?.0, Shape::Json) => {
            Ok((json::irtt(bytes)?, samples::Trip::Round))
        }
        TraceFormat::Irtt => Ok((csv::lens(bytes)?, samples::Trip::Round)),
        TraceFormat::Ping => Ok((ping::ping(bytes)?.0, samples::Trip::Round)),
        _ => Err(format.lacks(what)),
    }
}

/// The time for which a line of `LeoReplayer` applies.
const LEO_INTERVAL: Duration = Duration::from_millis(10);

/// Reads the delays of `LeoReplayer` (SpaceNetLab/LeoCC, `replayer/src/frontend/delay_queue.cc`): each line is a one-way
/// delay in ms for 10 ms; no comments, no empty lines.
fn leoreplayer(bytes: &[u8]) -> Result<DelaySchedule, TraceError> {
    const LINE: &str = "a delay in milliseconds, and nothing else (leoreplayer)";
    check_size(bytes)?;
    let mut delays = Vec::new();
    for line in Lines::trim(bytes)? {
        let delay_ms = lines::number(line.text).ok_or_else(|| line.malformed(line.text, LINE))?;
        if !(0.0..=csv::LONGEST_DELAY.as_secs_f64() * 1e3).contains(&delay_ms) {
            let found = format!("{} ms", shown(line.text));
            let (line, what) = (line.number, "the delay");
            return Err(TraceError::OutOfRange { line, what, found, range: csv::DELAY_RANGE });
        }
        if delays.len() == MAX_VALUES {
            return Err(TraceError::TooLong { line: line.number });
        }
        delays.push((LEO_INTERVAL, Duration::from_secs_f64(delay_ms / 1e3)));
    }
    steps::from_durations(delays).ok_or(TraceError::Empty { expected: LINE })
}
