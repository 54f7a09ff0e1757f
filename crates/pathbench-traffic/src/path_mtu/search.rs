//! The search for the MTU of one direction: rounds of trials, and when they are enough.
//!
//! A round is a handful of sizes that the [`SizeDistribution`] proposes, with trials of a size that is known to pass (controls) on
//! both sides of each. A size counts as vanished only where a control right beside it came through; one that comes
//! through is proof by itself. The search is over when a size passes and one byte more has vanished so often that
//! chance is out of the question, given how many probes of passing sizes get lost; or when no interface takes a byte
//! more.

use super::exchange::Fate;
use super::probability::{DOUBT, Known, Loss, SizeDistribution};
use crate::datagram::{Family, MOST_PACKET_BYTES};
use std::collections::{BTreeMap, VecDeque};

const SIZES_PER_ROUND: usize = 12;
const SIZES_PER_CONTROL: usize = 3;
/// Trials of one size in one round, at most.
const MOST_REPETITIONS: u32 = 8;
/// Rounds in a row in which nothing at all came through, after which the path is taken to be dead.
const BARREN_ROUNDS: u32 = 8;
/// Chance of being wrong with which a size that has passed is taken to pass no more.
const SHRUNK_DOUBT: f64 = 1e-4;
/// Fresh starts, after which a path is too unsteady.
const MOST_RESTARTS: u32 = 3;
/// How far to look for a control, in trials.
const NEAR: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Local,
    Peer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// This passes; one byte more has vanished so often that chance is out of the question.
    Vanished,
    Limited(Limit),
    BelowFloor,
    Silent,
    Unstable,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    size: u32,
    fate: Option<Fate>,
}

#[derive(Debug)]
pub(super) struct Search {
    family: Family,
    ceiling: u32,
    limit: Limit,
    said: Vec<u32>,
    low: Option<u32>,
    vanished: BTreeMap<u32, u32>,
    loss: Loss,
    round: Vec<Entry>,
    /// Trials of the round that are still to be sent: their places in it.
    waiting: VecDeque<usize>,
    /// So that answers to an earlier round are not taken for this one's.
    rounds: u32,
    barren: u32,
    /// How often the largest size that passed was lost in a row, beside smaller ones that were not.
    doubts: u32,
    /// Losses that are either chance or the end of the largest size that passed.
    doubtful: u32,
    restarts: u32,
    verdict: Option<Verdict>,
}

impl Search {
    pub(super) fn new(family: Family, ceiling: u32, limit: Limit) -> Self {
        let ceiling = ceiling.min(MOST_PACKET_BYTES);
        Self {
            family,
            ceiling,
            limit,
            said: Vec::new(),
            low: None,
            vanished: BTreeMap::new(),
            loss: Loss::default(),
            round: Vec::new(),
            waiting: VecDeque::new(),
            rounds: 0,
            barren: 0,
            doubts: 0,
            doubtful: 0,
            restarts: 0,
            verdict: None,
        }
    }

    pub(super) fn low(&self) -> Option<u32> {
        self.low
    }

    pub(super) fn smallest_vanished(&self) -> Option<u32> {
        self.vanished.keys().next().copied()
    }

    pub(super) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    pub(super) fn loss(&self) -> Loss {
        self.loss
    }

    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    pub(super) fn confidence(&self) -> f64 {
        self.vanished.values().next().map_or(0.0, |times| 1.0 - self.loss.chance_of_all(*times))
    }

    /// The size and the mark of the next trial to send, which [`Search::sent`] takes out.
    pub(super) fn next(&self) -> Option<(u32, u32)> {
        let place = *self.waiting.front().filter(|_| self.verdict.is_none())?;
        Some((self.round.get(place)?.size, self.mark(place)))
    }

    pub(super) fn sent(&mut self) {
        self.waiting.pop_front();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.round.iter().all(|entry| entry.fate.is_some())
    }

    pub(super) fn is_barren(&self) -> bool {
        self.barren > 0
    }

    pub(super) fn has_sent_ceiling(&self) -> bool {
        self.rounds > 1 || self.rounds == 1 && self.waiting.front().is_none_or(|place| *place > 1)
    }

    pub(super) fn hint(&mut self, said: u32, probe: u32) {
        if said < probe && said <= self.ceiling && self.low.is_none_or(|low| said >= low) {
            self.said.push(said);
        }
    }

    pub(super) fn limited(&mut self, bytes: u32, limit: Limit) {
        if bytes >= self.ceiling {
            return;
        }
        (self.ceiling, self.limit) = (bytes.max(self.family.tiny_bytes()), limit);
        self.vanished.retain(|size, _| *size <= bytes);
        if self.low.is_some_and(|low| low > self.ceiling) {
            self.restart();
            return;
        }
        let (round, ceiling) = (&mut self.round, self.ceiling);
        self.waiting.retain(|place| {
            let Some(entry) = round.get_mut(*place).filter(|entry| entry.size > ceiling) else { return true };
            entry.fate = Some(Fate::NotSent);
            false
        });
    }

    fn try_ceiling(&mut self) {
        let control = self.low.unwrap_or(self.family.tiny_bytes());
        for size in [self.ceiling, control, control] {
            self.waiting.push_back(self.round.len());
            self.round.push(Entry { size, fate: None });
        }
    }

    pub(super) fn settle(&mut self, mark: u32, size: u32, fate: Fate, limit: Limit) {
        if let Some(place) = self.place(mark)
            && let Some(entry) = self.round.get_mut(place)
            && entry.fate.is_none()
        {
            entry.fate = Some(fate);
        }
        match fate {
            Fate::Passed => self.passed(size),
            Fate::PassedLate => {
                if let Some(times) = self.vanished.get_mut(&size).filter(|times| **times > 0) {
                    *times -= 1;
                } else {
                    self.loss.lost = self.loss.lost.saturating_sub(1);
                    self.loss.answered += 1;
                }
                self.passed(size);
            }
            Fate::TooLong(most) => {
                let before = self.ceiling;
                self.limited(most.unwrap_or(size - 1).min(size - 1), limit);
                if self.ceiling < before && most.is_some() && self.low.is_none_or(|low| low < self.ceiling) {
                    self.try_ceiling();
                }
            }
            Fate::Lost | Fate::NotSent => {}
        }
    }

    fn passed(&mut self, size: u32) {
        if self.low.is_some_and(|low| size <= low) || size < self.family.floor_bytes() {
            return;
        }
        let refuted = self.vanished.range(..=size).any(|(_, times)| *times >= self.loss.times_needed());
        self.low = Some(size);
        self.doubts = 0;
        self.vanished.retain(|other, _| *other > size);
        if refuted {
            // What was certain is not so any more: the path has changed.
            self.restarts += 1;
            self.verdict = (self.restarts > MOST_RESTARTS).then_some(Verdict::Unstable);
        }
    }

    /// Draws conclusions from the round that is over, and plans the next one unless there is a verdict.
    pub(super) fn next_round(&mut self) {
        if self.verdict.is_some() {
            return;
        }
        self.conclude();
        self.verdict = self.verdict.or_else(|| self.judge());
        if self.verdict.is_none() {
            self.plan();
        }
    }

    fn conclude(&mut self) {
        let round = std::mem::take(&mut self.round);
        let passing = self.low.unwrap_or(0).max(self.family.tiny_bytes());
        let is_through = |entry: &Entry| entry.fate == Some(Fate::Passed);
        let through = round.iter().filter(|entry| is_through(entry)).count();
        if round.iter().any(|entry| matches!(entry.fate, Some(Fate::Passed | Fate::Lost))) {
            self.barren = if through == 0 { self.barren + 1 } else { 0 };
        }
        if self.doubt(&round) {
            return;
        }
        if self.doubts > 0 {
            self.doubtful +=
                round.iter().filter(|entry| entry.fate == Some(Fate::Lost) && entry.size <= passing).count()
                    as u32;
            return;
        }
        self.loss.lost += std::mem::take(&mut self.doubtful);
        for (place, entry) in round.iter().enumerate() {
            let is_lost = entry.fate == Some(Fate::Lost);
            if entry.size <= passing {
                self.loss.answered += u32::from(is_through(entry));
                self.loss.lost += u32::from(is_lost);
            } else if is_lost {
                let near = place.saturating_sub(NEAR)..(place + NEAR + 1).min(round.len());
                let is_vouched_for =
                    round[near].iter().any(|other| is_through(other) && other.size < entry.size);
                if is_vouched_for {
                    *self.vanished.entry(entry.size).or_default() += 1;
                }
            }
        }
    }

    /// Whether the largest size that has passed does so no more; then the search has begun again.
    fn doubt(&mut self, round: &[Entry]) -> bool {
        let Some(low) = self.low else { return false };
        let count = |size: u32, fate| {
            round.iter().filter(|entry| entry.size == size && entry.fate == Some(fate)).count() as u32
        };
        let smaller = round.iter().any(|entry| entry.size < low && entry.fate == Some(Fate::Passed));
        if count(low, Fate::Passed) > 0
            || round.iter().any(|entry| entry.size > low && entry.fate == Some(Fate::Passed))
        {
            self.doubts = 0;
        } else if count(low, Fate::Lost) > 0 {
            // Beside nothing that was smaller, it is only a reason to look closer.
            self.doubts = if smaller { self.doubts + count(low, Fate::Lost) } else { self.doubts.max(1) };
        }
        let is_shrunk = self.doubts > 2 && self.loss.chance_of_all(self.doubts) < SHRUNK_DOUBT;
        if is_shrunk {
            self.restart();
        }
        is_shrunk
    }

    fn restart(&mut self) {
        self.restarts += 1;
        self.low = None;
        self.vanished.clear();
        self.doubts = 0;
        self.doubtful = 0;
        self.round.clear();
        self.waiting.clear();
        self.rounds += 1;
        if self.restarts > MOST_RESTARTS {
            self.verdict = Some(Verdict::Unstable);
        }
    }

    fn judge(&self) -> Option<Verdict> {
        if self.barren >= BARREN_ROUNDS {
            return Some(Verdict::Silent);
        }
        let times = |size: u32| self.vanished.get(&size).copied().unwrap_or(0);
        let Some(low) = self.low else {
            let floor = self.family.floor_bytes();
            let is_enough = floor > self.ceiling || times(floor) >= self.loss.times_needed();
            return is_enough.then_some(Verdict::BelowFloor);
        };
        if low >= self.ceiling {
            return Some(Verdict::Limited(self.limit));
        }
        let is_sure = self.loss.chance_of_all(times(low + 1)) <= DOUBT;
        (is_sure && self.doubts == 0).then_some(Verdict::Vanished)
    }

    fn plan(&mut self) {
        self.rounds += 1;
        let tiny = self.family.tiny_bytes();
        let sizes = self.sizes();
        let control = self.low.unwrap_or(tiny);
        let mut round = Vec::with_capacity(2 * sizes.len() + 4);
        let alone = sizes.iter().collect::<std::collections::BTreeSet<_>>().len() <= SIZES_PER_CONTROL;
        let group = if alone { 1 } else { SIZES_PER_CONTROL };
        for group in sizes.chunks(group) {
            round.push(control);
            if self.doubts > 0 {
                round.push(tiny);
            }
            round.extend(group);
        }
        // Two behind: what was sent last is found missing only by what comes after it.
        round.extend([control, if self.doubts > 0 { tiny } else { control }]);
        self.round = round.into_iter().map(|size| Entry { size, fate: None }).collect();
        self.waiting = (0..self.round.len()).collect();
    }

    fn sizes(&self) -> Vec<u32> {
        let floor = self.family.floor_bytes().min(self.ceiling);
        let Some(low) = self.low else {
            let has_begun = self.loss.answered > 0;
            // At first the two ends: mostly they are all there is.
            return if has_begun { vec![floor; 3] } else { vec![self.ceiling, floor] };
        };
        let distribution = SizeDistribution::of(&Known {
            floor: self.family.floor_bytes(),
            low,
            ceiling: self.ceiling,
            vanished: &self.vanished,
            loss: self.loss.expected(),
            said: &self.said,
        });
        let mut sizes = distribution.divisions(SIZES_PER_ROUND);
        let next = low + 1;
        let is_likely = distribution.is_low() > 0.5 || sizes.len() <= 1;
        if is_likely {
            let have = self.vanished.get(&next).copied().unwrap_or(0);
            let missing = self.loss.times_needed().saturating_sub(have).clamp(1, MOST_REPETITIONS);
            sizes.retain(|size| *size != next);
            sizes.extend(std::iter::repeat_n(next, missing as usize));
        }
        sizes
    }

    fn mark(&self, place: usize) -> u32 {
        self.rounds << 8 | (place as u32 & 0xff)
    }

    fn place(&self, mark: u32) -> Option<usize> {
        (mark >> 8 == self.rounds & (u32::MAX >> 8)).then_some((mark & 0xff) as usize)
    }
}
