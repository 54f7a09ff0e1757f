//! Checks known MTUs with few probes: whether they still pass, and whether larger packets pass as well. If no MTU is
//! known because the server does not answer, it waits for the server.
//!
//! A path carries every size up to its MTU, so a packet one byte larger shows whether the MTU has grown. Changes are
//! not measured here: a [`super::Finder`] examines the path again.

use super::exchange::{Exchange, ProbeFate, SessionParameters, Settled, Trial};
use super::plan::WatchPace;
use super::probability::ProbeLoss;
use crate::datagram::{DatagramClient, MOST_PACKET_BYTES, Outgoing, Unsent};
use crate::datagram::{floor_bytes, tiny_bytes};
use pathbench_record::direction::Direction;
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// After a loss, the next probe follows after the interval divided by this number.
const RETRY_DIVISOR: u32 = 5;
/// Probability of a false alarm, which causes an unnecessary examination.
const DOUBT: f64 = 1e-3;
/// Silence after which the path counts as away: this many intervals, and at least `SHORTEST_SILENCE`.
const SILENT_INTERVALS: u32 = 3;
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    pub(super) direction: Direction,
    /// `None`: not even the smallest size passes.
    pub(super) mtu_bytes: Option<u32>,
    pub(super) loss: ProbeLoss,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alarm {
    Changed,
    Silent,
}

#[derive(Debug)]
struct Watched {
    known: Known,
    due: Timestamp,
    open: u32,
    passed: bool,
    small_passed: bool,
    /// Consecutive losses of this size while smaller sizes passed.
    missed: u32,
}

const KNOWN: u32 = 1;
const SMALL: u32 = 2;
const LARGER: u32 = 3;
const INTERFACE: u32 = 4;

#[derive(Debug)]
pub(super) struct Guard {
    exchange: Exchange,
    pace: WatchPace,
    /// The directions; none while the server is away.
    watched: Vec<Watched>,
    interface_bytes: u32,
    larger_due: Timestamp,
    queue: VecDeque<Trial>,
    received_at: Timestamp,
    pub(super) alarm: Option<Alarm>,
    pub(super) last_refusal: Option<String>,
}

impl Guard {
    pub(super) fn new(
        now: Timestamp,
        parameters: SessionParameters,
        pace: WatchPace,
        known: Vec<Known>,
        interface_bytes: u32,
    ) -> Self {
        let watched = |known| Watched {
            known,
            due: now + pace.interval,
            open: 0,
            passed: false,
            small_passed: false,
            missed: 0,
        };
        let hello_interval = if known.is_empty() { pace.interval } else { Duration::ZERO };
        Self {
            exchange: Exchange::new(now, parameters, hello_interval),
            pace,
            watched: known.into_iter().map(watched).collect(),
            interface_bytes,
            larger_due: now + pace.larger_interval,
            queue: VecDeque::new(),
            received_at: now,
            alarm: None,
            last_refusal: None,
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.watched.is_empty()
    }

    fn silence(&self) -> Duration {
        (self.pace.interval * SILENT_INTERVALS).max(SHORTEST_SILENCE)
    }

    fn enqueue(&mut self, now: Timestamp) {
        if !self.queue.is_empty() || !self.exchange.has_cookie() {
            return;
        }
        let family = self.exchange.parameters.family;
        let (tiny, floor) = (tiny_bytes(family), floor_bytes(family));
        for watched in self.watched.iter_mut().filter(|watched| watched.open == 0 && watched.due <= now) {
            let direction = watched.known.direction;
            let trial = |size_bytes, mark| Trial { direction, size_bytes, mark };
            let known = watched.known.mtu_bytes.map(|size| trial(size, KNOWN));
            let small = [trial(tiny, SMALL), trial(tiny, SMALL)];
            let group = [Some(small[0]), known, Some(small[1])];
            self.queue.extend(group.into_iter().flatten());
            watched.open = group.into_iter().flatten().count() as u32;
            (watched.passed, watched.small_passed) = (false, false);
            watched.due = now + self.pace.interval;
        }
        if self.larger_due > now {
            return;
        }
        self.larger_due = now + self.pace.larger_interval;
        if self.interface_bytes < MOST_PACKET_BYTES {
            let size_bytes = self.interface_bytes + 1;
            self.queue.push_back(Trial { direction: Direction::Upload, size_bytes, mark: INTERFACE });
        }
        for known in self.watched.iter().map(|watched| watched.known) {
            let size_bytes = known.mtu_bytes.map_or(floor, |size| size + 1);
            if size_bytes <= self.interface_bytes {
                let trial = Trial { direction: known.direction, size_bytes, mark: LARGER };
                self.queue.extend([trial, trial]);
            }
        }
    }

    fn account(&mut self, now: Timestamp) {
        while let Some(settled) = self.exchange.settled.pop_front() {
            let is_answered = matches!(settled.fate, ProbeFate::Passed | ProbeFate::PassedLate);
            if is_answered {
                self.received_at = now;
            }
            let interface_bytes = self.interface_bytes;
            let is_changed = match settled.trial.mark {
                // The kernel rejects this size unless the interface changes.
                INTERFACE => {
                    !matches!(settled.fate, ProbeFate::TooLong(Some(limit)) if limit == interface_bytes)
                        && settled.fate != ProbeFate::NotSent
                }
                LARGER => is_answered,
                _ => self.regular(now, settled),
            };
            if is_changed {
                self.alarm = Some(Alarm::Changed);
            }
        }
    }

    fn regular(&mut self, now: Timestamp, settled: Settled) -> bool {
        let interval = self.pace.interval;
        let Some(watched) =
            self.watched.iter_mut().find(|watched| watched.known.direction == settled.trial.direction)
        else {
            return false;
        };
        let is_known = settled.trial.mark == KNOWN;
        match settled.fate {
            ProbeFate::Passed | ProbeFate::PassedLate if is_known => {
                (watched.passed, watched.missed) = (true, 0);
            }
            ProbeFate::Passed => watched.small_passed = true,
            ProbeFate::TooLong(_) if is_known => return true,
            _ => {}
        }
        if settled.fate == ProbeFate::PassedLate {
            return false;
        }
        watched.open = watched.open.saturating_sub(1);
        if watched.open > 0 || watched.passed || watched.known.mtu_bytes.is_none() {
            return false;
        }
        watched.due = watched.due.min(now + interval / RETRY_DIVISOR);
        watched.missed += u32::from(watched.small_passed);
        watched.missed >= 3 && watched.known.loss.chance_of_all(watched.missed) < DOUBT
    }
}

impl DatagramClient for Guard {
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        self.exchange.expire(now);
        self.account(now);
        if self.is_away() && self.exchange.has_cookie() {
            self.alarm = Some(Alarm::Changed);
        } else if !self.is_away() && now.duration_since(self.received_at) >= self.silence() {
            self.alarm.get_or_insert(Alarm::Silent);
        }
        if self.alarm.is_some() {
            return None;
        }
        if let Some(hello) = self.exchange.hello(now) {
            return Some(hello);
        }
        self.enqueue(now);
        let trial = *self.queue.front().filter(|_| self.exchange.has_cookie())?;
        self.queue.pop_front();
        self.exchange.send(now, trial)
    }

    fn due(&self) -> Timestamp {
        let watched = self.watched.iter().filter(|watched| watched.open == 0).map(|watched| watched.due);
        // Without a cookie no probe can be sent.
        let probes = watched.chain([self.larger_due]).filter(|_| self.exchange.has_cookie());
        let silent = (!self.is_away()).then(|| self.received_at + self.silence());
        self.exchange.due().into_iter().chain(probes).chain(silent).min().unwrap_or_default()
    }

    fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        self.exchange.received(now, datagram);
        self.account(now);
    }

    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent) {
        self.exchange.not_sent(sequence, &why);
        if let Unsent::Failed { reason } = why {
            self.last_refusal = Some(reason);
        }
        self.account(now);
    }

    fn refused(&mut self, reason: String) {
        self.last_refusal = Some(reason);
    }

    fn icmp(&mut self, now: Timestamp, _router: IpAddr, mtu_bytes: u32, quoted: &[u8]) {
        let (Some(upload), Some(probe_bytes)) = (self.watched.first_mut(), self.exchange.quoted_size(quoted))
        else {
            return;
        };
        if upload.known.mtu_bytes == Some(probe_bytes) && mtu_bytes < probe_bytes {
            upload.due = now;
        }
    }
}
