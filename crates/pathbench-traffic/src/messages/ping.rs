//! The asking end of `ping`.

use super::{MessageFault, Outgoing, Series, Template};
use crate::content::{Content, Lane};
use crate::protocol::{Frame, FrameKind};
use pathbench_record::direction::Direction;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::PingParameters;
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PingStep {
    Write(Vec<u8>),
    WaitUntil(Timestamp),
    /// An answer may come until this time.
    Await(Timestamp),
    Finished,
}

/// Makes requests one after the other and keeps when each was answered.
///
/// A request is answered in time or lost: its answer is ignored when it comes after all. The next one follows an
/// interval after it, or as soon as the answer is there or given up when that takes longer.
#[derive(Debug)]
pub struct PingCore {
    parameters: PingParameters,
    requests: Template,
    answers: Template,
    patience: Duration,
    /// One per request made, the warm-up's included.
    made: Vec<MessageRecord>,
    outgoing: Option<Outgoing>,
    /// Until when the last request may be answered.
    awaited_until: Option<Timestamp>,
    next_due: Timestamp,
    last_progress: Option<Timestamp>,
    series: Series,
}

impl PingCore {
    /// A core that has not begun; its series count from `origin`. A request that cannot be written for `patience`
    /// ends the test.
    pub fn new(parameters: PingParameters, test: TestId, origin: Timestamp, patience: Duration) -> Self {
        let content = |lane| Content::of(test, 0, lane);
        Self {
            requests: Template::new(content(Lane::Requests), parameters.request_bytes),
            answers: Template::new(content(Lane::Answers), parameters.response_bytes),
            parameters,
            patience,
            made: Vec::new(),
            outgoing: None,
            awaited_until: None,
            next_due: Timestamp::default(),
            last_progress: None,
            series: Series::starting_at(origin),
        }
    }

    pub fn next(&mut self, now: Timestamp) -> Result<PingStep, MessageFault> {
        if let Some(outgoing) = &self.outgoing {
            return Ok(PingStep::Write(outgoing.rest()));
        }
        if let Some(until) = self.awaited_until {
            if now < until {
                return Ok(PingStep::Await(until));
            }
            self.settle(now);
        }
        let sequence = self.made.len() as u32;
        if sequence >= self.parameters.requests() {
            return Ok(PingStep::Finished);
        }
        if now < self.next_due {
            return Ok(PingStep::WaitUntil(self.next_due));
        }
        let outgoing = Outgoing::new(self.requests, sequence)?;
        let step = PingStep::Write(outgoing.rest());
        self.outgoing = Some(outgoing);
        self.made.push(MessageRecord {
            flow: Direction::Upload,
            sequence,
            due: now,
            sent: None,
            acknowledged: None,
            answered: None,
        });
        self.awaited_until = Some(now + self.parameters.timeout);
        self.last_progress = Some(now);
        Ok(step)
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        let Some(outgoing) = &mut self.outgoing else { return };
        self.series.offered.record(now, outgoing.take(count));
        if count > 0 {
            self.last_progress = Some(now);
        }
        if outgoing.is_taken() {
            self.outgoing = None;
            if let Some(made) = self.made.last_mut() {
                made.sent = Some(now);
                if self.series.offered.first == Some(now) {
                    // Cause comes before effect: the answer may be there before the call returns.
                    self.series.offered.first = Some(made.due);
                }
            }
        }
    }

    pub fn take(&mut self, now: Timestamp, frame: Frame) -> Result<(), MessageFault> {
        let Frame::Answer(answer) = frame else { return Err(MessageFault::unexpected(frame)) };
        let asked = self.made.len() as u32;
        let sequence = answer.sequence;
        if sequence >= asked {
            return Err(MessageFault::OutOfTurn { kind: FrameKind::Answer, sequence, expected: asked });
        }
        self.answers.check(FrameKind::Answer, &answer)?;
        self.last_progress = Some(now);
        self.series.deliveries.record(now, self.answers.body_bytes as u64);
        let in_time = self.awaited_until.is_some_and(|until| now < until);
        if in_time
            && sequence + 1 == asked
            && let Some(made) = self.made.last_mut()
        {
            made.answered = Some(now);
            self.settle(now);
        }
        Ok(())
    }

    fn settle(&mut self, now: Timestamp) {
        self.awaited_until = None;
        if let Some(made) = self.made.last() {
            self.next_due = now.max(made.due + self.parameters.interval);
        }
    }

    /// How long a request could not be written, once that exceeds the patience.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        self.outgoing.as_ref()?;
        let silence = now.since(self.last_progress?);
        (silence >= self.patience).then_some(silence)
    }

    /// When there last was progress: a byte accepted by the socket or an answer received.
    pub const fn last_progress(&self) -> Option<Timestamp> {
        self.last_progress
    }

    /// The requests that count, the warm-up left out.
    pub fn messages(&self) -> Vec<MessageRecord> {
        let warm_up = self.parameters.warm_up;
        self.made
            .iter()
            .filter(|made| made.sequence >= warm_up)
            .map(|made| MessageRecord { sequence: made.sequence - warm_up, ..*made })
            .collect()
    }

    pub const fn series(&self) -> &Series {
        &self.series
    }
}
