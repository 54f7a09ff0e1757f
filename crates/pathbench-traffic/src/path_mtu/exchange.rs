//! The messages to the server and their fates, sans-IO, without conclusions about MTUs.

use crate::datagram::{
    COOKIE_RENEWAL, COOKIE_VALIDITY, DatagramKind, DatagramMessage, HELLO_BYTES, Outgoing, Unsent,
};
use pathbench_record::direction::Direction;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Shortest interval between hellos until one is answered.
const HELLO_INTERVAL: Duration = Duration::from_millis(200);
/// Number of stored hellos whose answers give a round-trip time.
const REMEMBERED_HELLOS: usize = 32;
/// Number of stored probes that count as lost but may still be answered.
const REMEMBERED: usize = 512;
/// Packets up to this size are small.
const SMALL_BYTES: u32 = 576;

/// Timeout of an answer before a round-trip time is known.
const INITIAL: Duration = Duration::from_secs(1);
/// Lower bound of the timeout: a busy host needs time to answer.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(3);
/// Shortest wait for an answer after a later probe was answered.
const LEAST_SLACK: Duration = Duration::from_millis(3);
const KEPT: usize = 512;

/// Marks of requests for the path MTU in the server's kernel, and of other trials that belong to no search.
pub(super) const KERNEL_MTU: u32 = u32::MAX - 1;
pub(super) const FOLLOWER: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionParameters {
    pub session: u64,
    /// The client's token, if the server requires one.
    pub token: Option<String>,
    pub family: AddressFamily,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) direction: Direction,
    pub(super) size_bytes: u32,
    pub(super) mark: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeFate {
    Passed,
    Lost,
    PassedLate,
    /// The packet exceeds the sending interface's MTU (given if known).
    TooLong(Option<u32>),
    /// Not sent, for a reason unrelated to its size.
    NotSent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) trial: Trial,
    pub(super) fate: ProbeFate,
    /// Time beyond the shortest round trip, if it passed in time: mostly queueing delay.
    pub(super) delayed: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    trial: Trial,
    sent_at: Timestamp,
    overtaken_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) parameters: SessionParameters,
    /// The cookie and the time of its arrival.
    cookie: Option<(u64, Timestamp)>,
    pub(super) had_cookie: bool,
    next_hello: Timestamp,
    hello_interval: Duration,
    hellos: BTreeMap<u32, Timestamp>,
    next: u32,
    pub(super) in_flight: BTreeMap<u32, InFlight>,
    timed_out: BTreeMap<u32, Trial>,
    pub(super) settled: VecDeque<Settled>,
    pub(super) refusal: Option<String>,
    pub(super) last_received: Option<Timestamp>,
    pub(super) sent: u32,
    /// The path MTU in the server's kernel after the server's answer; 0: unknown.
    pub(super) server_kernel_mtu: Option<u32>,
    pub(super) round_trip: RoundTrip,
}

impl Exchange {
    /// Sends a hello every `hello_interval`, at least `HELLO_INTERVAL`, until one is answered.
    pub(super) fn new(now: Timestamp, parameters: SessionParameters, hello_interval: Duration) -> Self {
        Self {
            parameters,
            cookie: None,
            had_cookie: false,
            next_hello: now,
            hello_interval: hello_interval.max(HELLO_INTERVAL),
            hellos: BTreeMap::new(),
            next: 0,
            in_flight: BTreeMap::new(),
            timed_out: BTreeMap::new(),
            settled: VecDeque::new(),
            refusal: None,
            last_received: None,
            sent: 0,
            server_kernel_mtu: None,
            round_trip: RoundTrip::default(),
        }
    }

    pub(super) fn has_cookie(&self) -> bool {
        self.cookie.is_some()
    }

    pub(super) fn discard_cookie(&mut self, now: Timestamp) {
        if self.cookie.take().is_some() {
            self.next_hello = now;
        }
    }

    /// The hello that is due: without a cookie, or to renew an old one.
    pub(super) fn hello(&mut self, now: Timestamp) -> Option<Outgoing> {
        let age = self.cookie.map(|(_, since)| now.duration_since(since));
        if age.is_some_and(|age| age >= COOKIE_VALIDITY) {
            self.discard_cookie(now);
        }
        if age.is_some_and(|age| age < COOKIE_RENEWAL) || now < self.next_hello {
            return None;
        }
        self.next_hello = now + self.hello_interval;
        let sequence = self.number();
        self.hellos.insert(sequence, now);
        if self.hellos.len() > REMEMBERED_HELLOS {
            self.hellos.pop_first();
        }
        let message = DatagramMessage {
            cookie: self.cookie.map_or(0, |(cookie, _)| cookie),
            value: now.as_nanos(),
            text: self.parameters.token.clone().unwrap_or_default(),
            ..DatagramMessage::new(DatagramKind::Hello, self.parameters.session, sequence)
        };
        Some(Outgoing { sequence, payload: message.encode(HELLO_BYTES) })
    }

    /// The datagram of a trial; `None` without a cookie.
    pub(super) fn send(&mut self, now: Timestamp, trial: Trial) -> Option<Outgoing> {
        let (cookie, _) = self.cookie?;
        let sequence = self.number();
        let (kind, length) = match trial.direction {
            _ if trial.mark == KERNEL_MTU => (DatagramKind::KernelMtuRequest, 0),
            Direction::Upload => {
                (DatagramKind::SizeProbe, self.parameters.family.udp_payload_bytes(trial.size_bytes))
            }
            Direction::Download => (DatagramKind::SizeRequest, 0),
        };
        let message =
            DatagramMessage { cookie, ..DatagramMessage::new(kind, self.parameters.session, sequence) };
        self.in_flight.insert(sequence, InFlight { trial, sent_at: now, overtaken_at: None });
        Some(Outgoing { sequence, payload: message.with_sizes(trial.size_bytes, 0).encode(length) })
    }

    fn number(&mut self) -> u32 {
        self.sent = self.sent.saturating_add(1);
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        sequence
    }

    pub(super) fn not_sent(&mut self, sequence: u32, why: &Unsent) {
        let fate = match why {
            Unsent::TooLong { limit_bytes } => ProbeFate::TooLong(*limit_bytes),
            Unsent::Full | Unsent::Failed { .. } => ProbeFate::NotSent,
        };
        if let Some(flight) = self.in_flight.remove(&sequence) {
            self.sent = self.sent.saturating_sub(1);
            self.settle(flight.trial, fate, None);
        }
    }

    pub(super) fn quoted_size(&self, payload: &[u8]) -> Option<u32> {
        let message = DatagramMessage::decode(payload)?;
        let is_ours = message.session == self.parameters.session && message.kind == DatagramKind::SizeProbe;
        let flight = self.in_flight.get(&message.sequence).map(|flight| flight.trial);
        let trial = flight.or_else(|| self.timed_out.get(&message.sequence).copied());
        trial.filter(|_| is_ours).map(|trial| trial.size_bytes)
    }

    pub(super) fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        let Some(message) =
            DatagramMessage::decode(datagram).filter(|message| message.session == self.parameters.session)
        else {
            return;
        };
        if !matches!(message.kind, DatagramKind::Welcome | DatagramKind::Refused) {
            self.answered(now, &message, datagram.len());
        } else if let Some(sent_at) = self.hellos.remove(&message.sequence) {
            if message.kind == DatagramKind::Refused {
                // A cookie that the server does not renew is valid until it expires.
                self.refusal = (!self.has_cookie()).then_some(message.text);
                return;
            }
            self.cookie = Some((message.cookie, now));
            self.had_cookie = true;
            self.last_received = Some(now);
            self.round_trip.hello_sample(now.duration_since(sent_at));
        }
    }

    fn answered(&mut self, now: Timestamp, message: &DatagramMessage, length: usize) {
        let flight = self.in_flight.get(&message.sequence).copied();
        let trial = flight.map(|flight| flight.trial);
        let Some(trial) = trial.or_else(|| self.timed_out.get(&message.sequence).copied()) else { return };
        // An answer counts only for the size that was sent.
        let has_size = |size| size == trial.size_bytes;
        let fate = match (message.kind, trial.direction) {
            (DatagramKind::SizeReceived, Direction::Upload) if has_size(message.size_bytes()) => {
                ProbeFate::Passed
            }
            (DatagramKind::SizeResponse, Direction::Download)
                if has_size(self.parameters.family.udp_packet_bytes(length)) =>
            {
                ProbeFate::Passed
            }
            (DatagramKind::ExceedsInterface, Direction::Download) if has_size(message.size_bytes()) => {
                ProbeFate::TooLong(Some(message.limit_bytes()).filter(|limit| *limit > 0))
            }
            (DatagramKind::KernelMtu, Direction::Download) if trial.mark == KERNEL_MTU => {
                self.server_kernel_mtu = Some(message.limit_bytes());
                ProbeFate::Passed
            }
            (DatagramKind::Busy, Direction::Download) => ProbeFate::NotSent,
            _ => return,
        };
        self.last_received = Some(now);
        if self.timed_out.remove(&message.sequence).is_some() {
            if fate == ProbeFate::Passed {
                self.settle(trial, ProbeFate::PassedLate, None);
            }
            return;
        }
        self.in_flight.remove(&message.sequence);
        let delayed = flight.map(|flight| {
            let rtt = now.duration_since(flight.sent_at);
            self.round_trip.sample(rtt, trial.size_bytes <= SMALL_BYTES);
            rtt.saturating_sub(self.round_trip.shortest())
        });
        for (_, earlier) in self.in_flight.range_mut(..message.sequence) {
            if earlier.trial.direction == trial.direction && earlier.overtaken_at.is_none() {
                earlier.overtaken_at = Some(now);
            }
        }
        self.settle(trial, fate, delayed);
    }

    fn settle(&mut self, trial: Trial, fate: ProbeFate, delayed: Option<Duration>) {
        self.settled.push_back(Settled { trial, fate, delayed });
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        let over: Vec<u32> = self
            .in_flight
            .iter()
            .filter(|(_, flight)| self.deadline(flight) <= now)
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in over {
            let Some(flight) = self.in_flight.remove(&sequence) else { continue };
            self.settle(flight.trial, ProbeFate::Lost, None);
            self.timed_out.insert(sequence, flight.trial);
            if self.timed_out.len() > REMEMBERED {
                self.timed_out.pop_first();
            }
        }
    }

    fn deadline(&self, flight: &InFlight) -> Timestamp {
        let silent = flight.sent_at + self.round_trip.timeout();
        flight.overtaken_at.map_or(silent, |at| silent.min(at + self.round_trip.slack()))
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        let hello = (!self.has_cookie()).then_some(self.next_hello);
        self.in_flight.values().map(|flight| self.deadline(flight)).chain(hello).min()
    }
}

/// Round-trip time, smoothed as in TCP (RFC 6298).
#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<(Duration, Duration)>,
    is_of_hello: bool,
    shortest: Option<Duration>,
    small: Vec<Duration>,
}

impl RoundTrip {
    /// Adds the round-trip time of a hello. Neighbour discovery may have delayed it by seconds, so it counts only until
    /// another sample is known.
    pub(super) fn hello_sample(&mut self, rtt: Duration) {
        let is_better = self.is_of_hello && self.smoothed.is_some_and(|(mean, _)| rtt < mean);
        if self.smoothed.is_none() || is_better {
            self.smoothed = Some((rtt, rtt / 2));
            self.is_of_hello = true;
        }
    }

    pub(super) fn sample(&mut self, rtt: Duration, small: bool) {
        if std::mem::take(&mut self.is_of_hello) {
            self.smoothed = None;
        }
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            Some((mean, deviation)) => ((mean * 7 + rtt) / 8, (deviation * 3 + rtt.abs_diff(mean)) / 4),
        });
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if small && self.small.len() < KEPT {
            self.small.push(rtt);
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.smoothed.map_or(INITIAL, |(mean, deviation)| (mean + deviation * 4).clamp(SHORTEST, LONGEST))
    }

    pub(super) fn slack(&self) -> Duration {
        self.smoothed.map_or(LEAST_SLACK, |(mean, deviation)| deviation.min(mean / 2).max(LEAST_SLACK))
    }

    pub(super) fn shortest(&self) -> Duration {
        self.shortest.unwrap_or_default()
    }

    pub(super) fn median(&self) -> Option<Duration> {
        let mut sorted = self.small.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}
