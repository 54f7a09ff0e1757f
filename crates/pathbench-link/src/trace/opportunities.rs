//! Traces of delivery opportunities: Mahimahi's and `CellReplay`'s.

use super::error::TraceError;
use super::limits::{MAX_SECONDS, MAX_VALUES};
use super::lines::{Line, Lines, shown};
use crate::{OpportunitySchedule, Train, TrainSchedule};
use std::time::Duration;

const NOT_DECREASE: &str = "not decrease from line to line, so sort them";
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
            return Err(TraceError::Order { line: number, found, before, rule: NOT_DECREASE });
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
            return Err(TraceError::Order { line: number, found, before, rule: NOT_DECREASE });
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
