//! The account of what was sent to the server and what became of it: messages and time in and out, without an opinion
//! about sizes.

use crate::datagram::{Family, HELLO_BYTES, Kind, Message, Outgoing, Unsent};
use pathbench_record::direction::Direction;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Between hellos, until one is answered.
const HELLO_INTERVAL: Duration = Duration::from_millis(200);
/// Hellos whose answers tell a round-trip time.
const REMEMBERED_HELLOS: usize = 32;
/// Probes that were given up and may yet be answered.
const REMEMBERED: usize = 512;
/// Packets up to this size are small.
const SMALL_BYTES: u32 = 576;

/// Time to wait for an answer before a round trip is known.
const INITIAL: Duration = Duration::from_secs(1);
/// A machine that is busy answers late.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(3);
/// An answer that is overtaken by a later one is waited for so long at least.
const LEAST_SLACK: Duration = Duration::from_millis(3);
const KEPT: usize = 512;

/// Marks of requests for the path MTU in the server's kernel, and of other trials that are no search's.
pub(super) const KERNEL_MTU: u32 = u32::MAX - 1;
pub(super) const FOLLOWER: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    pub session: u64,
    /// What allows this client to ask, where the server wants a token.
    pub token: Option<String>,
    pub family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) direction: Direction,
    pub(super) size_bytes: u32,
    pub(super) mark: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Passed,
    Lost,
    PassedLate,
    /// The sending interface takes at most this many bytes, where that is known.
    TooLong(Option<u32>),
    /// It was not sent, for a reason that has nothing to do with its size.
    NotSent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) trial: Trial,
    pub(super) fate: Fate,
    /// How much longer than the shortest round trip it took, when it came through in time: mostly, what it met waiting.
    pub(super) delayed: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    trial: Trial,
    sent_at: Timestamp,
    overtaken_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Exchange {
    who: Introduction,
    cookie: Option<u64>,
    was_welcome: bool,
    next_hello: Timestamp,
    hello_interval: Duration,
    hellos: BTreeMap<u32, Timestamp>,
    next: u32,
    flights: BTreeMap<u32, Flight>,
    given_up: BTreeMap<u32, Trial>,
    settled: VecDeque<Settled>,
    refusal: Option<String>,
    last_heard: Option<Timestamp>,
    sent: u32,
    /// 0: not known.
    server_kernel_mtu: Option<u32>,
    pub(super) round_trip: RoundTrip,
}

impl Exchange {
    pub(super) fn new(now: Timestamp, who: Introduction) -> Self {
        Self {
            who,
            cookie: None,
            was_welcome: false,
            next_hello: now,
            hello_interval: HELLO_INTERVAL,
            hellos: BTreeMap::new(),
            next: 0,
            flights: BTreeMap::new(),
            given_up: BTreeMap::new(),
            settled: VecDeque::new(),
            refusal: None,
            last_heard: None,
            sent: 0,
            server_kernel_mtu: None,
            round_trip: RoundTrip::default(),
        }
    }

    pub(super) fn with_hellos_every(mut self, interval: Duration) -> Self {
        self.hello_interval = interval.max(HELLO_INTERVAL);
        self
    }

    pub(super) fn family(&self) -> Family {
        self.who.family
    }

    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    pub(super) fn is_welcome(&self) -> bool {
        self.cookie.is_some()
    }

    pub(super) fn was_welcome(&self) -> bool {
        self.was_welcome
    }

    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    pub(super) fn last_heard(&self) -> Option<Timestamp> {
        self.last_heard
    }

    pub(super) fn introduce_again(&mut self, now: Timestamp) {
        if self.cookie.take().is_some() {
            self.next_hello = now;
        }
    }

    pub(super) fn hello(&mut self, now: Timestamp) -> Option<Outgoing> {
        if self.is_welcome() || now < self.next_hello {
            return None;
        }
        self.next_hello = now + self.hello_interval;
        let sequence = self.number();
        self.hellos.insert(sequence, now);
        if self.hellos.len() > REMEMBERED_HELLOS {
            self.hellos.pop_first();
        }
        let message = Message {
            value: now.as_nanos(),
            text: self.who.token.clone().unwrap_or_default(),
            ..Message::new(Kind::Hello, self.who.session, sequence)
        };
        Some(Outgoing { sequence, payload: message.encode(HELLO_BYTES) })
    }

    /// The datagram that makes a trial; `None` without a welcome.
    pub(super) fn send(&mut self, now: Timestamp, trial: Trial) -> Option<Outgoing> {
        let cookie = self.cookie?;
        let sequence = self.number();
        let (kind, length) = match trial.direction {
            _ if trial.mark == KERNEL_MTU => (Kind::KernelMtuRequest, 0),
            Direction::Upload => (Kind::SizeProbe, self.who.family.payload_bytes(trial.size_bytes)),
            Direction::Download => (Kind::SizeRequest, 0),
        };
        let message = Message { cookie, ..Message::new(kind, self.who.session, sequence) };
        self.flights.insert(sequence, Flight { trial, sent_at: now, overtaken_at: None });
        Some(Outgoing { sequence, payload: message.with_sizes(trial.size_bytes, 0).encode(length) })
    }

    /// The datagram that requests the path MTU in the server's kernel; `None` without a welcome.
    pub(super) fn request_kernel_mtu(&mut self, now: Timestamp) -> Option<Outgoing> {
        let size_bytes = self.who.family.tiny_bytes();
        self.send(now, Trial { direction: Direction::Download, size_bytes, mark: KERNEL_MTU })
    }

    /// The path MTU in the server's kernel, once it has answered; 0: not known.
    pub(super) fn server_kernel_mtu(&self) -> Option<u32> {
        self.server_kernel_mtu
    }

    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }

    fn number(&mut self) -> u32 {
        self.sent = self.sent.saturating_add(1);
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        sequence
    }

    pub(super) fn not_sent(&mut self, sequence: u32, why: &Unsent) {
        let fate = match why {
            Unsent::TooLong { limit_bytes } => Fate::TooLong(*limit_bytes),
            Unsent::Full | Unsent::Failed { .. } => Fate::NotSent,
        };
        if let Some(flight) = self.flights.remove(&sequence) {
            self.sent = self.sent.saturating_sub(1);
            self.settle(flight.trial, fate, None);
        }
    }

    pub(super) fn quoted(&self, payload: &[u8]) -> Option<u32> {
        let message = Message::decode(payload)?;
        let is_ours = message.session == self.who.session && message.kind == Kind::SizeProbe;
        let flight = self.flights.get(&message.sequence).map(|flight| flight.trial);
        let trial = flight.or_else(|| self.given_up.get(&message.sequence).copied());
        trial.filter(|_| is_ours).map(|trial| trial.size_bytes)
    }

    pub(super) fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        let Some(message) = Message::decode(datagram).filter(|message| message.session == self.who.session)
        else {
            return;
        };
        if !matches!(message.kind, Kind::Welcome | Kind::Refused) {
            self.answered(now, &message, datagram.len());
        } else if let Some(sent_at) = self.hellos.remove(&message.sequence) {
            if message.kind == Kind::Refused {
                self.refusal = Some(message.text);
                return;
            }
            self.cookie = Some(message.cookie);
            self.was_welcome = true;
            self.last_heard = Some(now);
            self.round_trip.guess(now.since(sent_at));
        }
    }

    fn answered(&mut self, now: Timestamp, message: &Message, length: usize) {
        let flight = self.flights.get(&message.sequence).copied();
        let trial = flight.map(|flight| flight.trial);
        let Some(trial) = trial.or_else(|| self.given_up.get(&message.sequence).copied()) else { return };
        // What arrived is what was sent, or it does not count.
        let has_size = |size| size == trial.size_bytes;
        let fate = match (message.kind, trial.direction) {
            (Kind::SizeReceived, Direction::Upload) if has_size(message.size_bytes()) => Fate::Passed,
            (Kind::SizeResponse, Direction::Download) if has_size(self.who.family.packet_bytes(length)) => {
                Fate::Passed
            }
            (Kind::ExceedsInterface, Direction::Download) if has_size(message.size_bytes()) => {
                Fate::TooLong(Some(message.limit_bytes()).filter(|limit| *limit > 0))
            }
            (Kind::KernelMtu, Direction::Download) if trial.mark == KERNEL_MTU => {
                self.server_kernel_mtu = Some(message.limit_bytes());
                Fate::Passed
            }
            (Kind::Busy, Direction::Download) => Fate::NotSent,
            _ => return,
        };
        self.last_heard = Some(now);
        if self.given_up.remove(&message.sequence).is_some() {
            if fate == Fate::Passed {
                self.settle(trial, Fate::PassedLate, None);
            }
            return;
        }
        self.flights.remove(&message.sequence);
        let delayed = flight.map(|flight| {
            let rtt = now.since(flight.sent_at);
            self.round_trip.sample(rtt, trial.size_bytes <= SMALL_BYTES);
            rtt.saturating_sub(self.round_trip.shortest())
        });
        for (_, earlier) in self.flights.range_mut(..message.sequence) {
            if earlier.trial.direction == trial.direction && earlier.overtaken_at.is_none() {
                earlier.overtaken_at = Some(now);
            }
        }
        self.settle(trial, fate, delayed);
    }

    fn settle(&mut self, trial: Trial, fate: Fate, delayed: Option<Duration>) {
        self.settled.push_back(Settled { trial, fate, delayed });
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        let over: Vec<u32> = self
            .flights
            .iter()
            .filter(|(_, flight)| self.deadline(flight) <= now)
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in over {
            let Some(flight) = self.flights.remove(&sequence) else { continue };
            self.settle(flight.trial, Fate::Lost, None);
            self.given_up.insert(sequence, flight.trial);
            if self.given_up.len() > REMEMBERED {
                self.given_up.pop_first();
            }
        }
    }

    fn deadline(&self, flight: &Flight) -> Timestamp {
        let silent = flight.sent_at + self.round_trip.timeout();
        flight.overtaken_at.map_or(silent, |at| silent.min(at + self.round_trip.slack()))
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        let hello = (!self.is_welcome()).then_some(self.next_hello);
        self.flights.values().map(|flight| self.deadline(flight)).chain(hello).min()
    }

    pub(super) fn take_settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }
}

/// Smoothed as TCP's (RFC 6298).
#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<(Duration, Duration)>,
    is_guess: bool,
    shortest: Option<Duration>,
    small: Vec<Duration>,
}

impl RoundTrip {
    /// Takes the time of a hello. It may have waited in the kernel until neighbours were found, for seconds where their
    /// messages get lost; so it counts only until something better is known.
    pub(super) fn guess(&mut self, rtt: Duration) {
        let is_better = self.is_guess && self.smoothed.is_some_and(|(mean, _)| rtt < mean);
        if self.smoothed.is_none() || is_better {
            self.smoothed = Some((rtt, rtt / 2));
            self.is_guess = true;
        }
    }

    pub(super) fn sample(&mut self, rtt: Duration, small: bool) {
        if std::mem::take(&mut self.is_guess) {
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
