//! The silences of a path at the sending end: periods with outstanding data and no acknowledgement.

use super::input::SHORTEST_SILENCE_MS;
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use std::collections::BTreeMap;

/// A period in which a subflow had data outstanding and received no acknowledgement for it.
#[derive(Debug, Clone)]
pub(super) struct Silence<'a> {
    pub(super) from_ms: f64,
    /// The next acknowledgement, or the close of the subflow; `None`: the silence lasted to the end of the run.
    pub(super) to_ms: Option<f64>,
    pub(super) seen_until_ms: f64,
    pub(super) first: &'a PathFigures,
    pub(super) last: &'a PathFigures,
    /// The figures at the acknowledgement that ended the silence, of this subflow or of its successor.
    pub(super) after: Option<&'a PathFigures>,
    pub(super) backoff: u32,
    pub(super) largest_pmtu_bytes: u32,
    /// Most bytes acknowledged on the path between two earlier samples: no larger packet is known to have passed.
    pub(super) passed_before_bytes: u64,
    pub(super) small_packets: SmallPackets,
    /// Whether data was retransmitted after the MSS had been lowered, without an acknowledgement.
    pub(super) small_ones_lost: bool,
}

impl Silence<'_> {
    pub(super) fn length_ms(&self) -> f64 {
        self.end_ms() - self.from_ms
    }

    fn end_ms(&self) -> f64 {
        self.to_ms.unwrap_or(self.seen_until_ms)
    }

    /// Whether the silence is long and more than a long round trip: a retransmission timeout, or a QUIC black hole.
    pub(super) fn is_reportable(&self) -> bool {
        let noticed = self.backoff > 0 || self.last.black_holes > self.first.black_holes;
        self.length_ms() >= SHORTEST_SILENCE_MS && noticed
    }

    pub(super) const fn outstanding_bytes(&self) -> u64 {
        outstanding(self.last)
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.outstanding_bytes().min(u64::from(self.first.mss_bytes))
    }

    /// Whether no packet of the size of the lost ones is known to have passed before.
    pub(super) fn is_from_the_start(&self) -> bool {
        self.passed_before_bytes < self.segment_bytes()
    }
}

/// Payload sent and not acknowledged. For QUIC, which may retransmit on any path, the bytes in flight.
const fn outstanding(figures: &PathFigures) -> u64 {
    if figures.path_id.is_some() {
        return figures.in_flight_bytes;
    }
    figures.bytes_sent.saturating_sub(figures.retransmitted_bytes).saturating_sub(figures.bytes_acked)
}

fn waits(figures: &PathFigures) -> bool {
    figures.state == PathState::Open && outstanding(figures) > 0
}

/// Connection and subflow number.
type Key = (u32, u32);

struct Subflow<'a> {
    key: Key,
    samples: Vec<(f64, &'a PathFigures)>,
}

/// The silences of path `path` at end `side`, sorted by time. Of silences of several subflows that overlap, only the
/// longest is kept. A silent subflow is no evidence against the path if another subflow gets segments of the same
/// size acknowledged.
pub(super) fn silences<'a>(samples: &'a [Sample], path: &str, side: Side) -> Vec<Silence<'a>> {
    let of_path = || samples.iter().filter(|sample| sample.path == path);
    let subflows = subflows(of_path().filter(|sample| sample.side == side));
    let of_peer = self::subflows(of_path().filter(|sample| sample.side != side));
    let mut found: Vec<Silence<'_>> = Vec::new();
    for subflow in &subflows {
        let others = || subflows.iter().filter(|other| other.key != subflow.key);
        // Every sample with outstanding data begins a silence; most are too short to matter.
        let lasting = |silence: &Silence<'_>| silence.is_reportable() || silence.to_ms.is_none();
        for mut silence in subflow.silences().into_iter().filter(lasting) {
            let before = subflows.iter().map(|one| one.most_acked(f64::NEG_INFINITY, silence.from_ms)).max();
            silence.passed_before_bytes = before.unwrap_or(0);
            if others().all(|other| other.confirms(&mut silence, other.key > subflow.key)) {
                let mut signs: Vec<(f64, SmallSign)> =
                    of_peer.iter().chain(others()).flat_map(|one| one.small_signs(&silence)).collect();
                signs.sort_by(|a, b| a.0.total_cmp(&b.0));
                silence.small_packets = subflow.small_packets(&silence, &signs);
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

/// Growth of a byte counter without data: the kernel counts SYN and FIN as one byte each.
const CONTROL_BYTES: u64 = 2;

/// Whether the end opposite to `side` received data on the path after `t_ms`.
pub(super) fn is_heard_after(samples: &[Sample], path: &str, side: Side, t_ms: f64) -> bool {
    let of_peer = samples.iter().filter(|sample| sample.path == path && sample.side != side);
    subflows(of_peer).iter().any(|subflow| {
        let received = |after: bool| {
            let those = subflow.samples.iter().filter(move |(at_ms, _)| (*at_ms > t_ms) == after);
            those.map(|(_, figures)| figures.bytes_received).max().unwrap_or(0)
        };
        received(true) > received(false).saturating_add(CONTROL_BYTES)
    })
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
    fn silences(&self) -> Vec<Silence<'a>> {
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
                Some(building) => building.take(t_ms, figures),
                None if waits(figures) => open = Some(Building::new(t_ms, figures)),
                None => {}
            }
        }
        let last_ms = self.samples.last().map_or(0.0, |(t_ms, _)| *t_ms);
        found.extend(open.map(|open| open.end(None, last_ms, None, largest_pmtu_bytes)));
        found
    }

    fn most_acked(&self, after_ms: f64, until_ms: f64) -> u64 {
        self.acked(after_ms, until_ms).map(|(bytes, _)| bytes).max().unwrap_or(0)
    }

    /// For each sample in an interval, the newly acknowledged bytes and the figures.
    fn acked(&self, after_ms: f64, until_ms: f64) -> impl Iterator<Item = (u64, &'a PathFigures)> {
        let before = std::iter::once(0).chain(self.samples.iter().map(|(_, figures)| figures.bytes_acked));
        self.samples
            .iter()
            .zip(before)
            .filter(move |((t_ms, _), _)| *t_ms > after_ms && *t_ms <= until_ms)
            .map(|((_, figures), before)| (figures.bytes_acked.saturating_sub(before), *figures))
    }

    /// Signs of this subflow, of either end, that small packets passed during the silence of another one, or were lost.
    fn small_signs(&self, silence: &Silence<'a>) -> impl Iterator<Item = (f64, SmallSign)> {
        let (segment_bytes, until_ms) = (silence.segment_bytes(), silence.end_ms());
        // Packets that arrived earlier may have been sent before the silence.
        let from_ms = silence.from_ms + answer_time_ms(silence.first);
        let begin = self.samples.partition_point(|(t_ms, _)| *t_ms < from_ms);
        let before = begin.checked_sub(1).and_then(|at| self.samples.get(at));
        let mut acked = before.map_or(0, |(_, figures)| figures.bytes_acked);
        let during = self.samples.iter().skip(begin).take_while(move |(t_ms, _)| *t_ms <= until_ms);
        during.filter_map(move |(t_ms, figures)| {
            let is_progress = figures.bytes_acked > acked;
            acked = figures.bytes_acked;
            let is_small = outstanding(figures).min(u64::from(figures.mss_bytes)) < segment_bytes;
            let is_lost = waits(figures) && figures.backoff > 0 && is_small;
            let sign = if is_progress { Some(SmallSign::Passed) } else { is_lost.then_some(SmallSign::Lost) };
            Some((*t_ms, sign?))
        })
    }

    /// Whether small packets passed while those of this silent subflow did not. Its data must have been retransmitted after
    /// the small packets had passed, without an answer in the time for it: after an outage small packets pass before the
    /// retransmission timer expires. Lost small packets refute the earlier ones.
    fn small_packets(&self, silence: &Silence<'a>, signs: &[(f64, SmallSign)]) -> SmallPackets {
        let mut signs = signs.iter().peekable();
        let mut meanwhile = Meanwhile::default();
        let begin = self.samples.partition_point(|(t_ms, _)| *t_ms < silence.from_ms);
        // The sample with the acknowledgement that ends the silence is no part of it.
        let is_silent = |t_ms: f64| silence.to_ms.map_or(t_ms <= silence.seen_until_ms, |to_ms| t_ms < to_ms);
        for &(t_ms, figures) in self.samples.iter().skip(begin).take_while(|(t_ms, _)| is_silent(*t_ms)) {
            while let Some((_, sign)) = signs.next_if(|(at_ms, _)| *at_ms <= t_ms) {
                meanwhile.take_sign(*sign, figures);
            }
            meanwhile.take(t_ms, figures);
        }
        meanwhile.found
    }

    /// Whether this subflow's acknowledged data is consistent with the silence of another subflow of its path. `is_later`:
    /// this subflow was opened after the silent one.
    fn confirms(&self, silence: &mut Silence<'a>, is_later: bool) -> bool {
        let end_ms = silence.end_ms();
        for (bytes, figures) in self.acked(silence.from_ms, end_ms) {
            let smaller = figures.mss_bytes < silence.first.mss_bytes;
            if bytes >= silence.segment_bytes() && !smaller {
                return false;
            }
        }
        if is_later && silence.after.is_none() && silence.to_ms.is_some() {
            // The silent subflow was closed, and this one replaced it.
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
    lowered: Lowered,
}

impl<'a> Building<'a> {
    fn new(t_ms: f64, figures: &'a PathFigures) -> Self {
        Self {
            from_ms: t_ms,
            first: figures,
            last: figures,
            backoff: figures.backoff,
            lowered: Lowered::default(),
        }
    }

    fn take(&mut self, t_ms: f64, figures: &'a PathFigures) {
        self.last = figures;
        self.backoff = self.backoff.max(figures.backoff);
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
            small_packets: SmallPackets::Unseen,
            small_ones_lost: self.lowered.lost,
        }
    }
}

/// Time allowed for an answer: two round trips, and 200 ms for a busy host.
fn answer_time_ms(figures: &PathFigures) -> f64 {
    2.0 * figures.srtt_ms + 200.0
}

/// A sign of another subflow of the path. Acknowledged data of the peer shows that pure acknowledgements of this end pass.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SmallSign {
    Passed,
    /// The retransmission timer expired for data that is smaller than the lost segments.
    Lost,
}

/// Small packets during the silence of a subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SmallPackets {
    #[default]
    Unseen,
    Passed,
    Lost,
}

#[derive(Default)]
struct Meanwhile {
    resent_by_then: Option<u64>,
    resent_ms: Option<f64>,
    found: SmallPackets,
}

impl Meanwhile {
    fn take_sign(&mut self, sign: SmallSign, figures: &PathFigures) {
        match sign {
            SmallSign::Passed => _ = self.resent_by_then.get_or_insert(figures.retransmitted_bytes),
            SmallSign::Lost => *self = Self { found: SmallPackets::Lost, ..Self::default() },
        }
    }

    fn take(&mut self, t_ms: f64, figures: &PathFigures) {
        if self.resent_by_then.is_some_and(|by_then| figures.retransmitted_bytes > by_then) {
            let resent_ms = *self.resent_ms.get_or_insert(t_ms);
            if t_ms - resent_ms >= answer_time_ms(figures) {
                self.found = SmallPackets::Passed;
            }
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
            // The MSS was lowered again: segments that were too large may pass now.
            *self = Self { then: Some(now), ..Self::default() };
        } else if now.1 > then.1 {
            let resent_ms = *self.resent_ms.get_or_insert(t_ms);
            self.lost |= t_ms - resent_ms >= answer_time_ms(figures);
        }
    }
}
