//! The requesting ends of `ping` and `interactive`.

use super::template::{MessageFault, Template, in_turn};
use crate::content::{Content, ContentKind};
use crate::meter::Meter;
use crate::protocol::{ControlFrame, FrameKind, HEADER_BYTES, MessageFrame};
use pathbench_record::direction::Direction;
use pathbench_record::end::{MessageRecord, TestId};
use pathbench_record::pattern::{InteractiveParameters, PingParameters};
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequesterStep {
    Write(Vec<u8>),
    WaitUntil(Timestamp),
    /// An answer may come until this time (ping).
    Await(Timestamp),
    Finished,
}

/// The requests of `ping` and `interactive`: written one after the other, with their answers checked.
#[derive(Debug)]
struct Requests {
    template: Template,
    answers: Template,
    sequence: u32,
    /// The request being written, and the number of its bytes that the socket has accepted.
    frame: Vec<u8>,
    taken: usize,
}

impl Requests {
    fn new(test: TestId, stream: u32, request_bytes: u32, answer_bytes: u32) -> Self {
        let template = |kind, bytes| Template::new(Content::new(test, stream, kind), bytes);
        Self {
            template: template(ContentKind::Requests, request_bytes),
            answers: template(ContentKind::Answers, answer_bytes),
            sequence: 0,
            frame: Vec::new(),
            taken: 0,
        }
    }

    fn begin(
        &mut self,
        now: Timestamp,
        sequence: u32,
        meter: &mut Meter,
    ) -> Result<RequesterStep, MessageFault> {
        meter.begin_write(now);
        self.frame = ControlFrame::Message(self.template.message(sequence)).encode()?;
        (self.sequence, self.taken) = (sequence, 0);
        Ok(RequesterStep::Write(self.frame.clone()))
    }

    fn is_writing(&self) -> bool {
        self.taken < self.frame.len()
    }

    fn rest(&self) -> Option<RequesterStep> {
        self.is_writing().then(|| RequesterStep::Write(self.frame[self.taken..].to_vec()))
    }

    /// The socket accepted `count` more bytes; returns the request's number when the socket has accepted all of it.
    fn accepted(&mut self, now: Timestamp, count: usize, meter: &mut Meter) -> Option<u32> {
        let reached = (self.taken + count).min(self.frame.len());
        let body = reached.saturating_sub(HEADER_BYTES) - self.taken.saturating_sub(HEADER_BYTES);
        meter.sent(now, body as u64);
        let was_writing = self.is_writing();
        self.taken = reached;
        (was_writing && !self.is_writing()).then_some(self.sequence)
    }
}

/// Sends requests one after the other and records when each was answered.
///
/// A request is answered in time or lost: a late answer is ignored. The next request follows one interval after the
/// previous one, or, if that takes longer, when the previous one is answered or given up.
#[derive(Debug)]
pub struct PingCore {
    parameters: PingParameters,
    requests: Requests,
    /// One per request, the warm-up's included.
    made: Vec<MessageRecord>,
    stopped: bool,
    /// Time limit of the answer to the last request.
    awaited_until: Option<Timestamp>,
    next_due: Timestamp,
    /// Progress is a byte accepted by the socket or an answer received.
    pub meter: Meter,
}

impl PingCore {
    /// A core that has not begun; its series count from `origin`. A request that cannot be written for `patience` ends
    /// the test.
    pub fn new(parameters: PingParameters, test: TestId, origin: Timestamp, patience: Duration) -> Self {
        Self {
            requests: Requests::new(test, 0, parameters.request_bytes, parameters.response_bytes),
            parameters,
            made: Vec::new(),
            stopped: false,
            awaited_until: None,
            next_due: Timestamp::default(),
            meter: Meter::new(origin, patience),
        }
    }

    pub fn next(&mut self, now: Timestamp) -> Result<RequesterStep, MessageFault> {
        if let Some(rest) = self.requests.rest() {
            return Ok(rest);
        }
        if let Some(until) = self.awaited_until {
            if now < until {
                return Ok(RequesterStep::Await(until));
            }
            self.settle(now);
        }
        let sequence = self.made.len() as u32;
        if sequence >= self.parameters.requests() || self.stopped {
            return Ok(RequesterStep::Finished);
        }
        if now < self.next_due {
            return Ok(RequesterStep::WaitUntil(self.next_due));
        }
        let step = self.requests.begin(now, sequence, &mut self.meter)?;
        self.made.push(MessageRecord {
            flow: Direction::Upload,
            sequence,
            due: now,
            sent: None,
            acknowledged: None,
            answered: None,
        });
        self.awaited_until = Some(now + self.parameters.timeout);
        self.meter.progressed(now);
        Ok(step)
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        if count > 0 && self.requests.is_writing() {
            self.meter.progressed(now);
        }
        let taken = self.requests.accepted(now, count, &mut self.meter);
        if let (Some(_), Some(made)) = (taken, self.made.last_mut()) {
            made.sent.get_or_insert(now);
        }
    }

    pub fn take(&mut self, now: Timestamp, frame: ControlFrame) -> Result<(), MessageFault> {
        let ControlFrame::Answer(answer) = frame else { return Err(MessageFault::from_unexpected(frame)) };
        let asked = self.made.len() as u32;
        let sequence = answer.sequence;
        if sequence >= asked {
            return Err(MessageFault::OutOfTurn { kind: FrameKind::Answer, sequence, expected: asked });
        }
        self.requests.answers.check(FrameKind::Answer, &answer)?;
        self.meter.progressed(now);
        self.meter.received(now, self.requests.answers.body_bytes as u64);
        let in_time = self.awaited_until.is_some_and(|until| now < until);
        if in_time
            && sequence + 1 == asked
            && let Some(made) = self.made.last_mut()
        {
            made.sent.get_or_insert(now);
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

    /// No request follows the one that was begun last.
    pub const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Time for which a request could not be written, once it exceeds the patience.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        self.meter.hung(now).filter(|_| self.requests.is_writing())
    }

    /// The requests after the first `first`, the warm-up's included.
    pub fn messages_from(&self, first: u32) -> Vec<MessageRecord> {
        self.made.get(first as usize..).unwrap_or_default().to_vec()
    }

    /// The requests without the warm-up.
    pub fn messages(&self) -> Vec<MessageRecord> {
        let warm_up = self.parameters.warm_up;
        self.made
            .iter()
            .filter(|made| made.sequence >= warm_up)
            .map(|made| MessageRecord { sequence: made.sequence - warm_up, ..*made })
            .collect()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    sent: Option<Timestamp>,
    acknowledged: Option<Timestamp>,
    answered: Option<Timestamp>,
}

/// Sends requests at fixed intervals and records when each was sent, acknowledged and answered.
///
/// Request `k` is due `k` intervals after the first step, independently of the network. While the socket accepts
/// nothing, requests queue here, and their delay counts from their due time. The record contains every request.
#[derive(Debug)]
pub struct InteractiveCore {
    flow: Direction,
    parameters: InteractiveParameters,
    requests: Requests,
    /// The first step: due time of request 0.
    start: Option<Timestamp>,
    /// Time from which no further request is due, if before the end of the duration.
    stopped: Option<Timestamp>,
    marks: Vec<Marks>,
    acknowledged: u32,
    /// Number of acknowledged and answered requests, whose records are final.
    answered: u32,
    /// Bodies of sent requests and of received acknowledgements and answers; receiving is progress.
    pub meter: Meter,
}

impl InteractiveCore {
    /// A core that has not begun; its series count from `origin`. Requests of the client are the `Upload` flow. Silence
    /// of the peer for `patience` while a request or answer is due ends the test.
    pub fn new(
        flow: Direction,
        parameters: InteractiveParameters,
        test: TestId,
        stream: u32,
        origin: Timestamp,
        patience: Duration,
    ) -> Self {
        Self {
            flow,
            requests: Requests::new(test, stream, parameters.request_bytes, parameters.response_bytes),
            parameters,
            start: None,
            stopped: None,
            marks: Vec::new(),
            acknowledged: 0,
            answered: 0,
            meter: Meter::new(origin, patience),
        }
    }

    /// The next step at `now`. The first call sets the due time of request 0.
    pub fn next(&mut self, now: Timestamp) -> Result<RequesterStep, MessageFault> {
        let start = *self.start.get_or_insert(now);
        self.meter.last_progress.get_or_insert(now);
        if let Some(rest) = self.requests.rest() {
            return Ok(rest);
        }
        let sequence = self.marks.len() as u32;
        if sequence >= self.requests_wanted() || now >= self.gives_up_at(start) {
            return Ok(RequesterStep::Finished);
        }
        let due = self.due(start, sequence);
        if now < due {
            return Ok(RequesterStep::WaitUntil(due));
        }
        let step = self.requests.begin(now, sequence, &mut self.meter)?;
        self.marks.push(Marks::default());
        Ok(step)
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        let taken = self.requests.accepted(now, count, &mut self.meter);
        if let Some(marks) = taken.and_then(|sequence| self.marks.get_mut(sequence as usize)) {
            marks.sent.get_or_insert(now);
        }
    }

    pub fn take(&mut self, now: Timestamp, frame: ControlFrame) -> Result<(), MessageFault> {
        match frame {
            ControlFrame::Acknowledge { sequence } => {
                let kind = FrameKind::Acknowledge;
                in_turn(kind, sequence, self.acknowledged)?;
                let marks = self.marks.get_mut(sequence as usize);
                let expected = self.acknowledged;
                let marks = marks.ok_or(MessageFault::OutOfTurn { kind, sequence, expected })?;
                // The thread that sends may report the end of its write after the acknowledgement has arrived.
                marks.sent.get_or_insert(now);
                marks.acknowledged = Some(now);
                self.acknowledged += 1;
                self.meter.received(now, 4);
            }
            ControlFrame::Answer(answer) => self.take_answer(now, &answer)?,
            ControlFrame::Stop => self.stop(now),
            frame => return Err(MessageFault::from_unexpected(frame)),
        }
        self.meter.progressed(now);
        Ok(())
    }

    fn take_answer(&mut self, now: Timestamp, answer: &MessageFrame) -> Result<(), MessageFault> {
        let (kind, sequence, expected) = (FrameKind::Answer, answer.sequence, self.answered);
        in_turn(kind, sequence, expected)?;
        // The acknowledgement precedes the answer.
        if sequence >= self.acknowledged {
            return Err(MessageFault::OutOfTurn { kind, sequence, expected });
        }
        self.requests.answers.check(kind, answer)?;
        if let Some(marks) = self.marks.get_mut(sequence as usize) {
            marks.answered = Some(now);
        }
        self.answered += 1;
        self.meter.received(now, self.requests.answers.body_bytes as u64);
        Ok(())
    }

    /// No request is due from `now` on, as if the duration were over. Earlier requests are still written, acknowledged
    /// and answered.
    pub fn stop(&mut self, now: Timestamp) {
        self.stopped.get_or_insert(now);
    }

    /// Whether END may follow: every request is answered, or the time limit for missing answers is over. A request that
    /// the socket accepted in part must be completed first.
    pub fn is_settled(&self, now: Timestamp) -> bool {
        let Some(start) = self.start else { return false };
        !self.requests.is_writing()
            && (self.answered >= self.requests_wanted() || now >= self.gives_up_at(start))
    }

    /// Time without received data while a request is unacknowledged, once it exceeds the patience.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        let start = self.start?;
        let waits = self.acknowledged < self.requests_wanted();
        let since = self.meter.last_progress?.max(self.due(start, self.acknowledged));
        let silence = now.duration_since(since);
        (waits && silence >= self.meter.patience).then_some(silence)
    }

    pub fn messages(&self, now: Timestamp) -> Vec<MessageRecord> {
        self.messages_from(0, now)
    }

    /// The requests due at `now` without the first `reported`, which becomes the number of those that are final. `now`
    /// may be earlier than the last step: a request that was due after it is in a later call.
    pub fn messages_since(&self, reported: &mut u32, now: Timestamp) -> Vec<MessageRecord> {
        let messages = self.messages_from(*reported, now);
        *reported = self.answered.min(*reported + messages.len() as u32);
        messages
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

    fn due(&self, start: Timestamp, sequence: u32) -> Timestamp {
        start + self.parameters.interval.saturating_mul(sequence)
    }

    /// Number of requests of the test: those of its duration, or those due when it was stopped.
    fn requests_wanted(&self) -> u32 {
        let all = self.parameters.messages();
        let (Some(start), Some(stopped)) = (self.start, self.stopped) else { return all };
        if stopped < start {
            return 0;
        }
        let intervals = stopped.duration_since(start).as_nanos() / self.parameters.interval.as_nanos().max(1);
        u32::try_from(intervals).map_or(all, |due| all.min(due.saturating_add(1)))
    }

    fn gives_up_at(&self, start: Timestamp) -> Timestamp {
        let last = start + self.parameters.duration;
        self.stopped.map_or(last, |stopped| last.min(stopped)) + self.parameters.linger
    }
}
