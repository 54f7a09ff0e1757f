//! The `self` probes of a test: requests of the client in the loaded byte stream, and the server's answers.

use crate::content::{Content, ContentKind};
use crate::messages::{MessageFault, Template, in_turn};
use crate::protocol::{ControlFrame, FrameKind, MessageFrame};
use pathbench_record::end::TestId;
use pathbench_record::response::{LoadProbe, ProbeKind, ResponsivenessParameters};
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The client's requests: request `k` is due `k` intervals after the start, independently of the network. While the
/// socket accepts nothing, requests queue here, and their delay counts from their due time.
#[derive(Debug)]
pub(super) struct ProbeRequests {
    requests: Template,
    answers: Template,
    interval: Duration,
    most: u32,
    /// When each request that was begun was answered.
    answered: Vec<Option<Timestamp>>,
    next_answer: u32,
}

/// The server's answers, in the order of the requests. It keeps at most one number for each request of the test.
#[derive(Debug)]
pub(super) struct ProbeAnswers {
    requests: Template,
    answers: Template,
    most: u32,
    next: u32,
    pending: VecDeque<u32>,
}

fn templates(test: TestId, parameters: &ResponsivenessParameters) -> [Template; 2] {
    [ContentKind::Requests, ContentKind::Answers]
        .map(|kind| Template::new(Content::new(test, 0, kind), parameters.probe_bytes))
}

impl ProbeRequests {
    pub(super) fn new(test: TestId, parameters: &ResponsivenessParameters) -> Self {
        let [requests, answers] = templates(test, parameters);
        let (interval, most) = (parameters.interval, parameters.probes());
        Self { requests, answers, interval, most, answered: Vec::new(), next_answer: 0 }
    }

    fn due_time(&self, start: Timestamp, sequence: u32) -> Timestamp {
        start + self.interval.saturating_mul(sequence)
    }

    /// When the next request is due; `None` after the last one.
    pub(super) fn due(&self, start: Timestamp) -> Option<Timestamp> {
        let next = self.answered.len() as u32;
        (next < self.most).then(|| self.due_time(start, next))
    }

    /// The next request, which the caller writes as a whole.
    pub(super) fn request(&mut self) -> Result<Vec<u8>, MessageFault> {
        let sequence = self.answered.len() as u32;
        self.answered.push(None);
        Ok(ControlFrame::Message(self.requests.message(sequence)).encode()?)
    }

    pub(super) fn take(&mut self, now: Timestamp, answer: &MessageFrame) -> Result<(), MessageFault> {
        let (kind, sequence, expected) = (FrameKind::Answer, answer.sequence, self.next_answer);
        in_turn(kind, sequence, expected)?;
        self.answers.check(kind, answer)?;
        let answered = self.answered.get_mut(sequence as usize);
        *answered.ok_or(MessageFault::OutOfTurn { kind, sequence, expected })? = Some(now);
        self.next_answer += 1;
        Ok(())
    }

    /// When the oldest request without an answer was due.
    pub(super) fn waiting_since(&self, start: Timestamp) -> Option<Timestamp> {
        let waits = (self.next_answer as usize) < self.answered.len();
        waits.then(|| self.due_time(start, self.next_answer))
    }

    pub(super) fn are_answered(&self) -> bool {
        self.next_answer >= self.most
    }

    pub(super) fn results(&self, start: Timestamp) -> Vec<LoadProbe> {
        let result = |(sequence, answered): (u32, &Option<Timestamp>)| LoadProbe {
            kind: ProbeKind::Own,
            path: None,
            sequence,
            due: self.due_time(start, sequence),
            answered: *answered,
        };
        (0..).zip(&self.answered).map(result).collect()
    }
}

impl ProbeAnswers {
    pub(super) fn new(test: TestId, parameters: &ResponsivenessParameters) -> Self {
        let [requests, answers] = templates(test, parameters);
        Self { requests, answers, most: parameters.probes(), next: 0, pending: VecDeque::new() }
    }

    pub(super) fn take(&mut self, request: &MessageFrame) -> Result<(), MessageFault> {
        let sequence = request.sequence;
        in_turn(FrameKind::Message, sequence, self.next)?;
        if sequence >= self.most {
            return Err(MessageFault::Excess { most: self.most });
        }
        self.requests.check(FrameKind::Message, request)?;
        self.next += 1;
        self.pending.push_back(sequence);
        Ok(())
    }

    /// The next answer, which the caller writes as a whole.
    pub(super) fn answer(&mut self) -> Result<Option<Vec<u8>>, MessageFault> {
        let Some(sequence) = self.pending.pop_front() else { return Ok(None) };
        Ok(Some(ControlFrame::Answer(self.answers.message(sequence)).encode()?))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
}
