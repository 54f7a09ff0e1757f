//! Message delay of an application, and round trips of pings and probes. docs/metrics.md, sections Delay, Ping and
//! Probes.

use pathbench_record::document::{DelayRecord, PingRecord, ProbeLine, ProbeRecord};
use pathbench_record::end::MessageRecord;
use pathbench_record::statistics::{median, nearest_rank, range};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Delay of `messages`, all of one requester. `end` is when the requester stopped waiting for acknowledgements.
///
/// Percentiles are nearest-rank over all messages. An unacknowledged message counts with its waiting time until
/// `end`: without it, a transport that loses its worst messages would look better. `None` without messages.
pub fn delay(messages: &[MessageRecord], end: Timestamp) -> Option<DelayRecord> {
    delay_of_flows(&[(messages, end)])
}

/// [`delay`] over several flows, each with its own `end` (and, between machines, its own clock).
pub fn delay_of_flows(flows: &[(&[MessageRecord], Timestamp)]) -> Option<DelayRecord> {
    let delays: Vec<f64> = flows
        .iter()
        .flat_map(|(messages, end)| messages.iter().map(|message| message.delay_by(*end)))
        .map(|delay| delay.as_nanos() as f64 / 1e6)
        .collect();
    let unacknowledged = flows
        .iter()
        .flat_map(|(messages, _)| *messages)
        .filter(|message| message.acknowledged.is_none())
        .count();
    Some(DelayRecord {
        messages: count(delays.len()),
        unacknowledged: count(unacknowledged),
        p50: nearest_rank(&delays, 0.5)?,
        p95: nearest_rank(&delays, 0.95)?,
        p99: nearest_rank(&delays, 0.99)?,
        max: range(&delays)?[1],
    })
}

/// Round-trip times of a ping: one entry per request in the order sent, `None` for a request that timed out.
///
/// Lost requests are counted, not averaged: the median is over the answers. `None` without requests.
///
/// ```rust
/// use pathbench_analysis::metrics::ping;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let record = ping(&[Some(ms(20)), None, Some(ms(24))]).unwrap();
/// assert_eq!((record.sent, record.lost), (3, 1));
/// assert_eq!(record.median_ms, Some(22.0));
/// ```
pub fn ping(answers: &[Option<Duration>]) -> Option<PingRecord> {
    if answers.is_empty() {
        return None;
    }
    let rtts_ms: Vec<f64> = answers.iter().flatten().map(|rtt| rtt.as_nanos() as f64 / 1e6).collect();
    let bounds = range(&rtts_ms);
    Some(PingRecord {
        sent: count(answers.len()),
        lost: count(answers.len() - rtts_ms.len()),
        median_ms: median(&rtts_ms),
        min_ms: bounds.map(|[min, _]| min),
        max_ms: bounds.map(|[_, max]| max),
        rtts_ms,
    })
}

/// Summary of the probes of one path, in the order sent.
///
/// The longest silence is the longest time without an answer: between two answers, from the first probe to the first
/// answer, or from the last answer (the first probe, without any answer) to the last probe.
pub fn probes(path: &str, lines: &[ProbeLine]) -> ProbeRecord {
    let of_path: Vec<&ProbeLine> = lines.iter().filter(|line| line.path == path).collect();
    let rtts_ms: Vec<f64> = of_path.iter().filter_map(|line| line.rtt_ms).collect();
    ProbeRecord {
        path: path.to_owned(),
        sent: count(of_path.len()),
        answered: count(rtts_ms.len()),
        p50_ms: median(&rtts_ms),
        max_ms: range(&rtts_ms).map(|[_, max]| max),
        longest_silence_ms: longest_silence(&of_path),
    }
}

fn longest_silence(lines: &[&ProbeLine]) -> Option<f64> {
    let [begin, end] = range(&lines.iter().map(|line| line.t_ms).collect::<Vec<_>>())?;
    let mut heard: Vec<f64> = lines.iter().filter_map(|line| Some(line.t_ms + line.rtt_ms?)).collect();
    heard.sort_by(f64::total_cmp);
    let moments: Vec<f64> = std::iter::once(begin).chain(heard).collect();
    let last = moments.last().copied().unwrap_or(begin).max(end);
    let nexts = moments.iter().skip(1).copied().chain([last]);
    moments.iter().zip(nexts).map(|(from, to)| to - from).max_by(f64::total_cmp)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
