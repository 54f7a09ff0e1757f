//! What an application with messages feels. docs/metrics.md, sections Delay and Ping.

use pathbench_record::document::{DelayRecord, PingRecord};
use pathbench_record::message::Message;
use pathbench_record::statistics::{median, nearest_rank, range};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Delay of `messages`, all of one requester. `end` is when it stopped waiting for acknowledgements.
///
/// Percentiles are nearest-rank over all messages: one that was never acknowledged enters with the time it had
/// been waiting at `end`. To leave it out would make a transport that loses its worst messages look the
/// better one. `None` without messages.
pub fn delay(messages: &[Message], end: Timestamp) -> Option<DelayRecord> {
    delay_of_flows(&[(messages, end)])
}

/// [`delay`] of several flows together, each with its own `end` (and, between machines, on its own clock).
pub fn delay_of_flows(flows: &[(&[Message], Timestamp)]) -> Option<DelayRecord> {
    let delays: Vec<f64> = flows
        .iter()
        .flat_map(|(messages, end)| messages.iter().map(|message| message.delay(*end)))
        .map(|delay| delay.as_nanos() as f64 / 1e6)
        .collect();
    let late = flows.iter().flat_map(|(messages, _)| *messages).filter(|message| message.is_late()).count();
    Some(DelayRecord {
        messages: u32::try_from(delays.len()).unwrap_or(u32::MAX),
        late: u32::try_from(late).unwrap_or(u32::MAX),
        p50: nearest_rank(&delays, 0.5)?,
        p95: nearest_rank(&delays, 0.95)?,
        p99: nearest_rank(&delays, 0.99)?,
        max: range(&delays)?[1],
    })
}

/// Round-trip times of a ping: one entry per request in the order sent, `None` for one not answered in time.
///
/// Lost requests are counted, not averaged: the median is that of the answers. `None` without requests.
pub fn ping(answers: &[Option<Duration>]) -> Option<PingRecord> {
    if answers.is_empty() {
        return None;
    }
    let rtts_ms: Vec<f64> = answers.iter().flatten().map(|rtt| rtt.as_nanos() as f64 / 1e6).collect();
    let bounds = range(&rtts_ms);
    Some(PingRecord {
        sent: u32::try_from(answers.len()).unwrap_or(u32::MAX),
        lost: u32::try_from(answers.len() - rtts_ms.len()).unwrap_or(u32::MAX),
        median_ms: median(&rtts_ms),
        min_ms: bounds.map(|[min, _]| min),
        max_ms: bounds.map(|[_, max]| max),
        rtts_ms,
    })
}
