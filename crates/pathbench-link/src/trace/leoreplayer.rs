//! Traces of `LeoReplayer` and `LeoCC`.

use super::csv::{DELAY_RANGE, LONGEST_DELAY};
use super::error::TraceError;
use super::limits::MAX_VALUES;
use super::lines::{Lines, check_size, number, shown};
use super::steps::from_durations;
use crate::DelaySchedule;
use std::time::Duration;

/// The time for which a line of `LeoReplayer` applies.
const LEO_INTERVAL: Duration = Duration::from_millis(10);

/// Reads the delays of `LeoReplayer` (SpaceNetLab/LeoCC, `replayer/src/frontend/delay_queue.cc`): each line is a one-way
/// delay in ms for 10 ms; no comments, no empty lines.
pub(super) fn leoreplayer(bytes: &[u8]) -> Result<DelaySchedule, TraceError> {
    const LINE: &str = "a delay in milliseconds, and nothing else (leoreplayer)";
    check_size(bytes)?;
    let mut delays = Vec::new();
    for line in Lines::trim(bytes)? {
        let delay_ms = number(line.text).ok_or_else(|| line.malformed(line.text, LINE))?;
        if !(0.0..=LONGEST_DELAY.as_secs_f64() * 1e3).contains(&delay_ms) {
            let found = format!("{} ms", shown(line.text));
            let (line, what) = (line.number, "the delay");
            return Err(TraceError::OutOfRange { line, what, found, range: DELAY_RANGE });
        }
        if delays.len() == MAX_VALUES {
            return Err(TraceError::TooLong { line: line.number });
        }
        delays.push((LEO_INTERVAL, Duration::from_secs_f64(delay_ms / 1e3)));
    }
    from_durations(delays).ok_or(TraceError::Empty { expected: LINE })
}
