//! Mahimahi's traces of delivery opportunities.
//!
//! Source: mm-link(1) and `src/frontend/link_queue.cc` of mahimahi (Netravali et al., USENIX ATC 2015): one whole number
//! of milliseconds a line, not decreasing, the last above zero; no comments, no empty lines. Each line is an
//! opportunity for 1500 bytes; the file repeats when its last time is reached, which is its length.

use super::line::Lines;
use super::{MAX_SECONDS, MAX_VALUES, TraceError};
use pathbench_link::OpportunitySchedule;

const EXPECTED: &str = "a whole number of milliseconds, and nothing else (mahimahi)";

/// Reads a Mahimahi trace.
///
/// # Errors
/// See [`TraceError`]: lines that are not one whole number, times that go back, a trace that takes no time.
pub fn mahimahi(bytes: &[u8]) -> Result<OpportunitySchedule, TraceError> {
    let mut at_ms: Vec<u64> = Vec::new();
    let mut number = 0;
    for line in Lines::trimmed(bytes)? {
        number = line.number;
        let now = line.whole(line.text, EXPECTED)?;
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
        None => Err(TraceError::Empty { expected: EXPECTED }),
        Some(0) => Err(TraceError::NoTime { line: number }),
        Some(_) => Ok(OpportunitySchedule { at_ms }),
    }
}
