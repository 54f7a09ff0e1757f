//! The figures of a flow of datagrams, from the logs of both ends. docs/metrics.md, section Datagrams.

use pathbench_record::datagram::{
    DatagramFigures, DatagramRecord, DatagramsParameters, FrameFigures, LoggedDatagram,
};
use pathbench_record::document::OneWayDelay;
use pathbench_record::statistics::nearest_rank;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The logs of one direction. All times are on one clock, or at least their differences at one end are right.
#[derive(Debug, Clone, Copy)]
pub struct DatagramLogs<'a> {
    pub parameters: &'a DatagramsParameters,
    pub sent: &'a [LoggedDatagram],
    /// On each path in the order of arrival.
    pub received: &'a [LoggedDatagram],
    /// Whether the clocks of both ends are comparable, so that one-way delays are known.
    pub has_delays: bool,
    /// Whether each path has a flow of its own (udp), not a part of one flow or copies of it.
    pub is_flow_per_path: bool,
}

/// A sent datagram on one path, and its arrivals there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramFate {
    pub path: u32,
    pub sequence: u32,
    pub sent: Timestamp,
    pub received: Option<Timestamp>,
    pub duplicates: u32,
}

/// The fate of each datagram on each path, in the order of sending.
pub fn datagram_fates(logs: &DatagramLogs<'_>) -> Vec<DatagramFate> {
    let mut fates: Vec<DatagramFate> = Vec::with_capacity(logs.sent.len());
    let mut known: HashMap<(u32, u32), usize> = HashMap::new();
    for sent in logs.sent {
        known.entry((sent.path, sent.sequence)).or_insert_with(|| {
            let &LoggedDatagram { sequence, at, path } = sent;
            fates.push(DatagramFate { path, sequence, sent: at, received: None, duplicates: 0 });
            fates.len() - 1
        });
    }
    for arrival in logs.received {
        let Some(fate) = known.get(&(arrival.path, arrival.sequence)).and_then(|at| fates.get_mut(*at))
        else {
            continue;
        };
        match fate.received {
            None => fate.received = Some(arrival.at),
            Some(_) => fate.duplicates = fate.duplicates.saturating_add(1),
        }
    }
    fates
}

/// The figures of one direction. `name` returns the name of a path.
pub fn datagrams(
    logs: &DatagramLogs<'_>,
    fates: &[DatagramFate],
    name: impl Fn(u32) -> String,
) -> DatagramRecord {
    let numbers: std::collections::BTreeSet<u32> = fates.iter().map(|fate| fate.path).collect();
    let flow_of = |path: u32| {
        let of_path = |logged: &&LoggedDatagram| logged.path == path;
        Flow::new(logs, logs.sent.iter().filter(of_path), logs.received.iter().filter(of_path))
    };
    let flows: Vec<(u32, Flow)> = numbers.into_iter().map(|path| (path, flow_of(path))).collect();
    let duplicates = fates.iter().map(|fate| u64::from(fate.duplicates)).sum();
    let all = if logs.is_flow_per_path {
        combine(flows.iter().map(|(_, flow)| flow))
    } else {
        // The log has the order in which the sockets of the paths were read.
        let mut received = logs.received.to_vec();
        received.sort_by_key(|arrival| arrival.at);
        let whole = Flow::new(logs, logs.sent.iter(), received.iter());
        DatagramFigures { duplicates, ..whole.figures }
    };
    let size = |sequence: u32| u64::from(logs.parameters.size_bytes(sequence));
    let sent_bytes = fates.iter().map(|fate| size(fate.sequence)).sum();
    // Over quic and mpquic the copies of a datagram on several paths are one datagram.
    let key = |fate: &DatagramFate| (fate.sequence, if logs.is_flow_per_path { fate.path } else { 0 });
    let once: HashSet<_> = fates.iter().map(key).collect();
    let arrived: HashSet<_> = fates.iter().filter(|fate| fate.received.is_some()).map(key).collect();
    let bytes_of = |keys: &HashSet<(u32, u32)>| keys.iter().map(|(sequence, _)| size(*sequence)).sum::<u64>();
    DatagramRecord {
        all,
        deadline_ms: Some(logs.parameters.deadline.as_nanos() as f64 / 1e6),
        unsent: 0,
        omitted: 0,
        sent_bytes,
        delivered_bytes: bytes_of(&arrived),
        redundant_bytes: sent_bytes - bytes_of(&once),
        paths: flows.into_iter().map(|(path, flow)| (name(path), flow.figures)).collect(),
    }
}

struct Flow {
    figures: DatagramFigures,
    delays_ms: Vec<f64>,
}

impl Flow {
    /// The flow of these datagrams: the first arrival of each number counts.
    fn new<'a>(
        logs: &DatagramLogs<'_>,
        sent: impl Iterator<Item = &'a LoggedDatagram>,
        received: impl Iterator<Item = &'a LoggedDatagram>,
    ) -> Self {
        let mut sent_at: HashMap<u32, Timestamp> = HashMap::new();
        for sent in sent {
            sent_at.entry(sent.sequence).and_modify(|at| *at = (*at).min(sent.at)).or_insert(sent.at);
        }
        let (mut seen, mut duplicates) = (HashSet::new(), 0);
        let mut arrivals: Vec<Arrival> = Vec::new();
        for arrival in received {
            let Some(&sent) = sent_at.get(&arrival.sequence) else { continue };
            if seen.insert(arrival.sequence) {
                arrivals.push(Arrival { sequence: arrival.sequence, sent, at: arrival.at });
            } else {
                duplicates += 1;
            }
        }
        let delays_ms: Vec<f64> = if logs.has_delays {
            arrivals.iter().map(|arrival| ms_between(arrival.sent, arrival.at)).collect()
        } else {
            Vec::new()
        };
        let deadline_ms = logs.parameters.deadline.as_nanos() as f64 / 1e6;
        let late = delays_ms.iter().filter(|delay| **delay > deadline_ms).count() as u64;
        let count = arrivals.len() as u64;
        let reordered = count_reordered(&arrivals);
        let lost = sent_at.len() as u64 - count;
        let jitter = jitter_ms(&arrivals);
        let late = logs.has_delays.then_some(late);
        let figures = DatagramFigures {
            sent: sent_at.len() as u64,
            lost,
            loss: share(lost, sent_at.len() as u64),
            duplicates,
            reordered,
            reordered_share: share(reordered, count),
            jitter_ms: jitter.map(|(mean, _)| mean),
            max_jitter_ms: jitter.map(|(_, max)| max),
            late,
            late_share: late.and_then(|late| share(late, count)),
            longest_gap_ms: longest_gap_ms(&arrivals, sent_at.values().max().copied()),
            delay: distribution(&delays_ms),
            frames: frames(logs, &sent_at, &arrivals),
        };
        Self { figures, delays_ms }
    }
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    sequence: u32,
    sent: Timestamp,
    at: Timestamp,
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Negative where the clocks differ.
fn ms_between(from: Timestamp, until: Timestamp) -> f64 {
    (until.as_nanos() as f64 - from.as_nanos() as f64) / 1e6
}

/// RFC 4737, section 3: a packet is reordered if its number is smaller than the next expected one, which is one more
/// than the largest so far.
fn count_reordered(arrivals: &[Arrival]) -> u64 {
    let mut next_expected = 0;
    let mut reordered = 0;
    for arrival in arrivals {
        if arrival.sequence < next_expected {
            reordered += 1;
        } else {
            next_expected = arrival.sequence.saturating_add(1);
        }
    }
    reordered
}

/// RFC 3550, section 6.4.1: mean and maximum of the running value over the arrivals.
fn jitter_ms(arrivals: &[Arrival]) -> Option<(f64, f64)> {
    let (mut jitter, mut sum, mut max) = (0.0_f64, 0.0, 0.0_f64);
    for pair in arrivals.windows(2) {
        let [before, after] = pair else { continue };
        let difference = ms_between(before.at, after.at) - ms_between(before.sent, after.sent);
        jitter += (difference.abs() - jitter) / 16.0;
        sum += jitter;
        max = max.max(jitter);
    }
    let pairs = arrivals.len().checked_sub(1).filter(|pairs| *pairs > 0)?;
    Some((sum / pairs as f64, max))
}

/// The longest time between two arrivals, or from the last arrival until the last datagram was sent.
fn longest_gap_ms(arrivals: &[Arrival], last_sent: Option<Timestamp>) -> Option<f64> {
    let last = arrivals.last()?;
    let between = arrivals.windows(2).map(|pair| match pair {
        [before, after] => ms_between(before.at, after.at),
        _ => 0.0,
    });
    let at_the_end = last_sent.map_or(0.0, |sent| ms_between(last.at, sent));
    between.chain([at_the_end]).max_by(f64::total_cmp).map(|gap| gap.max(0.0))
}

fn distribution(delays_ms: &[f64]) -> Option<OneWayDelay> {
    Some(OneWayDelay {
        packets: u32::try_from(delays_ms.len()).unwrap_or(u32::MAX),
        min_ms: delays_ms.iter().copied().min_by(f64::total_cmp)?,
        p50_ms: nearest_rank(delays_ms, 0.5)?,
        p95_ms: nearest_rank(delays_ms, 0.95)?,
        max_ms: delays_ms.iter().copied().max_by(f64::total_cmp)?,
    })
}

/// A frame is complete when all its packets have arrived, and late by the last of them, counted from its first packet.
fn frames(
    logs: &DatagramLogs<'_>,
    sent_at: &HashMap<u32, Timestamp>,
    arrivals: &[Arrival],
) -> Option<FrameFigures> {
    let packets = logs.parameters.packets_per_frame();
    if packets < 2 {
        return None;
    }
    let mut begun: BTreeMap<u32, Timestamp> = BTreeMap::new();
    for (sequence, at) in sent_at {
        let first = begun.entry(logs.parameters.frame_of(*sequence)).or_insert(*at);
        *first = (*first).min(*at);
    }
    let mut complete: HashMap<u32, (u32, Timestamp)> = HashMap::new();
    for arrival in arrivals {
        let frame = complete.entry(logs.parameters.frame_of(arrival.sequence)).or_insert((0, arrival.at));
        *frame = (frame.0 + 1, frame.1.max(arrival.at));
    }
    let deadline_ms = logs.parameters.deadline.as_nanos() as f64 / 1e6;
    let (mut incomplete, mut late) = (0, 0);
    for (frame, sent) in &begun {
        match complete.get(frame) {
            Some((arrived, last)) if *arrived == packets => {
                late += u64::from(ms_between(*sent, *last) > deadline_ms);
            }
            _ => incomplete += 1,
        }
    }
    let sent = begun.len() as u64;
    let late = logs.has_delays.then_some(late);
    Some(FrameFigures {
        sent,
        incomplete,
        incomplete_share: share(incomplete, sent)?,
        late,
        late_share: late.and_then(|late| share(late, sent)),
    })
}

/// Independent flows together: sums, shares of the sums, and the largest jitter and gap.
fn combine<'a>(flows: impl Iterator<Item = &'a Flow>) -> DatagramFigures {
    let flows: Vec<&Flow> = flows.collect();
    let sum = |count: fn(&DatagramFigures) -> u64| flows.iter().map(|flow| count(&flow.figures)).sum::<u64>();
    let largest = |value: fn(&DatagramFigures) -> Option<f64>| {
        flows.iter().filter_map(|flow| value(&flow.figures)).max_by(f64::total_cmp)
    };
    let (sent, lost, reordered) = (sum(|one| one.sent), sum(|one| one.lost), sum(|one| one.reordered));
    let arrived = sent - lost;
    let late = flows.iter().any(|flow| flow.figures.late.is_some());
    let late = late.then(|| sum(|one| one.late.unwrap_or_default()));
    let delays_ms: Vec<f64> = flows.iter().flat_map(|flow| flow.delays_ms.iter().copied()).collect();
    let frames = flows.iter().filter_map(|flow| flow.figures.frames).reduce(|a, b| {
        let (sent, incomplete) = (a.sent + b.sent, a.incomplete + b.incomplete);
        let late = a.late.zip(b.late).map(|(a, b)| a + b);
        FrameFigures {
            sent,
            incomplete,
            incomplete_share: share(incomplete, sent).unwrap_or_default(),
            late,
            late_share: late.and_then(|late| share(late, sent)),
        }
    });
    DatagramFigures {
        sent,
        lost,
        loss: share(lost, sent),
        duplicates: sum(|one| one.duplicates),
        reordered,
        reordered_share: share(reordered, arrived),
        jitter_ms: largest(|one| one.jitter_ms),
        max_jitter_ms: largest(|one| one.max_jitter_ms),
        late,
        late_share: late.and_then(|late| share(late, arrived)),
        longest_gap_ms: largest(|one| one.longest_gap_ms),
        delay: distribution(&delays_ms),
        frames,
    }
}
