//! The course of a path at the sending end: when data waited there for an acknowledgement and none came.

use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use std::collections::BTreeMap;

/// A stretch in which a subflow had data outstanding and nothing of it was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Silence<'a> {
    pub(super) from_ms: f64,
    /// The next acknowledgement, or the end of the subflow; `None`: it lasted to the end.
    pub(super) to_ms: Option<f64>,
    pub(super) seen_until_ms: f64,
    pub(super) first: &'a PathFigures,
    pub(super) last: &'a PathFigures,
    /// The figures that ended it, where an acknowledgement did: the subflow's, or those of the one in its place.
    pub(super) after: Option<&'a PathFigures>,
    pub(super) backoff: u32,
    pub(super) largest_pmtu_bytes: u32,
    /// The most that was acknowledged on the path between two samples before: no larger packet is known to have passed.
    pub(super) passed_before_bytes: u64,
    pub(super) small_ones_passed: bool,
    /// Whether data was sent again after the MSS had been lowered, without an acknowledgement.
    pub(super) small_ones_lost: bool,
}

impl Silence<'_> {
    pub(super) fn length_ms(&self) -> f64 {
        self.end_ms() - self.from_ms
    }

    fn end_ms(&self) -> f64 {
        self.to_ms.unwrap_or(self.seen_until_ms)
    }

    /// Long, and no mere long round trip: the retransmission timer ran out in it, or QUIC found a black hole.
    pub(super) fn is_worth_telling(&self) -> bool {
        let noticed = self.backoff > 0 || self.last.black_holes > self.first.black_holes;
        self.length_ms() >= super::SHORTEST_SILENCE_MS && noticed
    }

    pub(super) const fn outstanding_bytes(&self) -> u64 {
        outstanding(self.last)
    }

    pub(super) fn vanished_bytes(&self) -> u64 {
        self.outstanding_bytes().min(u64::from(self.first.mss_bytes))
    }

    /// Whether no packet as large as those that vanish is known to have passed before.
    pub(super) fn is_from_the_start(&self) -> bool {
        self.passed_before_bytes < self.vanished_bytes()
    }
}

/// Payload sent and not acknowledged; of QUIC, where what is lost goes out again on any path, what is in flight.
const fn outstanding(figures: &PathFigures) -> u64 {
    if figures.path_id.is_some() {
        return figures.in_flight_bytes;
    }
    figures.bytes_sent.saturating_sub(figures.retransmitted_bytes).saturating_sub(figures.bytes_acked)
}

fn waits(figures: &PathFigures) -> bool {
    figures.state == PathState::Open && outstanding(figures) > 0
}

/// A subflow: its connection and its number there.
type Key = (u32, u32);

struct Subflow<'a> {
    key: Key,
    samples: Vec<(f64, &'a PathFigures)>,
}

/// The silences of the path of that name at this end, in order of time; of those of several subflows at a time, the
/// longest stands for all. A subflow that is silent beside another one that gets segments of the same size through
/// says nothing of the path.
pub(super) fn silences<'a>(samples: &'a [Sample], path: &str, side: Side) -> Vec<Silence<'a>> {
    let of_path = || samples.iter().filter(|sample| sample.path == path);
    let subflows = subflows(of_path().filter(|sample| sample.side == side));
    let of_peer = self::subflows(of_path().filter(|sample| sample.side != side));
    let mut peer_answered_ms: Vec<f64> = of_peer.iter().flat_map(Subflow::progress_ms).collect();
    peer_answered_ms.sort_by(f64::total_cmp);
    let mut found: Vec<Silence<'_>> = Vec::new();
    for subflow in &subflows {
        let others = || subflows.iter().filter(|other| other.key != subflow.key);
        // Every sample with data on its way begins one; few are worth a closer look.
        let lasting = |silence: &Silence<'_>| silence.is_worth_telling() || silence.to_ms.is_none();
        for mut silence in subflow.silences(&peer_answered_ms).into_iter().filter(lasting) {
            let before = subflows.iter().map(|one| one.most_acked(f64::NEG_INFINITY, silence.from_ms)).max();
            silence.passed_before_bytes = before.unwrap_or(0);
            if others().all(|other| other.bears_out(&mut silence, other.key > subflow.key)) {
                found.push(silence);
            }
        }
    }
    found.sort_by(|a, b| a.from_ms.total_cmp(&b.from_ms));
    found.dedup_by(|later, earlier| {
        let overlap = later.from_ms < earlier.end_ms();
        if overlap && later.length_ms() > earlier.length_ms() {
            std::mem::swap(later, earlier);
        }
        overlap
    });
    found
}

fn subflows<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<Subflow<'a>> {
    let mut by_key: BTreeMap<Key, Vec<(f64, &PathFigures)>> = BTreeMap::new();
    for sample in samples {
        let key = (sample.stream, sample.figures.subflow);
        by_key.entry(key).or_default().push((sample.t_ms, &sample.figures));
    }
    by_key.into_iter().map(|(key, samples)| Subflow { key, samples }).collect()
}

impl<'a> Subflow<'a> {
    fn silences(&self, peer_answered_ms: &[f64]) -> Vec<Silence<'a>> {
        let mut found: Vec<Silence<'a>> = Vec::new();
        let mut open: Option<Building<'a>> = None;
        let (mut acked, mut largest_pmtu_bytes) = (0, 0);
        for &(t_ms, figures) in &self.samples {
            let progress = figures.bytes_acked > acked;
            if progress || figures.state == PathState::Closed {
                let after = progress.then_some(figures);
                found.extend(open.take().map(|open| open.end(Some(t_ms), t_ms, after, largest_pmtu_bytes)));
            }
            acked = figures.bytes_acked;
            largest_pmtu_bytes = largest_pmtu_bytes.max(figures.pmtu_bytes);
            match &mut open {
                Some(building) => building.take(t_ms, figures, peer_answered_ms),
                None if waits(figures) => open = Some(Building::new(t_ms, figures)),
                None => {}
            }
        }
        let last_ms = self.samples.last().map_or(0.0, |(t_ms, _)| *t_ms);
        found.extend(open.map(|open| open.end(None, last_ms, None, largest_pmtu_bytes)));
        found
    }

    /// The samples at which more had been acknowledged than at the one before.
    fn progress_ms(&self) -> impl Iterator<Item = f64> {
        let two = self.samples.windows(2).filter(|two| two[1].1.bytes_acked > two[0].1.bytes_acked);
        two.map(|two| two[1].0)
    }

    fn most_acked(&self, after_ms: f64, until_ms: f64) -> u64 {
        self.acked(after_ms, until_ms).map(|(bytes, _)| bytes).max().unwrap_or(0)
    }

    /// What was acknowledged at each sample within a time, and the figures then.
    fn acked(&self, after_ms: f64, until_ms: f64) -> impl Iterator<Item = (u64, &'a PathFigures)> {
        let before = std::iter::once(0).chain(self.samples.iter().map(|(_, figures)| figures.bytes_acked));
        self.samples
            .iter()
            .zip(before)
            .filter(move |((t_ms, _), _)| *t_ms > after_ms && *t_ms <= until_ms)
            .map(|((_, figures), before)| (figures.bytes_acked.saturating_sub(before), *figures))
    }

    /// Whether what this subflow got through does not contradict the silence of another one on its path; what it tells
    /// of sizes is noted. `is_later`: it was opened after the silent one.
    fn bears_out(&self, silence: &mut Silence<'a>, is_later: bool) -> bool {
        let end_ms = silence.end_ms();
        for (bytes, figures) in self.acked(silence.from_ms, end_ms) {
            let smaller = figures.mss_bytes < silence.first.mss_bytes;
            if bytes >= silence.vanished_bytes() && !smaller {
                return false;
            }
            silence.small_ones_passed |= bytes > 0;
        }
        if is_later && silence.after.is_none() && silence.to_ms.is_some() {
            // Closed in silence, with this one in its place.
            let full = |(bytes, figures): &(u64, &PathFigures)| *bytes >= u64::from(figures.mss_bytes);
            silence.after = self.acked(silence.from_ms, f64::INFINITY).find(full).map(|(_, figures)| figures);
        }
        true
    }
}

struct Building<'a> {
    from_ms: f64,
    first: &'a PathFigures,
    last: &'a PathFigures,
    backoff: u32,
    ear: Ear,
    lowered: Lowered,
}

impl<'a> Building<'a> {
    fn new(t_ms: f64, figures: &'a PathFigures) -> Self {
        Self {
            from_ms: t_ms,
            first: figures,
            last: figures,
            backoff: figures.backoff,
            ear: Ear::default(),
            lowered: Lowered::default(),
        }
    }

    fn take(&mut self, t_ms: f64, figures: &'a PathFigures, peer_answered_ms: &[f64]) {
        self.last = figures;
        self.backoff = self.backoff.max(figures.backoff);
        let earliest_ms = self.from_ms + answer_time_ms(figures);
        let next = peer_answered_ms.partition_point(|answered_ms| *answered_ms < earliest_ms);
        let answered_ms = peer_answered_ms.get(next).copied();
        self.ear.take(t_ms, answered_ms, figures);
        self.lowered.take(t_ms, self.first, figures);
    }

    const fn end(
        self,
        to_ms: Option<f64>,
        seen_until_ms: f64,
        after: Option<&'a PathFigures>,
        largest_pmtu_bytes: u32,
    ) -> Silence<'a> {
        Silence {
            from_ms: self.from_ms,
            to_ms,
            seen_until_ms,
            first: self.first,
            last: self.last,
            after,
            backoff: self.backoff,
            largest_pmtu_bytes,
            passed_before_bytes: 0,
            small_ones_passed: self.ear.sure,
            small_ones_lost: self.lowered.lost,
        }
    }
}

/// Time for an answer: two round trips, and what a machine that is busy needs.
fn answer_time_ms(figures: &PathFigures) -> f64 {
    2.0 * figures.srtt_ms + 200.0
}

/// Whether small packets pass in a silence: the peer's own data is acknowledged there, by packets of this end that
/// carry nothing else. After an outage they pass again, too, before the retransmission timer runs out; so it counts only
/// when something was sent again afterwards, and enough time passed for its answer.
#[derive(Default)]
struct Ear {
    resent_by_then: Option<u64>,
    resent_ms: Option<f64>,
    sure: bool,
}

impl Ear {
    /// `answered_ms`: when the peer first had an acknowledgement that cannot have been on its way before.
    fn take(&mut self, t_ms: f64, answered_ms: Option<f64>, figures: &PathFigures) {
        if answered_ms.is_none_or(|answered_ms| t_ms < answered_ms) {
            return;
        }
        let by_then = *self.resent_by_then.get_or_insert(figures.retransmitted_bytes);
        if figures.retransmitted_bytes > by_then {
            let resent_ms = *self.resent_ms.get_or_insert(t_ms);
            self.sure |= t_ms - resent_ms >= answer_time_ms(figures);
        }
    }
}

#[derive(Default)]
struct Lowered {
    then: Option<(u32, u64)>,
    resent_ms: Option<f64>,
    lost: bool,
}

impl Lowered {
    fn take(&mut self, t_ms: f64, first: &PathFigures, figures: &PathFigures) {
        if figures.mss_bytes == 0 || figures.mss_bytes >= first.mss_bytes {
            return;
        }
        let now = (figures.mss_bytes, figures.retransmitted_bytes);
        let then = *self.then.get_or_insert(now);
        if then.0 > now.0 {
            // Lowered again: what was too large may pass now.
            *self = Self { then: Some(now), ..Self::default() };
        } else if now.1 > then.1 {
            let resent_ms = *self.resent_ms.get_or_insert(t_ms);
            self.lost |= t_ms - resent_ms >= answer_time_ms(figures);
        }
    }
}
