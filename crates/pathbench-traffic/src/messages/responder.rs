//! The answering end of both patterns.

use super::template::{MessageFault, Template, in_turn};
use crate::content::{Content, ContentKind};
use crate::meter::Meter;
use crate::protocol::{ControlFrame, EndFrame, FrameKind};
use pathbench_record::end::TestId;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct ResponderPlan {
    requests: Template,
    answers: Template,
    most: u32,
    acknowledges: bool,
    /// Longest silence of a requester that works correctly.
    silence: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The frame to be written at once (interactive).
    pub acknowledgement: Option<Vec<u8>>,
    pub answer: Vec<u8>,
}

/// Answers requests in order and counts them. It keeps nothing of an answered request, unless arrivals are recorded.
#[derive(Debug)]
pub struct MessageResponder {
    plan: ResponderPlan,
    next: u32,
    pub end: Option<EndFrame>,
    arrivals: Option<Vec<RequestArrival>>,
    /// Bodies of sent acknowledgements and answers, and of received requests; receiving is progress.
    pub meter: Meter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestArrival {
    pub sequence: u32,
    pub at: Timestamp,
}

impl ResponderPlan {
    pub fn new(parameters: &PatternParameters, test: TestId, stream: u32) -> Option<Self> {
        let template = |kind, bytes| Template::new(Content::new(test, stream, kind), bytes);
        match parameters {
            PatternParameters::Ping(ping) => Some(Self {
                requests: template(ContentKind::Requests, ping.request_bytes),
                answers: template(ContentKind::Answers, ping.response_bytes),
                most: ping.requests(),
                acknowledges: false,
                silence: ping.interval.saturating_add(ping.timeout),
            }),
            PatternParameters::Interactive(interactive) => Some(Self {
                requests: template(ContentKind::Requests, interactive.request_bytes),
                answers: template(ContentKind::Answers, interactive.response_bytes),
                most: interactive.messages(),
                acknowledges: true,
                silence: interactive.interval.saturating_add(interactive.linger),
            }),
            PatternParameters::Bulk(_)
            | PatternParameters::Throughput(_)
            | PatternParameters::Responsiveness(_)
            | PatternParameters::Datagrams(_) => None,
        }
    }
}

impl MessageResponder {
    /// A responder before the first request; its series count from `origin`. Silence of the peer for `patience`, in
    /// addition to the pattern's own pauses, ends the test.
    pub fn new(plan: ResponderPlan, origin: Timestamp, patience: Duration) -> Self {
        let meter = Meter::new(origin, patience.saturating_add(plan.silence));
        Self { plan, next: 0, end: None, arrivals: None, meter }
    }

    /// The arrivals of requests since the last call. From the first call on they are stored until the next call.
    pub fn take_arrivals(&mut self) -> Vec<RequestArrival> {
        self.arrivals.replace(Vec::new()).unwrap_or_default()
    }

    pub fn take(&mut self, now: Timestamp, frame: ControlFrame) -> Result<Option<Reply>, MessageFault> {
        let message = match frame {
            ControlFrame::Message(message) => message,
            ControlFrame::End(end) => {
                self.end = Some(end);
                self.meter.progressed(now);
                return Ok(None);
            }
            frame => return Err(MessageFault::from_unexpected(frame)),
        };
        let sequence = message.sequence;
        in_turn(FrameKind::Message, sequence, self.next)?;
        if sequence >= self.plan.most {
            return Err(MessageFault::Excess { most: self.plan.most });
        }
        self.plan.requests.check(FrameKind::Message, &message)?;
        self.next += 1;
        self.meter.progressed(now);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(RequestArrival { sequence, at: now });
        }
        self.meter.received(now, self.plan.requests.body_bytes as u64);
        let acknowledgement =
            self.plan.acknowledges.then(|| ControlFrame::Acknowledge { sequence }.encode()).transpose()?;
        let answer = ControlFrame::Answer(self.plan.answers.message(sequence)).encode()?;
        Ok(Some(Reply { acknowledgement, answer }))
    }

    pub fn acknowledged(&mut self, now: Timestamp) {
        self.meter.sent(now, 4);
    }

    pub fn answered(&mut self, now: Timestamp) {
        self.meter.sent(now, self.plan.answers.body_bytes as u64);
    }

    /// Time without received data, once it exceeds the expected silence.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        self.meter.hung(now).filter(|_| self.end.is_none())
    }
}
