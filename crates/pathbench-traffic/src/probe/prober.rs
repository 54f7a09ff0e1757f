//! Probes one path, sans-IO: time and datagrams in, datagrams and outcomes out.

use crate::datagram::{
    COOKIE_RENEWAL, COOKIE_VALIDITY, DatagramClient, DatagramKind, DatagramMessage, HELLO_BYTES, Outgoing,
    Unsent,
};
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// A probe without an answer after this time is lost.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Silence after which the prober sends a hello again: a NAT may have changed its address.
const SILENCE: Duration = Duration::from_millis(500);

/// Interval of the attempts to renew an old cookie.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

const MAX_IN_FLIGHT: usize = 4096;

const REMEMBERED: usize = 1024;

/// One path's prober.
///
/// Every probe is one datagram, sent at a fixed interval. Until the server has sent a cookie, while it is silent, and
/// while the cookie is old, the datagram is a hello, which the server also answers: so every probe has a round-trip time or was lost.
#[derive(Debug)]
pub struct NetworkProber {
    path: usize,
    start: Timestamp,
    interval: Duration,
    session: u64,
    token: String,
    /// The cookie and the time of its arrival.
    cookie: Option<(u64, Timestamp)>,
    next_renewal: Timestamp,
    next: u32,
    pub stopped: bool,
    pub in_flight: BTreeMap<u32, Timestamp>,
    /// Settled probes, and whether an answer to each has arrived.
    settled: BTreeMap<u32, bool>,
    /// Time of the server's last answer.
    pub last_received: Option<Timestamp>,
    results: Vec<ProbeSample>,
    pub counts: ProbeCounts,
}

impl NetworkProber {
    pub fn new(path: usize, start: Timestamp, interval: Duration, session: u64, token: Option<&str>) -> Self {
        Self {
            path,
            start,
            interval,
            session,
            token: token.unwrap_or_default().to_owned(),
            cookie: None,
            next_renewal: start,
            next: 0,
            stopped: false,
            in_flight: BTreeMap::new(),
            settled: BTreeMap::new(),
            last_received: None,
            results: Vec::new(),
            counts: ProbeCounts::default(),
        }
    }

    /// The cookie is not valid for the address of a new socket.
    pub fn discard_cookie(&mut self) {
        self.cookie = None;
    }

    fn due_time(&self, sequence: u32) -> Timestamp {
        self.start + self.interval.saturating_mul(sequence)
    }

    fn is_silent(&self, now: Timestamp) -> bool {
        self.last_received.is_none_or(|last| now.duration_since(last) > SILENCE)
    }

    pub fn expire(&mut self, now: Timestamp) {
        while let Some((&sequence, &sent_at)) = self.in_flight.first_key_value()
            && now.duration_since(sent_at) >= TIMEOUT
        {
            self.in_flight.remove(&sequence);
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
    }

    pub fn finish(&mut self) {
        while let Some((sequence, sent_at)) = self.in_flight.pop_first() {
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
    }

    pub fn take_settled(&mut self) -> Vec<ProbeSample> {
        std::mem::take(&mut self.results)
    }

    fn settle(&mut self, sequence: u32, sent_at: Timestamp, outcome: ProbeOutcome) {
        // A refused probe was never sent, so no answer to it can arrive.
        self.settled.insert(sequence, outcome != ProbeOutcome::Lost);
        if self.settled.len() > REMEMBERED {
            self.settled.pop_first();
        }
        self.results.push(ProbeSample { path: self.path, sequence, sent_at, outcome });
    }
}

impl DatagramClient for NetworkProber {
    /// The next probe. Probes missed while the host slept are left out.
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        if now < self.due() {
            return None;
        }
        let missed = now.duration_since(self.due()).as_nanos() / self.interval.as_nanos().max(1);
        let sequence = self.next.saturating_add(u32::try_from(missed).unwrap_or(u32::MAX - 1));
        for left_out in self.next..sequence.min(self.next.saturating_add(MAX_IN_FLIGHT as u32)) {
            let at = self.due_time(left_out);
            let error = "not sent in time: this host was busy or asleep".to_owned();
            self.settle(left_out, at, ProbeOutcome::Refused { error });
        }
        self.next = sequence.saturating_add(1);
        let is_silent = self.is_silent(now);
        self.cookie = self.cookie.filter(|(_, since)| now.duration_since(*since) < COOKIE_VALIDITY);
        let is_old = self.cookie.is_none_or(|(_, since)| now.duration_since(since) >= COOKIE_RENEWAL);
        let is_renewal = is_old && self.cookie.is_some() && now >= self.next_renewal;
        if is_renewal {
            self.next_renewal = now + RENEWAL_INTERVAL;
        }
        let (kind, length) = if self.cookie.is_none() || is_silent || is_renewal {
            (DatagramKind::Hello, HELLO_BYTES)
        } else {
            (DatagramKind::Probe, 0)
        };
        let message = DatagramMessage {
            cookie: self.cookie.map_or(0, |(cookie, _)| cookie),
            value: now.as_nanos(),
            text: if kind == DatagramKind::Hello { self.token.clone() } else { String::new() },
            ..DatagramMessage::new(kind, self.session, sequence)
        };
        self.in_flight.insert(sequence, now);
        if self.in_flight.len() > MAX_IN_FLIGHT
            && let Some((sequence, sent_at)) = self.in_flight.pop_first()
        {
            self.settle(sequence, sent_at, ProbeOutcome::Lost);
        }
        Some(Outgoing { sequence, payload: message.encode(length) })
    }

    fn due(&self) -> Timestamp {
        if self.stopped { Timestamp::from_nanos(u64::MAX) } else { self.due_time(self.next) }
    }

    fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        let Some(message) =
            DatagramMessage::decode(datagram).filter(|message| message.session == self.session)
        else {
            return;
        };
        // A cookie that the server does not renew is valid until it expires.
        let is_refused =
            message.kind == DatagramKind::Refused && (self.cookie.is_none() || self.is_silent(now));
        let outcome = |sent_at| {
            if is_refused {
                ProbeOutcome::Refused { error: format!("the server refused: {}", message.text) }
            } else {
                ProbeOutcome::Answered { rtt: now.duration_since(sent_at) }
            }
        };
        match message.kind {
            DatagramKind::Welcome => self.cookie = Some((message.cookie, now)),
            DatagramKind::Refused if is_refused => self.cookie = None,
            DatagramKind::Refused | DatagramKind::Answer => {}
            _ => return,
        }
        if let Some(sent_at) = self.in_flight.remove(&message.sequence) {
            self.last_received = Some(now);
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
        if let Some(sent_at) = self.in_flight.remove(&sequence) {
            self.settle(sequence, sent_at, ProbeOutcome::Refused { error });
        }
    }

    fn refused(&mut self, reason: String) {
        if let Some((sequence, sent_at)) = self.in_flight.pop_last() {
            self.settle(sequence, sent_at, ProbeOutcome::Refused { error: reason });
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSample {
    pub path: usize,
    /// From 0 on each path. Every number is reported once, not necessarily in order (some are left out after the host
    /// has slept for hours).
    pub sequence: u32,
    pub sent_at: Timestamp,
    pub outcome: ProbeOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    Answered {
        rtt: Duration,
    },
    /// No answer within 3 s, or until the end.
    Lost,
    /// The kernel did not send the probe, or the network or the server refused it.
    Refused {
        error: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeCounts {
    pub late: u64,
    pub duplicates: u64,
}
