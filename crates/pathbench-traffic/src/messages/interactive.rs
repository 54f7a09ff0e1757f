//! The asking end of `interactive`.

use super::{MessageFault, Outgoing, Series, Template};
use crate::content::{Content, Lane};
use crate::protocol::{Frame, FrameKind, Message};
use pathbench_record::direction::Direction;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::InteractiveParameters;
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InteractiveStep {
    Write(Vec<u8>),
    WaitUntil(Timestamp),
    Finished,
}

#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    sent: Option<Timestamp>,
    acknowledged: Option<Timestamp>,
    answered: Option<Timestamp>,
}

/// Makes requests on a fixed grid and keeps when each was sent, acknowledged and answered.
///
/// Request `k` is due `k` intervals after the first step, whatever the network does: while the socket takes nothing,
/// requests queue here, and their delay counts from when they were due. Nothing is ever dropped from the record.
#[derive(Debug)]
pub struct InteractiveCore {
    flow: Direction,
    parameters: InteractiveParameters,
    requests: Template,
    answers: Template,
    patience: Duration,
    /// The first step: due time of request 0.
    start: Option<Timestamp>,
    /// From when on no further request is due, before the duration is over.
    stopped: Option<Timestamp>,
    marks: Vec<Marks>,
    outgoing: Option<Outgoing>,
    acknowledged: u32,
    answered: u32,
    first_write: Option<Timestamp>,
    last_heard: Option<Timestamp>,
    series: Series,
}

impl InteractiveCore {
    /// A core that has not begun; its series count from `origin`. Requests of the client are the `Upload` flow.
    /// Nothing heard for `patience` while something is due ends the test.
    pub fn new(
        flow: Direction,
        parameters: InteractiveParameters,
        test: TestId,
        stream: u32,
        origin: Timestamp,
        patience: Duration,
    ) -> Self {
        let content = |lane| Content::of(test, stream, lane);
        Self {
            flow,
            requests: Template::new(content(Lane::Requests), parameters.request_bytes),
            answers: Template::new(content(Lane::Answers), parameters.response_bytes),
            parameters,
            patience,
            start: None,
            stopped: None,
            marks: Vec::new(),
            outgoing: None,
            acknowledged: 0,
            answered: 0,
            first_write: None,
            last_heard: None,
            series: Series::starting_at(origin),
        }
    }

    /// What to write at `now`. The first call is the start of the grid.
    pub fn next(&mut self, now: Timestamp) -> Result<InteractiveStep, MessageFault> {
        let start = *self.start.get_or_insert(now);
        if let Some(outgoing) = &self.outgoing {
            return Ok(InteractiveStep::Write(outgoing.rest()));
        }
        let sequence = self.marks.len() as u32;
        if sequence >= self.requests_wanted() || now >= self.gives_up_at(start) {
            return Ok(InteractiveStep::Finished);
        }
        let due = self.due(start, sequence);
        if now < due {
            return Ok(InteractiveStep::WaitUntil(due));
        }
        let outgoing = Outgoing::new(self.requests, sequence)?;
        let step = InteractiveStep::Write(outgoing.rest());
        self.outgoing = Some(outgoing);
        self.marks.push(Marks::default());
        self.first_write.get_or_insert(now);
        Ok(step)
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        let Some(outgoing) = &mut self.outgoing else { return };
        self.series.offered.record(now, outgoing.take(count));
        if self.series.offered.first == Some(now) {
            // Cause comes before effect: the receiver may have it before the call returns that writes it.
            self.series.offered.first = self.first_write;
        }
        if outgoing.is_taken() {
            if let Some(marks) = self.marks.get_mut(outgoing.sequence as usize) {
                marks.sent = Some(now);
            }
            self.outgoing = None;
        }
    }

    pub fn take(&mut self, now: Timestamp, frame: Frame) -> Result<(), MessageFault> {
        match frame {
            Frame::Acknowledge { sequence } => {
                in_turn(FrameKind::Acknowledge, sequence, self.acknowledged)?;
                let marks = self.marks.get_mut(sequence as usize).ok_or(out_of_turn(
                    FrameKind::Acknowledge,
                    sequence,
                    self.acknowledged,
                ))?;
                marks.acknowledged = Some(now);
                self.acknowledged += 1;
                self.series.deliveries.record(now, 4);
            }
            Frame::Answer(answer) => self.take_answer(now, &answer)?,
            Frame::Stop => self.stop(now),
            frame => return Err(MessageFault::unexpected(frame)),
        }
        self.last_heard = Some(now);
        Ok(())
    }

    fn take_answer(&mut self, now: Timestamp, answer: &Message) -> Result<(), MessageFault> {
        let sequence = answer.sequence;
        in_turn(FrameKind::Answer, sequence, self.answered)?;
        // The acknowledgement goes before the answer.
        if sequence >= self.acknowledged {
            return Err(out_of_turn(FrameKind::Answer, sequence, self.answered));
        }
        self.answers.check(FrameKind::Answer, answer)?;
        if let Some(marks) = self.marks.get_mut(sequence as usize) {
            marks.answered = Some(now);
        }
        self.answered += 1;
        self.series.deliveries.record(now, self.answers.body_bytes as u64);
        Ok(())
    }

    /// Nothing more is due from `now` on, as if the duration were over. What was due before stays to be written,
    /// acknowledged and answered.
    pub fn stop(&mut self, now: Timestamp) {
        self.stopped.get_or_insert(now);
    }

    /// How many requests are acknowledged and answered: what came of them is final.
    pub const fn settled(&self) -> u32 {
        self.answered
    }

    /// Whether END may follow: every request is answered, or those that are missing have been waited for long
    /// enough. A request that the socket took in part has to be taken as a whole first.
    pub fn is_settled(&self, now: Timestamp) -> bool {
        let Some(start) = self.start else { return false };
        self.outgoing.is_none() && (self.answered >= self.requests_wanted() || now >= self.gives_up_at(start))
    }

    /// How long nothing was heard while a request waited for its acknowledgement, once that exceeds the patience.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        let start = self.start?;
        let waits = self.acknowledged < self.requests_wanted();
        let since = self.last_heard.unwrap_or(start).max(self.due(start, self.acknowledged));
        let silence = now.since(since);
        (waits && silence >= self.patience).then_some(silence)
    }

    /// When something was last heard of the peer; the start when nothing was.
    pub fn last_progress(&self) -> Option<Timestamp> {
        self.last_heard.or(self.start)
    }

    pub fn messages(&self, now: Timestamp) -> Vec<MessageRecord> {
        self.messages_from(0, now)
    }

    pub fn messages_from(&self, first: u32, now: Timestamp) -> Vec<MessageRecord> {
        let Some(start) = self.start else { return Vec::new() };
        (first..self.requests_wanted())
            .map(|sequence| (sequence, self.due(start, sequence)))
            .take_while(|(_, due)| *due <= now)
            .map(|(sequence, due)| {
                let Marks { sent, acknowledged, answered } =
                    self.marks.get(sequence as usize).copied().unwrap_or_default();
                MessageRecord { flow: self.flow, sequence, due, sent, acknowledged, answered }
            })
            .collect()
    }

    /// Bodies of requests that went out, and of acknowledgements and answers that came in.
    pub const fn series(&self) -> &Series {
        &self.series
    }

    fn due(&self, start: Timestamp, sequence: u32) -> Timestamp {
        start + self.parameters.interval.saturating_mul(sequence)
    }

    /// All requests of the test: those of its duration, or those that were due when it was stopped.
    fn requests_wanted(&self) -> u32 {
        let all = self.parameters.messages();
        let (Some(start), Some(stopped)) = (self.start, self.stopped) else { return all };
        if stopped < start {
            return 0;
        }
        let intervals = stopped.since(start).as_nanos() / self.parameters.interval.as_nanos().max(1);
        u32::try_from(intervals).map_or(all, |due| all.min(due.saturating_add(1)))
    }

    fn gives_up_at(&self, start: Timestamp) -> Timestamp {
        let last = start + self.parameters.duration;
        self.stopped.map_or(last, |stopped| last.min(stopped)) + self.parameters.linger
    }
}

fn in_turn(kind: FrameKind, sequence: u32, expected: u32) -> Result<(), MessageFault> {
    if sequence == expected { Ok(()) } else { Err(out_of_turn(kind, sequence, expected)) }
}

const fn out_of_turn(kind: FrameKind, sequence: u32, expected: u32) -> MessageFault {
    MessageFault::OutOfTurn { kind, sequence, expected }
}
