//! The course of a path at the sending end: when data waited there for an acknowledgement and none came.

use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;

/// A stretch in which a path had data outstanding and nothing was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Silence<'a> {
    /// The last sample with an acknowledgement, or the first with data outstanding.
    pub(super) from_ms: f64,
    /// The next acknowledgement, or the end of the subflow; `None`: it lasted to the end.
    pub(super) to_ms: Option<f64>,
    /// The last sample of the path.
    pub(super) seen_until_ms: f64,
    /// The subflow's figures when it began.
    pub(super) first: &'a PathFigures,
    /// The subflow's last figures in it.
    pub(super) last: &'a PathFigures,
    /// The figures that ended it, where an acknowledgement did.
    pub(super) after: Option<&'a PathFigures>,
    /// Largest back-off in it.
    pub(super) backoff: u32,
    /// Largest path MTU that was in force on the path up to its end.
    pub(super) largest_pmtu_bytes: u32,
    /// Whether the peer was heard in it, and what was sent again afterwards was not acknowledged either.
    pub(super) heard: bool,
    /// Whether data was sent again after the MSS had been lowered, without an acknowledgement.
    pub(super) small_ones_lost: bool,
    /// Whether the path carried nothing before.
    pub(super) from_the_start: bool,
}

impl Silence<'_> {
    pub(super) fn length_ms(&self) -> f64 {
        self.to_ms.unwrap_or(self.seen_until_ms) - self.from_ms
    }

    /// Long, and no mere long round trip: the retransmission timer ran out in it.
    pub(super) fn is_worth_telling(&self, transport: Transport) -> bool {
        let quic_noticed = matches!(transport, Transport::Quic | Transport::Mpquic)
            && self.last.black_holes > self.first.black_holes;
        self.length_ms() >= super::SHORTEST_SILENCE_MS && (self.backoff > 0 || quic_noticed)
    }

    /// Payload that waits for an acknowledgement.
    pub(super) const fn outstanding_bytes(&self) -> u64 {
        outstanding(self.last)
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

/// Whether enough was acknowledged that some of it went in segments of full size.
fn is_full(figures: &PathFigures) -> bool {
    figures.bytes_acked >= 2 * u64::from(figures.mss_bytes.max(1))
}

/// A subflow: its connection and its number there.
type Key = (u32, u32);

/// The silences of the path of that name at this end, in order of time. Subflows of several connections on one path
/// count together: while one of them gets acknowledgements, the path is not silent.
pub(super) fn silences<'a>(samples: &'a [Sample], path: &str, side: Side) -> Vec<Silence<'a>> {
    let mut course = Course::default();
    for sample in samples.iter().filter(|sample| sample.side == side && sample.path == path) {
        course.take(sample);
    }
    course.finish()
}

#[derive(Default)]
struct Course<'a> {
    /// Each subflow's last figures.
    known: BTreeMap<Key, &'a PathFigures>,
    largest_pmtu_bytes: u32,
    last_ms: f64,
    /// Acknowledged on the path so far, at least one segment of full size.
    carried: bool,
    open: Option<Building<'a>>,
    /// The subflow whose end was that of the last silence.
    closed_in_silence: Option<Key>,
    found: Vec<Silence<'a>>,
}

/// A silence that still lasts.
struct Building<'a> {
    key: Key,
    from_ms: f64,
    first: &'a PathFigures,
    last: &'a PathFigures,
    backoff: u32,
    from_the_start: bool,
    ear: Ear,
    lowered: Lowered,
}

/// Whether the peer is heard in a silence. One that is back after an outage is heard, too, before the retransmission
/// timer runs out; so it counts only when something was sent again afterwards, and enough time passed for its answer.
#[derive(Default)]
struct Ear {
    /// Packets received once all answers to what was sent before the silence must be in.
    heard_before: Option<u64>,
    /// Payload sent again up to the moment the peer was heard.
    resent_when_heard: Option<u64>,
    /// When something was sent again after that.
    resent_ms: Option<f64>,
    sure: bool,
}

/// Whether smaller segments are lost as well.
#[derive(Default)]
struct Lowered {
    resent_then: Option<(u32, u64)>,
    resent_ms: Option<f64>,
    lost: bool,
}

/// Time for an answer: two round trips, and what a machine that is busy needs.
fn answer_time_ms(figures: &PathFigures) -> f64 {
    2.0 * figures.srtt_ms + 200.0
}

impl Ear {
    fn take(&mut self, t_ms: f64, from_ms: f64, figures: &PathFigures) {
        let Some(received) = figures.packets_received else { return };
        if t_ms - from_ms < answer_time_ms(figures) {
            return;
        }
        let before = *self.heard_before.get_or_insert(received);
        if received > before {
            let resent = *self.resent_when_heard.get_or_insert(figures.retransmitted_bytes);
            if figures.retransmitted_bytes > resent {
                let resent_ms = *self.resent_ms.get_or_insert(t_ms);
                self.sure |= t_ms - resent_ms >= answer_time_ms(figures);
            }
        }
    }
}

impl Lowered {
    fn take(&mut self, t_ms: f64, first: &PathFigures, figures: &PathFigures) {
        if figures.mss_bytes == 0 || figures.mss_bytes >= first.mss_bytes {
            return;
        }
        let now = (figures.mss_bytes, figures.retransmitted_bytes);
        let then = self.resent_then.get_or_insert(now);
        if then.0 > now.0 {
            // Lowered again: what was too large may pass now.
            *self = Self { resent_then: Some(now), ..Self::default() };
        } else if now.1 > then.1 {
            let resent_ms = *self.resent_ms.get_or_insert(t_ms);
            self.lost |= t_ms - resent_ms >= answer_time_ms(figures);
        }
    }
}

impl<'a> Course<'a> {
    fn take(&mut self, sample: &'a Sample) {
        let (key, figures, t_ms) = ((sample.stream, sample.figures.subflow), &sample.figures, sample.t_ms);
        let before = self.known.insert(key, figures);
        self.last_ms = t_ms;
        if figures.bytes_acked > before.map_or(0, |before| before.bytes_acked) {
            self.end(t_ms, Some(figures).filter(|_| self.is_of_open(key)));
            self.succeed(key, figures);
        }
        self.largest_pmtu_bytes = self.largest_pmtu_bytes.max(figures.pmtu_bytes);
        // The first words of a test are small; only what fills segments says that these pass.
        self.carried |= is_full(figures);
        if self.open.is_some() && !self.known.values().any(|figures| waits(figures)) {
            self.closed_in_silence = self.open.as_ref().map(|open| open.key);
            self.end(t_ms, None);
        }
        match &mut self.open {
            Some(open) if open.key == key => {
                open.last = figures;
                open.backoff = open.backoff.max(figures.backoff);
                open.ear.take(t_ms, open.from_ms, figures);
                open.lowered.take(t_ms, open.first, figures);
            }
            None if waits(figures) => {
                self.open = Some(Building {
                    key,
                    from_ms: t_ms,
                    first: figures,
                    last: figures,
                    backoff: figures.backoff,
                    from_the_start: !self.carried,
                    ear: Ear::default(),
                    lowered: Lowered::default(),
                });
            }
            _ => {}
        }
    }

    /// A subflow that was closed while it was silent, and the one in its place that carries data.
    fn succeed(&mut self, key: Key, figures: &'a PathFigures) {
        if self.closed_in_silence.is_some_and(|closed| closed < key) && is_full(figures) {
            self.closed_in_silence = None;
            if let Some(silence) = self.found.last_mut() {
                silence.after = Some(figures);
            }
        }
    }

    fn is_of_open(&self, key: Key) -> bool {
        self.open.as_ref().is_some_and(|open| open.key == key)
    }

    fn end(&mut self, t_ms: f64, after: Option<&'a PathFigures>) {
        if let Some(open) = self.open.take() {
            let silence = self.silence(&open, Some(t_ms), after);
            self.found.push(silence);
        }
    }

    fn silence(
        &self,
        open: &Building<'a>,
        to_ms: Option<f64>,
        after: Option<&'a PathFigures>,
    ) -> Silence<'a> {
        Silence {
            from_ms: open.from_ms,
            to_ms,
            seen_until_ms: self.last_ms,
            first: open.first,
            last: open.last,
            after,
            backoff: open.backoff,
            largest_pmtu_bytes: self.largest_pmtu_bytes,
            heard: open.ear.sure,
            small_ones_lost: open.lowered.lost,
            from_the_start: open.from_the_start,
        }
    }

    fn finish(mut self) -> Vec<Silence<'a>> {
        if let Some(open) = self.open.take() {
            let last = self.silence(&open, None, None);
            self.found.push(last);
        }
        self.found
    }
}
