//! Traces in JSON: `AlphaRTC`'s and IRTT's.

use super::csv::LONGEST_DELAY;
use super::error::TraceError;
use super::limits::{MAX_SECONDS, MAX_VALUES};
use super::lines::check_size;
use super::samples::{Fate, Sample};
use super::steps::from_durations;
use crate::{DelaySchedule, LossSchedule, RateSchedule};
use pathbench_record::direction::Direction;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

const ALPHARTC: &str = "write it as {\"uplink\": {\"trace_pattern\": [{\"duration\": 500, \"capacity\": 950, \"loss\": 0, \"rtt\": 20}]}}: \
                        duration and rtt in ms, capacity in kbit/s, loss from 0 to 1";
const IRTT: &str = "this is the file that `irtt client -o FILE.json` writes";

fn parse<T: DeserializeOwned>(bytes: &[u8], remedy: &'static str) -> Result<T, TraceError> {
    check_size(bytes)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let problem = text.split(" at line ").next().unwrap_or_default().chars().filter(|c| !c.is_control());
        TraceError::Json { line: error.line() as u64, problem: problem.take(200).collect(), remedy }
    })
}

/// The valid form of each element of a list. An error has the line of the element's `key`, behind the key `list`.
fn validated<W, V>(
    written: Vec<W>,
    bytes: &[u8],
    list: &str,
    key: &str,
    remedy: &'static str,
    validate: impl Fn(W) -> Result<V, String>,
) -> Result<Vec<V>, TraceError> {
    let valid = |(index, one)| {
        validate(one).map_err(|problem| {
            let begin = positions(bytes, list).next().unwrap_or(0);
            let at = positions(bytes, key).filter(|at| *at > begin).nth(index).unwrap_or(begin);
            let line = bytes[..at].split(|byte| *byte == b'\n').count() as u64;
            let problem = problem.chars().filter(|c| !c.is_control()).collect();
            TraceError::Json { line, problem, remedy }
        })
    };
    written.into_iter().enumerate().map(valid).collect()
}

/// The positions of the key in the text.
fn positions<'a>(bytes: &'a [u8], key: &str) -> impl Iterator<Item = usize> + 'a {
    let quoted = format!("\"{key}\"").into_bytes();
    (0..bytes.len()).filter(move |&at| bytes[at..].starts_with(&quoted))
}

#[derive(Deserialize)]
struct AlphaFile {
    #[serde(default)]
    uplink: AlphaLink,
    #[serde(default)]
    downlink: AlphaLink,
}

#[derive(Default, Deserialize)]
struct AlphaLink {
    #[serde(default)]
    trace_pattern: Vec<WrittenPattern>,
}

#[derive(Deserialize)]
struct WrittenPattern {
    duration: f64,
    capacity: Option<f64>,
    loss: Option<f64>,
    rtt: Option<f64>,
    jitter: Option<f64>,
}

struct AlphaPattern {
    duration: Duration,
    rate_bps: Option<u64>,
    loss: Option<f64>,
    rtt: Option<Duration>,
    has_jitter: bool,
}

impl TryFrom<WrittenPattern> for AlphaPattern {
    type Error = String;

    fn try_from(written: WrittenPattern) -> Result<Self, String> {
        let within = |name: &str, value: Option<f64>, most: f64| match value {
            Some(value) if !(0.0..=most).contains(&value) => {
                Err(format!("{name} is {value}, but must be 0 to {most}"))
            }
            value => Ok(value),
        };
        let longest_ms = MAX_SECONDS as f64 * 1e3;
        let duration_ms = within("duration", Some(written.duration), longest_ms)?.unwrap_or_default();
        if duration_ms < 1e-3 {
            return Err("duration is 0, but must last for some time".to_owned());
        }
        let rtt_ms = within("rtt", written.rtt, LONGEST_DELAY.as_secs_f64() * 2e3)?;
        Ok(Self {
            duration: Duration::from_secs_f64(duration_ms / 1e3),
            rate_bps: within("capacity", written.capacity, 1e9)?.map(|kbps| (kbps * 1e3).round() as u64),
            loss: within("loss", written.loss, 1.0)?,
            rtt: rtt_ms.map(|rtt_ms| Duration::from_secs_f64(rtt_ms / 1e3)),
            has_jitter: written.jitter.is_some_and(|jitter| jitter != 0.0),
        })
    }
}

pub(super) struct AlphaTrace {
    pub(super) rate: Option<RateSchedule>,
    /// Half of the round trip.
    pub(super) delay: Option<DelaySchedule>,
    pub(super) loss: Option<LossSchedule>,
    pub(super) has_jitter: bool,
    pub(super) direction: Direction,
}

/// Reads a trace of `AlphaRTC`'s gym (OpenNetLab): a list of times with their capacity, loss and RTT.
pub(super) fn alphartc(bytes: &[u8], direction: Option<Direction>) -> Result<AlphaTrace, TraceError> {
    let AlphaFile { uplink, downlink } = parse(bytes, ALPHARTC)?;
    let (uplink, downlink) = (uplink.trace_pattern, downlink.trace_pattern);
    let direction = match (direction, uplink.is_empty(), downlink.is_empty()) {
        (Some(direction), ..) => direction,
        (None, false, false) => return Err(TraceError::SeveralDirections),
        (None, true, false) => Direction::Download,
        (None, ..) => Direction::Upload,
    };
    let (link, patterns) = match direction {
        Direction::Upload => ("uplink", uplink),
        Direction::Download => ("downlink", downlink),
    };
    if patterns.is_empty() {
        return Err(TraceError::Lacks {
            format: "alphartc",
            what: direction.name(),
            has: "none, or the other direction",
        });
    }
    if patterns.len() > MAX_VALUES {
        return Err(TraceError::TooLong { line: 1 });
    }
    let patterns = validated(patterns, bytes, link, "duration", ALPHARTC, AlphaPattern::try_from)?;
    if patterns.iter().map(|pattern| pattern.duration).sum::<Duration>() > Duration::from_secs(MAX_SECONDS) {
        let (problem, remedy) =
            ("the durations are more than 31 days in all".to_owned(), "shorten it: traces repeat");
        return Err(TraceError::Json { line: 1, problem, remedy });
    }
    Ok(AlphaTrace {
        rate: held(&patterns, |pattern| pattern.rate_bps),
        delay: held(&patterns, |pattern| pattern.rtt.map(|rtt| rtt / 2)),
        loss: held(&patterns, |pattern| pattern.loss),
        has_jitter: patterns.iter().any(|pattern| pattern.has_jitter),
        direction,
    })
}

/// The values of one quantity; where a pattern lacks it, the one before stays, and before the first value the first.
fn held<V: PartialEq + Copy>(
    patterns: &[AlphaPattern],
    value: impl Fn(&AlphaPattern) -> Option<V>,
) -> Option<crate::Steps<V>> {
    let mut current = patterns.iter().find_map(&value)?;
    from_durations(patterns.iter().map(|pattern| {
        current = value(pattern).unwrap_or(current);
        (pattern.duration, current)
    }))
}

#[derive(Deserialize)]
struct IrttFile {
    round_trips: Vec<WrittenRoundTrip>,
}

struct RoundTrip {
    /// On the client's clock.
    sent_ns: i64,
    fate: Fate,
}

#[derive(Deserialize)]
struct WrittenRoundTrip {
    lost: String,
    timestamps: Timestamps,
    #[serde(default)]
    delay: Option<Delay>,
}

#[derive(Deserialize)]
struct Timestamps {
    client: ClientTimes,
}

#[derive(Deserialize)]
struct ClientTimes {
    send: ClockTimes,
}

#[derive(Deserialize)]
struct ClockTimes {
    monotonic: Option<i64>,
    wall: Option<i64>,
}

#[derive(Deserialize)]
struct Delay {
    rtt: Option<i64>,
}

impl TryFrom<WrittenRoundTrip> for RoundTrip {
    type Error = String;

    fn try_from(written: WrittenRoundTrip) -> Result<Self, String> {
        let send = written.timestamps.client.send;
        let sent_ns = send.monotonic.or(send.wall).ok_or("a round trip has no time of the client's send")?;
        let fate = match written.lost.as_str() {
            "true" => Fate::LOST,
            "true_up" => Fate::Lost(Some(Direction::Upload)),
            "true_down" => Fate::Lost(Some(Direction::Download)),
            "false" => {
                let rtt_ns =
                    written.delay.and_then(|delay| delay.rtt).ok_or("a round trip has no delay.rtt")?;
                let rtt = Duration::from_nanos(u64::try_from(rtt_ns).map_err(|_| "a delay.rtt is negative")?);
                if rtt > LONGEST_DELAY * 2 {
                    return Err("a delay.rtt is longer than 2 min".to_owned());
                }
                Fate::Answered(rtt)
            }
            other => return Err(format!("lost is `{}`", other.chars().take(40).collect::<String>())),
        };
        Ok(Self { sent_ns, fate })
    }
}

/// Reads IRTT's JSON output (irtt-client(1)).
pub(super) fn irtt(bytes: &[u8]) -> Result<Vec<Sample>, TraceError> {
    let IrttFile { round_trips } = parse(bytes, IRTT)?;
    if round_trips.len() > MAX_VALUES {
        return Err(TraceError::TooLong { line: 1 });
    }
    let mut round_trips = validated(round_trips, bytes, "round_trips", "lost", IRTT, RoundTrip::try_from)?;
    round_trips.sort_by_key(|trip| trip.sent_ns);
    round_trips.dedup_by_key(|trip| trip.sent_ns);
    let first = round_trips.first().ok_or(TraceError::Json {
        line: 1,
        problem: "there is no round trip".to_owned(),
        remedy: IRTT,
    })?;
    let first_ns = first.sent_ns;
    let sample = |trip: &RoundTrip| Sample {
        at: Duration::from_nanos(trip.sent_ns.abs_diff(first_ns)),
        fate: trip.fate,
    };
    let samples: Vec<Sample> = round_trips.iter().map(sample).collect();
    if samples.last().is_some_and(|last| last.at > Duration::from_secs(MAX_SECONDS)) {
        let (problem, remedy) = ("the times are more than 31 days apart".to_owned(), IRTT);
        return Err(TraceError::Json { line: 1, problem, remedy });
    }
    Ok(samples)
}
