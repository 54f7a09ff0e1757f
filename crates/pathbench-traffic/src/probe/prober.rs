//! Probes one path, sans-IO: time and datagrams in, datagrams and outcomes out.

use super::{ProbeCounts, ProbeOutcome};
use crate::datagram::{DatagramClient, HELLO_BYTES, Kind, Message, Outgoing, Unsent};
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A probe that is not answered within this is lost.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Silence after which the prober introduces itself again: its address may have changed on the way (NAT).
const SILENCE: Duration = Duration::from_millis(500);

/// Probes that may be under way; at the shortest interval it takes three seconds to get there.
const MOST_UNDER_WAY: usize = 4096;

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
    stopped: bool,
    under_way: BTreeMap<u32, Timestamp>,
    /// Answered or lost, and whether it was answered.
    settled: BTreeMap<u32, bool>,
    last_heard: Option<Timestamp>,
    results: Vec<Settled>,
    counts: ProbeCounts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub sequence: u32,
    pub sent_at: Timestamp,
    pub outcome: ProbeOutcome,
}

impl Prober {
    pub fn new(start: Timestamp, interval: Duration, session: u64, token: Option<&str>) -> Self {
        Self {
            start,
            interval,
            session,
            token: token.unwrap_or_default().to_owned(),
            cookie: None,
            next: 0,
            stopped: false,
            under_way: BTreeMap::new(),
            settled: BTreeMap::new(),
            last_heard: None,
            results: Vec::new(),
            counts: ProbeCounts::default(),
        }
    }

    /// The cookie is not valid for the address of a new socket.
    pub fn introduce_again(&mut self) {
        self.cookie = None;
    }

    fn at(&self, sequence: u32) -> Timestamp {
        self.start + self.interval.saturating_mul(sequence)
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub fn expire(&mut self, now: Timestamp) {
        while let Some((&sequence, &sent_at)) = self.under_way.first_key_value()
            && now.since(sent_at) >= TIMEOUT
        {
            self.under_way.remove(&sequence);
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
    }

    pub fn finish(&mut self) {
        while let Some((sequence, sent_at)) = self.under_way.pop_first() {
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Since when nothing has been heard of the server; `None` before the first answer.
    pub const fn last_heard(&self) -> Option<Timestamp> {
        self.last_heard
    }

    pub fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.results)
    }

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

impl DatagramClient for Prober {
    /// The next probe. Probes that were missed, because the host slept, are left out.
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        if now < self.due() {
            return None;
        }
        let missed = now.since(self.due()).as_nanos() / self.interval.as_nanos().max(1);
        let sequence = self.next.saturating_add(u32::try_from(missed).unwrap_or(u32::MAX - 1));
        for left_out in self.next..sequence.min(self.next.saturating_add(MOST_UNDER_WAY as u32)) {
            let at = self.at(left_out);
            let error = "not sent in time: this host was busy or asleep".to_owned();
            self.settle(left_out, at, ProbeOutcome::Refused { error });
        }
        self.next = sequence.saturating_add(1);
        let is_silent = self.last_heard.is_none_or(|last| now.since(last) > SILENCE);
        let cookie = self.cookie.filter(|_| !is_silent);
        let (kind, length) = if cookie.is_some() { (Kind::Probe, 0) } else { (Kind::Hello, HELLO_BYTES) };
        let message = Message {
            cookie: cookie.unwrap_or_default(),
            value: now.as_nanos(),
            text: if kind == Kind::Hello { self.token.clone() } else { String::new() },
            ..Message::new(kind, self.session, sequence)
        };
        self.under_way.insert(sequence, now);
        if self.under_way.len() > MOST_UNDER_WAY
            && let Some((sequence, sent_at)) = self.under_way.pop_first()
        {
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
        Some(Outgoing { sequence, payload: message.encode(length) })
    }

    fn due(&self) -> Timestamp {
        if self.stopped { Timestamp::from_nanos(u64::MAX) } else { self.at(self.next) }
    }

    fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        let Some(message) = Message::decode(datagram).filter(|message| message.session == self.session)
        else {
            return;
        };
        let outcome = |sent_at| match message.kind {
            Kind::Refused => ProbeOutcome::Refused { error: format!("the server refused: {}", message.text) },
            _ => ProbeOutcome::Answered { rtt: now.since(sent_at) },
        };
        match message.kind {
            Kind::Welcome => self.cookie = Some(message.cookie),
            Kind::Refused => self.cookie = None,
            Kind::Answer => {}
            _ => return,
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

    fn not_sent(&mut self, _now: Timestamp, sequence: u32, why: Unsent) {
        let error = match why {
            Unsent::Failed { reason } => reason,
            Unsent::Full => "the send queue is full".to_owned(),
            Unsent::TooLong { .. } => "too long for the interface".to_owned(),
        };
        if let Some(sent_at) = self.under_way.remove(&sequence) {
            self.settle(sequence, sent_at, ProbeOutcome::Refused { error });
        }
    }

    fn refused(&mut self, reason: String) {
        if let Some((sequence, sent_at)) = self.under_way.pop_last() {
            self.settle(sequence, sent_at, ProbeOutcome::Refused { error: reason });
        }
    }

    fn icmp(&mut self, _now: Timestamp, _router: IpAddr, _said_bytes: u32, _quoted: &[u8]) {}
}
