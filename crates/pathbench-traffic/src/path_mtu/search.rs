//! The search for the MTU of one direction: rounds of trials, and the criteria for its end.
//!
//! A round consists of a few sizes that the [`SizeDistribution`] proposes, with trials of a size that is known to pass
//! (controls) before and after each. A loss counts only when an adjacent control was answered; an answer is proof by
//! itself. The search ends when a size passes and one byte more was lost so often that random loss is excluded at the
//! measured loss rate of passing sizes, or when an interface rejects one byte more.

use super::exchange::ProbeFate;
use super::probability::{DOUBT, Observations, ProbeLoss, SizeDistribution};
use crate::datagram::{floor_bytes, tiny_bytes};
use pathbench_record::network::AddressFamily;
use std::collections::{BTreeMap, VecDeque};

const SIZES_PER_ROUND: usize = 12;
const SIZES_PER_CONTROL: usize = 3;
const MOST_REPETITIONS: u32 = 8;
/// Consecutive rounds without an answer, after which the path counts as silent.
const MOST_UNANSWERED_ROUNDS: u32 = 8;
/// Restarts of the search, after which the path counts as unstable.
const MOST_RESTARTS: u32 = 3;
/// Maximum distance to a control, in trials.
const NEAR: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Local,
    Peer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SizeVerdict {
    /// This size passes; one byte more was lost so often that random loss is excluded.
    Lost,
    Limited(Limit),
    BelowFloor,
    Silent,
    Unstable,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    size: u32,
    fate: Option<ProbeFate>,
}

#[derive(Debug)]
pub(super) struct Search {
    family: AddressFamily,
    pub(super) ceiling: u32,
    limit: Limit,
    reported: Vec<u32>,
    pub(super) low: Option<u32>,
    losses: BTreeMap<u32, u32>,
    pub(super) loss: ProbeLoss,
    round: Vec<Entry>,
    /// Trials of the round that are not sent yet, as indices into `round`.
    pub(super) waiting: VecDeque<usize>,
    /// Number of rounds, so that answers to an earlier round are not assigned to this one.
    rounds: u32,
    pub(super) unanswered_rounds: u32,
    /// Consecutive losses of the largest size that has passed, while smaller sizes passed.
    doubts: u32,
    /// Losses that are random or show that the largest passing size is now too large.
    doubtful: u32,
    pub(super) restarts: u32,
    pub(super) verdict: Option<SizeVerdict>,
}

impl Search {
    pub(super) fn new(family: AddressFamily, ceiling: u32) -> Self {
        Self {
            family,
            ceiling,
            limit: Limit::Local,
            reported: Vec::new(),
            low: None,
            losses: BTreeMap::new(),
            loss: ProbeLoss::default(),
            round: Vec::new(),
            waiting: VecDeque::new(),
            rounds: 0,
            unanswered_rounds: 0,
            doubts: 0,
            doubtful: 0,
            restarts: 0,
            verdict: None,
        }
    }

    pub(super) fn smallest_lost(&self) -> Option<u32> {
        self.losses.keys().next().copied()
    }

    pub(super) fn confidence(&self) -> f64 {
        self.losses.values().next().map_or(0.0, |times| 1.0 - self.loss.chance_of_all(*times))
    }

    /// The size and the mark of the next trial to send.
    pub(super) fn next(&self) -> Option<(u32, u32)> {
        let index = *self.waiting.front().filter(|_| self.verdict.is_none())?;
        Some((self.round.get(index)?.size, self.mark(index)))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.round.iter().all(|entry| entry.fate.is_some())
    }

    pub(super) fn has_sent_ceiling(&self) -> bool {
        self.rounds > 1 || self.rounds == 1 && self.waiting.front().is_none_or(|index| *index > 1)
    }

    pub(super) fn hint(&mut self, mtu: u32, probe: u32) {
        if mtu < probe && mtu <= self.ceiling && self.low.is_none_or(|low| mtu >= low) {
            self.reported.push(mtu);
        }
    }

    fn limited(&mut self, bytes: u32, limit: Limit) {
        if bytes >= self.ceiling {
            return;
        }
        (self.ceiling, self.limit) = (bytes.max(tiny_bytes(self.family)), limit);
        self.losses.retain(|size, _| *size <= bytes);
        if self.low.is_some_and(|low| low > self.ceiling) {
            self.restart();
            return;
        }
        let (round, ceiling) = (&mut self.round, self.ceiling);
        self.waiting.retain(|index| {
            let Some(entry) = round.get_mut(*index).filter(|entry| entry.size > ceiling) else { return true };
            entry.fate = Some(ProbeFate::NotSent);
            false
        });
    }

    pub(super) fn settle(&mut self, mark: u32, size: u32, fate: ProbeFate, limit: Limit) {
        if let Some(index) = self.index(mark)
            && let Some(entry) = self.round.get_mut(index)
            && entry.fate.is_none()
        {
            entry.fate = Some(fate);
        }
        match fate {
            ProbeFate::Passed => self.passed(size),
            ProbeFate::PassedLate => {
                if let Some(times) = self.losses.get_mut(&size).filter(|times| **times > 0) {
                    *times -= 1;
                } else {
                    self.loss.lost = self.loss.lost.saturating_sub(1);
                    self.loss.answered += 1;
                }
                self.passed(size);
            }
            ProbeFate::TooLong(most) => {
                let before = self.ceiling;
                self.limited(most.unwrap_or(size - 1).min(size - 1), limit);
                if self.ceiling < before && most.is_some() && self.low.is_none_or(|low| low < self.ceiling) {
                    let control = self.low.unwrap_or(tiny_bytes(self.family));
                    for size in [self.ceiling, control, control] {
                        self.waiting.push_back(self.round.len());
                        self.round.push(Entry { size, fate: None });
                    }
                }
            }
            ProbeFate::Lost | ProbeFate::NotSent => {}
        }
    }

    fn passed(&mut self, size: u32) {
        if self.low.is_some_and(|low| size <= low) || size < floor_bytes(self.family) {
            return;
        }
        let refuted = self.losses.range(..=size).any(|(_, times)| *times >= self.loss.times_needed());
        self.low = Some(size);
        self.doubts = 0;
        self.losses.retain(|other, _| *other > size);
        if refuted {
            // The path has changed: an answer refutes losses that were not random.
            self.restarts += 1;
            self.verdict = (self.restarts > MOST_RESTARTS).then_some(SizeVerdict::Unstable);
        }
    }

    /// Evaluates the completed round, and plans the next one unless there is a verdict.
    pub(super) fn next_round(&mut self) {
        if self.verdict.is_some() {
            return;
        }
        self.conclude();
        self.verdict = self.verdict.or_else(|| self.conclusion());
        if self.verdict.is_none() {
            self.plan();
        }
    }

    fn conclude(&mut self) {
        let round = std::mem::take(&mut self.round);
        let passing = self.low.unwrap_or(0).max(tiny_bytes(self.family));
        let is_through = |entry: &Entry| entry.fate == Some(ProbeFate::Passed);
        let through = round.iter().filter(|entry| is_through(entry)).count();
        if round.iter().any(|entry| matches!(entry.fate, Some(ProbeFate::Passed | ProbeFate::Lost))) {
            self.unanswered_rounds = if through == 0 { self.unanswered_rounds + 1 } else { 0 };
        }
        if self.doubt(&round) {
            return;
        }
        if self.doubts > 0 {
            self.doubtful += round
                .iter()
                .filter(|entry| entry.fate == Some(ProbeFate::Lost) && entry.size <= passing)
                .count() as u32;
            return;
        }
        self.loss.lost += std::mem::take(&mut self.doubtful);
        for (index, entry) in round.iter().enumerate() {
            let is_lost = entry.fate == Some(ProbeFate::Lost);
            if entry.size <= passing {
                self.loss.answered += u32::from(is_through(entry));
                self.loss.lost += u32::from(is_lost);
            } else if is_lost {
                let near = index.saturating_sub(NEAR)..(index + NEAR + 1).min(round.len());
                let has_control =
                    round[near].iter().any(|other| is_through(other) && other.size < entry.size);
                if has_control {
                    *self.losses.entry(entry.size).or_default() += 1;
                }
            }
        }
    }

    /// Whether the largest size that has passed is now too large; the search then restarts.
    fn doubt(&mut self, round: &[Entry]) -> bool {
        let Some(low) = self.low else { return false };
        let count = |size: u32, fate| {
            round.iter().filter(|entry| entry.size == size && entry.fate == Some(fate)).count() as u32
        };
        let smaller = round.iter().any(|entry| entry.size < low && entry.fate == Some(ProbeFate::Passed));
        if count(low, ProbeFate::Passed) > 0
            || round.iter().any(|entry| entry.size > low && entry.fate == Some(ProbeFate::Passed))
        {
            self.doubts = 0;
        } else if count(low, ProbeFate::Lost) > 0 {
            // If no smaller size passed either, one doubt leads to more trials.
            self.doubts =
                if smaller { self.doubts + count(low, ProbeFate::Lost) } else { self.doubts.max(1) };
        }
        let is_shrunk = self.doubts > 2 && self.loss.chance_of_all(self.doubts) <= DOUBT;
        if is_shrunk {
            self.restart();
        }
        is_shrunk
    }

    fn restart(&mut self) {
        self.restarts += 1;
        self.low = None;
        self.losses.clear();
        self.doubts = 0;
        self.doubtful = 0;
        self.round.clear();
        self.waiting.clear();
        self.rounds += 1;
        if self.restarts > MOST_RESTARTS {
            self.verdict = Some(SizeVerdict::Unstable);
        }
    }

    fn conclusion(&self) -> Option<SizeVerdict> {
        if self.unanswered_rounds >= MOST_UNANSWERED_ROUNDS {
            return Some(SizeVerdict::Silent);
        }
        let times = |size: u32| self.losses.get(&size).copied().unwrap_or(0);
        let Some(low) = self.low else {
            let floor = floor_bytes(self.family);
            let is_enough = floor > self.ceiling || times(floor) >= self.loss.times_needed();
            return is_enough.then_some(SizeVerdict::BelowFloor);
        };
        if low >= self.ceiling {
            return Some(SizeVerdict::Limited(self.limit));
        }
        let is_sure = self.loss.chance_of_all(times(low + 1)) <= DOUBT;
        (is_sure && self.doubts == 0).then_some(SizeVerdict::Lost)
    }

    fn plan(&mut self) {
        self.rounds += 1;
        let tiny = tiny_bytes(self.family);
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
        // Two trials at the end: the loss of a packet is detected only by the answer to a later one.
        round.extend([control, if self.doubts > 0 { tiny } else { control }]);
        self.round = round.into_iter().map(|size| Entry { size, fate: None }).collect();
        self.waiting = (0..self.round.len()).collect();
    }

    fn sizes(&self) -> Vec<u32> {
        let floor = floor_bytes(self.family).min(self.ceiling);
        let Some(low) = self.low else {
            let has_begun = self.loss.answered > 0;
            // First both ends of the range: one of them is usually the MTU.
            return if has_begun { vec![floor; 3] } else { vec![self.ceiling, floor] };
        };
        let distribution = SizeDistribution::from_observations(&Observations {
            floor: floor_bytes(self.family),
            low,
            ceiling: self.ceiling,
            losses: &self.losses,
            loss: self.loss.expected_loss(),
            reported: &self.reported,
        });
        let mut sizes = distribution.divisions(SIZES_PER_ROUND);
        let next = low + 1;
        let is_likely = distribution.is_low() > 0.5 || sizes.len() <= 1;
        if is_likely {
            let have = self.losses.get(&next).copied().unwrap_or(0);
            let missing = self.loss.times_needed().saturating_sub(have).clamp(1, MOST_REPETITIONS);
            sizes.retain(|size| *size != next);
            sizes.extend(std::iter::repeat_n(next, missing as usize));
        }
        sizes
    }

    fn mark(&self, index: usize) -> u32 {
        self.rounds << 8 | (index as u32 & 0xff)
    }

    fn index(&self, mark: u32) -> Option<usize> {
        (mark >> 8 == self.rounds & (u32::MAX >> 8)).then_some((mark & 0xff) as usize)
    }
}
