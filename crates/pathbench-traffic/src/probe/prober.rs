//! What probes one path, without a socket: time and datagrams in, datagrams and outcomes out.

use super::header::HEADER_BYTES;
use super::message::{MAX_TEXT_BYTES, ProbeKind, ProbeMessage};
use super::{ProbeCounts, ProbeOutcome};
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// A probe that is not answered within this is lost.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Silence after which the prober introduces itself again: its address may have changed on the way (NAT).
const SILENCE: Duration = Duration::from_millis(500);

/// A hello is so long that the reason of a refusal fits into an answer that is no longer.
const HELLO_BYTES: usize = HEADER_BYTES + 280;

/// Probes that may be under way; at the shortest interval it takes three seconds to get there.
const MOST_UNDER_WAY: usize = 4096;

/// Probes whose late answers are recognised.
const REMEMBERED: usize = 1024;

/// One path's prober.
///
/// Every probe is one datagram, sent on a grid of time. Until the server has given a cookie, and while it is silent,
/// the datagram is a hello, which it answers as well: so every probe has a round-trip time or was lost, and no probe
/// is spent on formalities.
#[derive(Debug)]
pub struct Prober {
    start: Timestamp,
    interval: Duration,
    session: u64,
    token: String,
    cookie: Option<u64>,
    next: u32,
    under_way: BTreeMap<u32, Timestamp>,
    /// Answered or lost, and whether it was answered.
    settled: BTreeMap<u32, bool>,
    last_heard: Option<Timestamp>,
    results: Vec<Settled>,
    counts: ProbeCounts,
}

/// A probe whose fate is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Its number.
    pub sequence: u32,
    /// When it was sent, or was to be.
    pub sent_at: Timestamp,
    /// What became of it.
    pub outcome: ProbeOutcome,
}

impl Prober {
    /// A prober that begins at `start`; `session` is a random number.
    pub fn new(start: Timestamp, interval: Duration, session: u64, token: Option<&str>) -> Self {
        Self {
            start,
            interval,
            session,
            token: token.unwrap_or_default().to_owned(),
            cookie: None,
            next: 0,
            under_way: BTreeMap::new(),
            settled: BTreeMap::new(),
            last_heard: None,
            results: Vec::new(),
            counts: ProbeCounts::default(),
        }
    }

    /// When the next probe is due.
    pub fn due(&self) -> Timestamp {
        self.start + self.interval.saturating_mul(self.next)
    }

    /// The next probe, when it is due, to be sent now. Probes that were missed, because the host slept, are left out.
    pub fn probe(&mut self, now: Timestamp) -> Option<(u32, Vec<u8>)> {
        if now < self.due() {
            return None;
        }
        let missed = now.since(self.due()).as_nanos() / self.interval.as_nanos().max(1);
        let sequence = self.next.saturating_add(u32::try_from(missed).unwrap_or(u32::MAX - 1));
        for left_out in self.next..sequence.min(self.next.saturating_add(MOST_UNDER_WAY as u32)) {
            let at = self.start + self.interval.saturating_mul(left_out);
            let error = "not sent in time: this host was busy or asleep".to_owned();
            self.settle(left_out, at, ProbeOutcome::Refused { error });
        }
        self.next = sequence.saturating_add(1);
        let is_silent = self.last_heard.is_none_or(|last| now.since(last) > SILENCE);
        let cookie = self.cookie.filter(|_| !is_silent);
        let kind = if cookie.is_some() { ProbeKind::Probe } else { ProbeKind::Hello };
        let message = ProbeMessage {
            kind,
            sequence,
            session: self.session,
            cookie: cookie.unwrap_or_default(),
            sent_ns: now.as_nanos(),
            text: if kind == ProbeKind::Hello { self.token.clone() } else { String::new() },
        };
        self.under_way.insert(sequence, now);
        if self.under_way.len() > MOST_UNDER_WAY
            && let Some((sequence, sent_at)) = self.under_way.pop_first()
        {
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
        Some((sequence, message.encode(if kind == ProbeKind::Hello { HELLO_BYTES } else { 0 })))
    }

    /// The socket is a new one: the server may know it by another address, for which the cookie is not good.
    pub fn introduce_again(&mut self) {
        self.cookie = None;
    }

    /// A probe could not be sent.
    pub fn not_sent(&mut self, sequence: u32, error: String) {
        if let Some(sent_at) = self.under_way.remove(&sequence) {
            self.settle(sequence, sent_at, ProbeOutcome::Refused { error });
        }
    }

    /// The network said that something does not arrive (ICMP): most likely the latest probe.
    pub fn network_refused(&mut self, error: String) {
        if let Some((sequence, sent_at)) = self.under_way.pop_last() {
            self.settle(sequence, sent_at, ProbeOutcome::Refused { error });
        }
    }

    /// A datagram came from the server.
    pub fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        let Some(message) = ProbeMessage::decode(datagram).filter(|message| message.session == self.session)
        else {
            return;
        };
        let outcome = |sent_at| match message.kind {
            ProbeKind::Refused => {
                ProbeOutcome::Refused { error: format!("the server refused: {}", message.text) }
            }
            _ => ProbeOutcome::Answered { rtt: now.since(sent_at) },
        };
        match message.kind {
            ProbeKind::Hello | ProbeKind::Probe => return,
            ProbeKind::Welcome => self.cookie = Some(message.cookie),
            ProbeKind::Refused => self.cookie = None,
            ProbeKind::Answer => {}
        }
        if let Some(sent_at) = self.under_way.remove(&message.sequence) {
            self.last_heard = Some(now);
            self.settle(message.sequence, sent_at, outcome(sent_at));
        } else {
            match self.settled.get_mut(&message.sequence) {
                Some(answered @ false) => {
                    *answered = true;
                    self.counts.late += 1;
                }
                Some(true) => self.counts.duplicates += 1,
                None => {}
            }
        }
    }

    /// Gives up what has been under way for too long.
    pub fn expire(&mut self, now: Timestamp) {
        while let Some((&sequence, &sent_at)) = self.under_way.first_key_value()
            && now.since(sent_at) >= TIMEOUT
        {
            self.under_way.remove(&sequence);
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
    }

    /// Gives up all that is under way.
    pub fn finish(&mut self) {
        while let Some((sequence, sent_at)) = self.under_way.pop_first() {
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
    }

    /// Whether anything is under way.
    pub fn is_waiting(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Since when nothing has been heard of the server; `None` before the first answer.
    pub const fn last_heard(&self) -> Option<Timestamp> {
        self.last_heard
    }

    /// What became known since the last call.
    pub fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.results)
    }

    /// Answers that came too late or twice.
    pub const fn counts(&self) -> ProbeCounts {
        self.counts
    }

    fn settle(&mut self, sequence: u32, sent_at: Timestamp, outcome: ProbeOutcome) {
        // What was refused here never left, so that no answer can come late.
        self.settled.insert(sequence, outcome != ProbeOutcome::Lost);
        if self.settled.len() > REMEMBERED {
            self.settled.pop_first();
        }
        self.results.push(Settled { sequence, sent_at, outcome });
    }
}

/// Whether a token fits into a hello.
pub(super) const fn fits(token: &str) -> bool {
    token.len() <= MAX_TEXT_BYTES
}

#[cfg(test)]
mod tests {
    use super::super::ProbeResponder;
    use super::*;
    use crate::server::Access;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(5_000_000_000 + ms * 1_000_000)
    }

    fn prober() -> Prober {
        Prober::new(at(0), 100 * MS, 42, None)
    }

    /// Runs a prober against a responder for `ms`, over a way that takes `rtt_ms` and does to each datagram what `fate`
    /// says: how often it arrives there.
    fn run(ms: u64, rtt_ms: u64, fate: impl Fn(u32) -> usize) -> (Prober, Vec<Settled>) {
        let peer = "192.0.2.1:9".parse().unwrap();
        let mut responder = ProbeResponder::new(Access::Open, 4, at(0));
        let (mut prober, mut settled) = (prober(), Vec::new());
        let mut under_way: BTreeMap<Timestamp, Vec<Vec<u8>>> = BTreeMap::new();
        for now in 0..ms {
            for answer in under_way.remove(&at(now)).unwrap_or_default() {
                prober.received(at(now), &answer);
            }
            if let Some((sequence, datagram)) = prober.probe(at(now)) {
                for _ in 0..fate(sequence) {
                    let answer = responder.answer(at(now), peer, &datagram);
                    under_way.entry(at(now + rtt_ms)).or_default().extend(answer);
                }
            }
            prober.expire(at(now));
            settled.extend(prober.take_settled());
        }
        prober.finish();
        settled.extend(prober.take_settled());
        (prober, settled)
    }

    #[test]
    fn every_probe_is_accounted_for_once_and_the_first_already_measures() {
        let (prober, settled) = run(2000, 30, |_| 1);
        assert_eq!(settled.len(), 20);
        for (probe, sequence) in settled.iter().zip(0..) {
            assert_eq!((probe.sequence, probe.sent_at), (sequence, at(u64::from(sequence) * 100)));
            assert_eq!(probe.outcome, ProbeOutcome::Answered { rtt: 30 * MS });
        }
        assert_eq!(prober.counts(), ProbeCounts::default());
        assert!(prober.cookie.is_some() && !prober.is_waiting());
    }

    #[test]
    fn silence_is_loss_and_what_comes_after_it_counts_again() {
        // From 1 s on nothing arrives for 2 s.
        let (_, settled) = run(8000, 30, |sequence| usize::from(!(10..30).contains(&sequence)));
        let lost: Vec<u32> = settled
            .iter()
            .filter(|probe| probe.outcome == ProbeOutcome::Lost)
            .map(|probe| probe.sequence)
            .collect();
        assert_eq!(lost, (10..30).collect::<Vec<_>>());
        assert_eq!(settled.len(), 80);
    }

    #[test]
    fn a_new_address_costs_no_probe() {
        let mut responder = ProbeResponder::new(Access::Open, 4, at(0));
        let mut prober = prober();
        for (step, peer) in [(0, "192.0.2.1:9"), (100, "192.0.2.1:9"), (200, "192.0.2.7:4")] {
            if step == 200 {
                prober.introduce_again();
            }
            let (_, datagram) = prober.probe(at(step)).unwrap();
            let answer = responder.answer(at(step), peer.parse().unwrap(), &datagram).unwrap();
            prober.received(at(step + 1), &answer);
        }
        let settled = prober.take_settled();
        assert_eq!(settled.len(), 3);
        assert!(settled.iter().all(|probe| probe.outcome == ProbeOutcome::Answered { rtt: MS }));
    }

    #[test]
    fn late_answers_and_duplicates_are_told_apart() {
        let (prober, settled) = run(8000, 3200, |_| 1);
        assert!(settled.iter().all(|probe| probe.outcome == ProbeOutcome::Lost));
        assert!(prober.counts().late >= 40 && prober.counts().duplicates == 0, "{:?}", prober.counts());
        let (prober, settled) = run(1000, 10, |_| 2);
        assert!(settled.iter().all(|probe| probe.outcome == ProbeOutcome::Answered { rtt: 10 * MS }));
        assert_eq!(prober.counts(), ProbeCounts { late: 0, duplicates: 10 });
    }

    #[test]
    fn what_is_not_sent_or_missed_is_refused_with_the_reason() {
        let mut prober = prober();
        assert_eq!(prober.probe(at(0)).unwrap().0, 0);
        prober.not_sent(0, "Network is unreachable".to_owned());
        prober.not_sent(0, "twice".to_owned());
        prober.network_refused("nothing is under way".to_owned());
        assert_eq!(prober.probe(at(99)), None);
        // Asleep from 100 ms to 350 ms: 1 and 2 were never sent.
        assert_eq!(prober.probe(at(350)).unwrap().0, 3);
        let refused: Vec<(u32, bool)> = prober
            .take_settled()
            .iter()
            .map(|probe| (probe.sequence, matches!(&probe.outcome, ProbeOutcome::Refused { .. })))
            .collect();
        assert_eq!(refused, [(0, true), (1, true), (2, true)]);
        assert_eq!(prober.due(), at(400));
        // A year asleep is bounded, too.
        assert!(prober.probe(at(400 + 365 * 86_400_000)).is_some());
        assert!(prober.take_settled().len() <= MOST_UNDER_WAY);
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words_and_asked_again() {
        let mut prober = prober();
        let (sequence, hello) = prober.probe(at(0)).unwrap();
        let hello = ProbeMessage::decode(&hello).unwrap();
        let refusal = ProbeMessage { kind: ProbeKind::Refused, text: "no".to_owned(), ..hello };
        prober.received(at(5), &refusal.encode(0));
        let error = "the server refused: no".to_owned();
        assert_eq!(
            prober.take_settled(),
            [Settled { sequence, sent_at: at(0), outcome: ProbeOutcome::Refused { error } }]
        );
        let again = ProbeMessage::decode(&prober.probe(at(100)).unwrap().1).unwrap();
        assert_eq!(again.kind, ProbeKind::Hello);
        // Somebody else's session says nothing.
        let foreign = ProbeMessage { kind: ProbeKind::Welcome, session: 43, sequence: 1, ..refusal };
        prober.received(at(105), &foreign.encode(0));
        assert!(prober.is_waiting());
    }

    proptest! {
        #[test]
        fn whatever_comes_each_probe_is_settled_once(
            datagrams in prop::collection::vec((any::<bool>(), 0_u8..7, 0_u32..12, 0_u64..2000), 0..60),
        ) {
            let mut prober = prober();
            let (mut settled, mut sent, mut now) = (Vec::new(), 0, 0);
            for (ours, code, sequence, later) in datagrams {
                now += later;
                sent += u32::from(prober.probe(at(now)).is_some());
                let mut datagram = ProbeMessage {
                    kind: ProbeKind::Answer,
                    sequence,
                    session: if ours { 42 } else { 1 },
                    cookie: 1,
                    sent_ns: 0,
                    text: String::new(),
                }
                .encode(0);
                datagram[8] = code;
                prober.received(at(now), &datagram);
                prober.expire(at(now));
                settled.extend(prober.take_settled());
            }
            prober.finish();
            settled.extend(prober.take_settled());
            let mut numbers: Vec<u32> = settled.iter().map(|probe| probe.sequence).collect();
            numbers.sort_unstable();
            prop_assert!(numbers.len() as u32 >= sent);
            prop_assert_eq!(numbers, (0..settled.len() as u32).collect::<Vec<_>>());
        }
    }
}
