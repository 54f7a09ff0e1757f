//! Keeps an eye on MTUs that are known, with few probes: whether they still pass, and whether more does by now.
//!
//! A path carries every size up to its MTU, so one byte more tells whether it has grown. What has changed is not
//! measured here: a [`super::Finder`] is sent again.

use super::WatchPace;
use super::exchange::{Exchange, Fate, Introduction, Settled, Trial};
use super::probability::Loss;
use crate::datagram::{Family, MOST_PACKET_BYTES, Outgoing, Unsent};
use pathbench_record::direction::Direction;
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// After a probe was lost, the next one comes so much sooner.
const HASTE: u32 = 5;
/// Chance of raising a false alarm. It costs an examination, and nothing worse.
const DOUBT: f64 = 1e-3;
/// Silence after which the path is away: so many intervals, and so long at least.
const SILENT_INTERVALS: u32 = 3;
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    pub(super) direction: Direction,
    /// `None`: not even the smallest size.
    pub(super) mtu_bytes: Option<u32>,
    pub(super) loss: Loss,
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
    /// Times in a row that it did not pass, and smaller ones did.
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
    watched: [Watched; 2],
    interface_bytes: u32,
    larger_due: Timestamp,
    queue: VecDeque<Trial>,
    heard: Timestamp,
    alarm: Option<Alarm>,
    pub(super) last_refusal: Option<String>,
}

impl Guard {
    pub(super) fn new(
        now: Timestamp,
        who: Introduction,
        pace: WatchPace,
        known: [Known; 2],
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
        Self {
            exchange: Exchange::new(now, who),
            pace,
            watched: known.map(watched),
            interface_bytes,
            larger_due: now + pace.larger_interval,
            queue: VecDeque::new(),
            heard: now,
            alarm: None,
            last_refusal: None,
        }
    }

    pub(super) fn alarm(&self) -> Option<Alarm> {
        self.alarm
    }

    pub(super) fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        self.exchange.expire(now);
        self.account(now);
        if self.alarm.is_some() {
            return None;
        }
        if now.since(self.heard) >= self.silence() {
            self.alarm = Some(Alarm::Silent);
            return None;
        }
        if let Some(hello) = self.exchange.hello(now) {
            return Some(hello);
        }
        self.enqueue(now);
        let trial = *self.queue.front().filter(|_| self.exchange.is_welcome())?;
        self.queue.pop_front();
        self.exchange.send(now, trial)
    }

    fn silence(&self) -> Duration {
        (self.pace.interval * SILENT_INTERVALS).max(SHORTEST_SILENCE)
    }

    pub(super) fn due(&self) -> Timestamp {
        let watched = self.watched.iter().filter(|watched| watched.open == 0).map(|watched| watched.due);
        // Without a welcome there is nothing to do about them.
        let probes = watched.chain([self.larger_due]).filter(|_| self.exchange.is_welcome());
        let end = self.heard + self.silence();
        self.exchange.due().into_iter().chain(probes).chain([end]).min().unwrap_or(end)
    }

    pub(super) fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        self.exchange.received(now, datagram);
        self.account(now);
    }

    pub(super) fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent) {
        self.exchange.not_sent(sequence, &why);
        if let Unsent::Failed { reason } = why {
            self.last_refusal = Some(reason);
        }
        self.account(now);
    }

    pub(super) fn icmp(&mut self, now: Timestamp, _router: IpAddr, said_bytes: u32, quoted: &[u8]) {
        let Some(probe_bytes) = self.exchange.quoted(quoted) else { return };
        let upload = &mut self.watched[0];
        if upload.known.mtu_bytes == Some(probe_bytes) && said_bytes < probe_bytes {
            upload.due = now;
        }
    }

    fn family(&self) -> Family {
        self.exchange.family()
    }

    fn enqueue(&mut self, now: Timestamp) {
        if !self.queue.is_empty() || !self.exchange.is_welcome() {
            return;
        }
        let (tiny, floor) = (self.family().tiny_bytes(), self.family().floor_bytes());
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
        while let Some(settled) = self.exchange.take_settled() {
            let is_heard = matches!(settled.fate, Fate::Passed | Fate::PassedLate);
            if is_heard {
                self.heard = now;
            }
            let interface_bytes = self.interface_bytes;
            let is_changed = match settled.trial.mark {
                // The kernel refuses it, as long as nothing changes.
                INTERFACE => {
                    !matches!(settled.fate, Fate::TooLong(Some(limit)) if limit == interface_bytes)
                        && settled.fate != Fate::NotSent
                }
                LARGER => is_heard,
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
            Fate::Passed | Fate::PassedLate if is_known => (watched.passed, watched.missed) = (true, 0),
            Fate::Passed => watched.small_passed = true,
            Fate::TooLong(_) if is_known => return true,
            _ => {}
        }
        if settled.fate == Fate::PassedLate {
            return false;
        }
        watched.open = watched.open.saturating_sub(1);
        if watched.open > 0 || watched.passed || watched.known.mtu_bytes.is_none() {
            return false;
        }
        watched.due = watched.due.min(now + interval / HASTE);
        watched.missed += u32::from(watched.small_passed);
        watched.missed >= 3 && watched.known.loss.chance_of_all(watched.missed) < DOUBT
    }
}
