//! `CellReplay`'s traces of packet trains.
//!
//! Source: Sentosa et al., "`CellReplay`: Towards accurate record-and-replay for cellular networks", NSDI 2025, and its
//! repository (williamsentosa95/cellreplay: `src/frontend/cellular_queue.cc` reads them,
//! `record/trace-processor/generate_short_pdo_trace.py` writes them). Of a recording's two files a direction this is the one of light load,
//! `…-delay-light-pdo`. (The one of heavy load, `…-heavy-pdo`, is a Mahimahi trace and is read as such.)
//!
//! A line is a train of packets that was sent over the idle network, whole numbers with blanks between them:
//!
//! ```text
//! time_ms  base_delay_ms  opportunity_ms …
//! ```
//!
//! when the train began, counted from the recording's begin (not decreasing); the one-way delay of its first packet
//! (half the measured round trip); and when each of its packets arrived, counted from the arrival of the first, which
//! is therefore 0. Packets of a recording may have overtaken each other, so opportunities are put in order. There
//! are no comments, and the file repeats when its last line's time is reached.
//!
//! `CellReplay` itself wants three lines at least, interpolates the base delay between two lines, and begins a new train when
//! nothing has been queued for a while; packets beyond a train's last opportunity go to the trace of heavy load.

use super::line::{Line, Lines};
use super::{MAX_SECONDS, MAX_VALUES, TraceError};
use pathbench_link::{Train, TrainSchedule};
use std::time::Duration;

const EXPECTED: &str = "`time_ms base_delay_ms opportunity_ms…`, three whole numbers or more (cellreplay)";
const NUMBER: &str = "a whole number of milliseconds";
/// One minute: neither a delay nor a train is longer.
const MAX_DELAY_MS: u64 = 60_000;

/// Reads `CellReplay`'s trace of packet trains.
///
/// # Errors
/// See [`TraceError`]: lines with less than three whole numbers, times that go back, a trace that takes no time.
pub fn cellreplay(bytes: &[u8]) -> Result<TrainSchedule, TraceError> {
    let mut trains: Vec<Train> = Vec::new();
    let mut values = 0;
    let mut number = 0;
    for line in Lines::trimmed(bytes)? {
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
        None => Err(TraceError::Empty { expected: EXPECTED }),
        Some(last) if last.at.is_zero() && trains.len() > 1 => Err(TraceError::NoTime { line: number }),
        Some(_) => Ok(TrainSchedule { trains }),
    }
}

fn train(line: Line<'_>) -> Result<Train, TraceError> {
    let mut fields = line.fields();
    let (Some(at), Some(delay)) = (fields.next(), fields.next()) else {
        let found = super::line::shown(line.text);
        return Err(TraceError::Malformed { line: line.number, found, expected: EXPECTED });
    };
    let at = bounded(line, at, "the time", MAX_SECONDS * 1_000, "31 days at most")?;
    let base_delay = bounded(line, delay, "the base delay", MAX_DELAY_MS, "a minute at most")?;
    let mut opportunities = fields
        .map(|field| bounded(line, field, "an opportunity", MAX_DELAY_MS, "a minute at most"))
        .collect::<Result<Vec<_>, _>>()?;
    if opportunities.is_empty() {
        let found = super::line::shown(line.text);
        return Err(TraceError::Malformed { line: line.number, found, expected: EXPECTED });
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
