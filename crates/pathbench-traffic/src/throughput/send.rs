//! The sending end of one stream.

use super::{RateSchedule, payload_bytes_per_block};
use crate::protocol::{End, HEADER_BYTES, data_header};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::pattern::Amount;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct SendPlan {
    pub amount: Amount,
    /// Warm-up; a test by time lasts this much longer.
    pub omit: Duration,
    pub rate_bps: Option<u64>,
    pub block_bytes: u32,
    /// The sender's own bound on the payload, whatever was asked for.
    pub ceiling_bytes: Option<u64>,
    pub patience: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Write `from..until` of the block, whose header is to be `header`.
    Write {
        header: [u8; HEADER_BYTES],
        from: usize,
        until: usize,
        /// Place in the stream of the block's first payload byte.
        offset: u64,
    },
    WaitUntil(Timestamp),
    Finished,
}

/// Decides what one stream writes and when, and keeps the series of what its socket accepted (`offered`).
///
/// *Progress* of a sender is a byte that its socket accepted or that the peer's kernel acknowledged, while
/// there is something to write. Waiting for the rate limit is not a lack of progress.
#[derive(Debug)]
pub struct SendCore {
    plan: SendPlan,
    payload_per_block: usize,
    schedule: Option<RateSchedule>,
    /// End of a test by time; known from the first step on.
    deadline: Option<Timestamp>,
    /// The block being written: accepted bytes and length, header included.
    block: Option<(usize, usize)>,
    begun: u64,
    accepted: u64,
    cut_short: bool,
    first_write: Option<Timestamp>,
    last_progress: Option<Timestamp>,
    offered: DeliverySeries,
}

impl SendCore {
    pub fn new(plan: SendPlan, origin: Timestamp) -> Self {
        Self {
            plan,
            payload_per_block: payload_bytes_per_block(plan.block_bytes, plan.rate_bps),
            schedule: None,
            deadline: None,
            block: None,
            begun: 0,
            accepted: 0,
            cut_short: false,
            first_write: None,
            last_progress: None,
            offered: DeliverySeries::starting_at(origin),
        }
    }

    /// Payload of a full block.
    pub const fn payload_per_block(&self) -> usize {
        self.payload_per_block
    }

    /// What to do at `now`. The first call is the start of the test for this stream.
    pub fn next(&mut self, now: Timestamp) -> Step {
        if self.last_progress.is_none() {
            self.start(now);
        }
        if let Some((from, until)) = self.block {
            return self.write(from, until);
        }
        let Some(payload) = self.next_payload(now) else { return Step::Finished };
        if let Some(schedule) = &mut self.schedule {
            if let Err(due) = schedule.ready(now) {
                // Not later than the end of the test, so that END is not late by a block's time.
                return Step::WaitUntil(self.deadline.map_or(due, |deadline| due.min(deadline)));
            }
            schedule.book(payload);
        }
        self.begun += payload;
        self.first_write.get_or_insert(now);
        self.last_progress = Some(now);
        let until = HEADER_BYTES + payload as usize;
        self.block = Some((0, until));
        self.write(0, until)
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        let Some((from, until)) = self.block else { return };
        let reached = (from + count).min(until);
        let payload = reached.saturating_sub(HEADER_BYTES) - from.saturating_sub(HEADER_BYTES);
        self.accepted += payload as u64;
        self.offered.record(now, payload as u64);
        if self.offered.first == Some(now) {
            // The receiver may have the first bytes of a write before the call returns; cause comes before effect.
            self.offered.first = self.first_write;
        }
        self.block = if reached < until { Some((reached, until)) } else { None };
        if count > 0 {
            self.last_progress = Some(now);
        }
    }

    /// The peer's kernel acknowledged more bytes by `now`.
    pub const fn acknowledged(&mut self, now: Timestamp) {
        self.last_progress = Some(now);
    }

    /// This end itself waited for `time`: that says nothing about the peer.
    pub fn excuse(&mut self, time: Duration) {
        self.last_progress = self.last_progress.map(|last| last + time);
    }

    /// How long there was no progress, once that exceeds the patience.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        let silence = now.since(self.last_progress?);
        (silence >= self.plan.patience).then_some(silence)
    }

    /// When there last was progress; `None` before the first step.
    pub const fn last_progress(&self) -> Option<Timestamp> {
        self.last_progress
    }

    pub const fn accepted_bytes(&self) -> u64 {
        self.accepted
    }

    pub const fn offered(&self) -> &DeliverySeries {
        &self.offered
    }

    pub fn end(&self) -> End {
        let elapsed = match (self.offered.first, self.offered.last) {
            (Some(first), Some(last)) => last.since(first),
            _ => Duration::ZERO,
        };
        End {
            bytes: self.accepted,
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            cut_short: self.cut_short,
        }
    }

    fn start(&mut self, now: Timestamp) {
        self.last_progress = Some(now);
        self.schedule = self.plan.rate_bps.map(|rate| RateSchedule::new(rate, now));
        if let Amount::Duration(duration) = self.plan.amount {
            self.deadline = Some(now + self.plan.omit + duration);
        }
    }

    /// Payload of the block to begin at `now`; `None` when everything has been sent.
    fn next_payload(&mut self, now: Timestamp) -> Option<u64> {
        let mut payload = self.payload_per_block as u64;
        if let Amount::Bytes(bytes) = self.plan.amount {
            payload = payload.min(bytes - self.begun);
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) || payload == 0 {
            return None;
        }
        if let Some(ceiling) = self.plan.ceiling_bytes {
            payload = payload.min(ceiling - self.begun);
            self.cut_short = payload == 0;
        }
        (payload > 0).then_some(payload)
    }

    fn write(&self, from: usize, until: usize) -> Step {
        let payload = until - HEADER_BYTES;
        // The block under way is the last one begun.
        Step::Write { header: data_header(payload as u32), from, until, offset: self.begun - payload as u64 }
    }
}
