//! The answering end of both patterns.

use super::{MessageFault, Series, Template};
use crate::content::{Content, Lane};
use crate::protocol::{End, Frame, FrameKind};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct ResponderPlan {
    requests: Template,
    answers: Template,
    most: u32,
    acknowledges: bool,
    /// The longest silence of a requester that is well.
    silence: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The frame to be written at once (interactive).
    pub acknowledgement: Option<Vec<u8>>,
    pub answer: Vec<u8>,
}

/// Answers requests, in order, and counts them. Unless somebody wants to know when they came, it holds nothing of a
/// request once it is answered.
#[derive(Debug)]
pub struct Responder {
    plan: ResponderPlan,
    patience: Duration,
    next: u32,
    end: Option<End>,
    last_heard: Option<Timestamp>,
    arrivals: Option<Vec<Arrival>>,
    series: Series,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub sequence: u32,
    pub at: Timestamp,
}

impl ResponderPlan {
    pub fn of(parameters: &PatternParameters, test: TestId, stream: u32) -> Option<Self> {
        let template = |lane, bytes| Template::new(Content::of(test, stream, lane), bytes);
        match parameters {
            PatternParameters::Ping(ping) => Some(Self {
                requests: template(Lane::Requests, ping.request_bytes),
                answers: template(Lane::Answers, ping.response_bytes),
                most: ping.requests(),
                acknowledges: false,
                silence: ping.interval.saturating_add(ping.timeout),
            }),
            PatternParameters::Interactive(interactive) => Some(Self {
                requests: template(Lane::Requests, interactive.request_bytes),
                answers: template(Lane::Answers, interactive.response_bytes),
                most: interactive.messages(),
                acknowledges: true,
                silence: interactive.interval.saturating_add(interactive.linger),
            }),
            PatternParameters::Bulk(_) | PatternParameters::Throughput(_) => None,
        }
    }
}

impl Responder {
    /// A responder that has heard nothing yet; its series count from `origin`. Silence of the peer for `patience`,
    /// beyond what the pattern itself may take, ends the test.
    pub fn new(plan: ResponderPlan, origin: Timestamp, patience: Duration) -> Self {
        Self {
            plan,
            patience,
            next: 0,
            end: None,
            last_heard: None,
            arrivals: None,
            series: Series::starting_at(origin),
        }
    }

    /// The test begins: silence counts from now on.
    pub const fn begin(&mut self, now: Timestamp) {
        self.last_heard = Some(now);
    }

    /// When the requests since the last call came. From the first call on they are remembered, each until it is handed
    /// out.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        self.arrivals.replace(Vec::new()).unwrap_or_default()
    }

    pub fn take(&mut self, now: Timestamp, frame: Frame) -> Result<Option<Reply>, MessageFault> {
        let message = match frame {
            Frame::Message(message) => message,
            Frame::End(end) => {
                self.end = Some(end);
                self.last_heard = Some(now);
                return Ok(None);
            }
            frame => return Err(MessageFault::unexpected(frame)),
        };
        let sequence = message.sequence;
        if sequence != self.next {
            let expected = self.next;
            return Err(MessageFault::OutOfTurn { kind: FrameKind::Message, sequence, expected });
        }
        if sequence >= self.plan.most {
            return Err(MessageFault::Excess { most: self.plan.most });
        }
        self.plan.requests.check(FrameKind::Message, &message)?;
        self.next += 1;
        self.last_heard = Some(now);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(Arrival { sequence, at: now });
        }
        self.series.deliveries.record(now, self.plan.requests.body_bytes as u64);
        let acknowledgement =
            self.plan.acknowledges.then(|| Frame::Acknowledge { sequence }.encode()).transpose()?;
        let answer = Frame::Answer(self.plan.answers.message(sequence)).encode()?;
        Ok(Some(Reply { acknowledgement, answer }))
    }

    pub fn acknowledged(&mut self, now: Timestamp) {
        self.series.offered.record(now, 4);
    }

    pub fn answered(&mut self, now: Timestamp) {
        self.series.offered.record(now, self.plan.answers.body_bytes as u64);
    }

    /// How long nothing was heard, once that exceeds what is to be expected.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        if self.end.is_some() {
            return None;
        }
        let silence = now.since(self.last_heard?);
        (silence >= self.patience.saturating_add(self.plan.silence)).then_some(silence)
    }

    /// When something was last heard of the peer; `None` before the test begins.
    pub const fn last_progress(&self) -> Option<Timestamp> {
        self.last_heard
    }

    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Bodies of acknowledgements and answers that went out, and of requests that came in.
    pub const fn series(&self) -> &Series {
        &self.series
    }
}
