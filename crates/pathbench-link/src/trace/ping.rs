//! The output of ping: of iputils, with or without the times of `-D`, and of BSD and `BusyBox`.

use super::csv::{DELAY_RANGE, LONGEST_DELAY};
use super::error::TraceError;
use super::lines::{Line, Lines, number, shown};
use super::samples::{Fate, Sample};
use std::time::Duration;

const EXPECTED: &str = "an answer of ping, such as `64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=12.3 ms`";
/// ping's default.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of probes: 46 days at one per second.
const MAX_PROBES: u64 = 4_000_000;
/// `icmp_seq` has 16 bits.
const SEQUENCES: u64 = 1 << 16;

/// The source of the times of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PingClock {
    /// The times of `ping -D`.
    Printed,
    /// The numbers of the probes, at the interval of the statistics at the end.
    Statistics(Duration),
    /// The numbers of the probes, at ping's usual interval.
    Assumed,
}

struct Answer {
    sequence: u64,
    /// When the answer arrived, Unix time.
    at: Option<f64>,
    rtt: Duration,
}

impl Answer {
    fn sent_at(&self) -> f64 {
        self.at.unwrap_or_default() - self.rtt.as_secs_f64()
    }
}

/// Whether the first line of a file is one of ping's.
pub(super) fn is_ping(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"[").map_or(line, |rest| {
        let end = rest.iter().position(|byte| *byte == b']').map_or(0, |end| end + 1);
        rest[end..].trim_ascii_start()
    });
    is_begin(line) || (find(line, b" bytes from ").is_some() && find(line, b"seq=").is_some())
}

fn is_begin(line: &[u8]) -> bool {
    line.starts_with(b"PING ") || line.starts_with(b"PING6(")
}

pub(super) fn ping(bytes: &[u8]) -> Result<(Vec<Sample>, PingClock), TraceError> {
    let mut answers: Vec<Answer> = Vec::new();
    let mut statistics = None;
    let mut wraps = Wraps::default();
    let mut begins = 0;
    for line in Lines::new(bytes)? {
        if is_begin(line.text) {
            begins += 1;
            if begins > 1 || !answers.is_empty() {
                return Err(TraceError::SeveralPings { line: line.number });
            }
        }
        if let Some(found) = transmitted(line.text) {
            statistics = Some(found);
        }
        let is_answer = find(line.text, b" bytes from ").is_some() && find(line.text, b"time=").is_some();
        if !is_answer || find(line.text, b"(DUP!)").is_some() {
            continue;
        }
        let answer = answer(&line, &mut wraps)?;
        if answers.len() as u64 == MAX_PROBES || answer.sequence >= MAX_PROBES {
            return Err(TraceError::TooLong { line: line.number });
        }
        answers.push(answer);
    }
    answers.sort_by_key(|answer| answer.sequence);
    answers.dedup_by_key(|answer| answer.sequence);
    let (Some(first), Some(last)) = (answers.first(), answers.last()) else {
        return Err(TraceError::NoAnswer);
    };
    // iputils counts from 1, BSD and BusyBox from 0. Without ping's first line, the file may be the end of a longer one.
    let begin = if begins > 0 { first.sequence.min(1) } else { first.sequence };
    let sent = statistics.filter(|_| begins > 0).map_or(0, |(sent, _)| sent.min(MAX_PROBES));
    let end = (last.sequence + 1).max(begin + sent);
    let (clock, interval) = interval(&answers, statistics);
    // Probes before the first answer were lost; their times are counted back from it.
    let zero = first.sent_at() - interval.as_secs_f64() * (first.sequence - begin) as f64;
    let mut samples: Vec<Sample> = Vec::with_capacity(answers.len());
    let mut next = answers.iter().peekable();
    for sequence in begin..end {
        let nominal = interval.saturating_mul(u32::try_from(sequence - begin).unwrap_or(u32::MAX));
        let answer = next.next_if(|answer| answer.sequence == sequence);
        let at = match (answer, clock) {
            (Some(answer), PingClock::Printed) => {
                Duration::try_from_secs_f64((answer.sent_at() - zero).clamp(0.0, 1e9)).unwrap_or_default()
            }
            _ => nominal,
        };
        // A clock that was set back, or lost probes between answers, leaves the order to the numbers.
        let at = samples.last().map_or(at, |before| at.max(before.at + Duration::from_micros(1)));
        samples.push(Sample { at, fate: answer.map_or(Fate::LOST, |answer| Fate::Answered(answer.rtt)) });
    }
    Ok((samples, clock))
}

fn interval(answers: &[Answer], statistics: Option<(u64, Option<Duration>)>) -> (PingClock, Duration) {
    let (first, last) = (answers.first(), answers.last());
    let printed = first.zip(last).and_then(|(first, last)| {
        let apart = last.sequence.checked_sub(first.sequence).filter(|apart| *apart > 0)?;
        let time = last.at.and(first.at).map(|_| last.sent_at() - first.sent_at())?;
        Duration::try_from_secs_f64(time / apart as f64).ok().filter(|time| !time.is_zero())
    });
    if let Some(interval) = printed.filter(|_| answers.iter().all(|answer| answer.at.is_some())) {
        return (PingClock::Printed, interval);
    }
    let of_statistics = statistics.and_then(|(sent, time)| {
        Some(time? / u32::try_from(sent.checked_sub(1)?).ok().filter(|sent| *sent > 0)?)
    });
    match of_statistics.filter(|interval| !interval.is_zero()) {
        Some(interval) => (PingClock::Statistics(interval), interval),
        None => (PingClock::Assumed, USUAL_INTERVAL),
    }
}

/// Extends the 16-bit numbers of probes.
#[derive(Default)]
struct Wraps {
    latest: u64,
}

impl Wraps {
    fn extend(&mut self, sequence: u64) -> u64 {
        let base = self.latest - self.latest % SEQUENCES;
        let candidates = [base.checked_sub(SEQUENCES), Some(base), Some(base + SEQUENCES)];
        let near = candidates.into_iter().flatten().map(|base| base + sequence % SEQUENCES);
        let found = near.min_by_key(|found| found.abs_diff(self.latest)).unwrap_or(sequence);
        self.latest = self.latest.max(found);
        found
    }
}

fn answer(line: &Line<'_>, wraps: &mut Wraps) -> Result<Answer, TraceError> {
    let malformed = || line.malformed(line.text, EXPECTED);
    let sequence = value(line.text, b"seq=").and_then(number).ok_or_else(malformed)?;
    let rtt_ms = value(line.text, b"time=").map(|text| text.strip_suffix(b"ms").unwrap_or(text));
    let rtt_ms = rtt_ms.and_then(number).ok_or_else(malformed)?;
    if !(0.0..=2.0 * LONGEST_DELAY.as_secs_f64() * 1e3).contains(&rtt_ms) {
        let found = format!("{rtt_ms} ms");
        return Err(TraceError::OutOfRange {
            line: line.number,
            what: "the delay",
            found,
            range: DELAY_RANGE,
        });
    }
    if !(0.0..SEQUENCES as f64).contains(&sequence) {
        let (what, found) = ("the number of the probe", shown(line.text));
        return Err(TraceError::OutOfRange { line: line.number, what, found, range: "0 to 65535" });
    }
    let printed = line.text.strip_prefix(b"[").and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b']')?;
        number(&rest[..end])
    });
    Ok(Answer {
        sequence: wraps.extend(sequence as u64),
        at: printed,
        rtt: Duration::from_secs_f64(rtt_ms / 1e3),
    })
}

/// `N packets transmitted, …, time T ms` at the end.
fn transmitted(line: &[u8]) -> Option<(u64, Option<Duration>)> {
    let end = find(line, b" packets transmitted")?;
    let sent = number(&line[..end]).filter(|sent| (0.0..1e12).contains(sent))?;
    let time = value(line, b", time ").map(|text| text.strip_suffix(b"ms").unwrap_or(text)).and_then(number);
    let time = time.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
    Some((sent as u64, time))
}

/// The text from behind `key` to the next blank.
fn value<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[find(line, key)? + key.len()..];
    rest.split(u8::is_ascii_whitespace).next()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
