//! What came of the messages of a run: of ping and interactive.

use super::{Evidence, sending_side};
use crate::metrics;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, PingRecord};
use pathbench_record::message::{Message, MessageLine};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// The messages of both flows, each with the moment at which its requester stopped waiting.
pub(super) struct Messages {
    flows: Vec<Flow>,
    is_ping: bool,
}

struct Flow {
    direction: Direction,
    messages: Vec<Message>,
    round_trips: Vec<Option<Duration>>,
    end: Timestamp,
}

impl Messages {
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        let flow = |direction| {
            let end = evidence.end(sending_side(direction))?;
            let of_flow = || end.messages.iter().filter(|message| message.flow == direction);
            let messages: Vec<Message> = of_flow()
                .map(|message| Message {
                    direction,
                    sequence: message.sequence,
                    due: message.due,
                    sent: message.sent,
                    acknowledged: message.acknowledged,
                    answered: message.answered,
                })
                .collect();
            let round_trips = of_flow().map(pathbench_record::end::MessageRecord::round_trip).collect();
            (!messages.is_empty()).then_some(Flow { direction, messages, round_trips, end: end.ended })
        };
        Self {
            flows: Direction::BOTH.into_iter().filter_map(flow).collect(),
            is_ping: matches!(evidence.setting.parameters, PatternParameters::Ping(_)),
        }
    }

    /// Lines of `messages.jsonl`, in order of time. A ping's answer is its acknowledgement.
    pub(super) fn lines(&self, run: &str, origin: Timestamp) -> Vec<MessageLine> {
        let mut lines: Vec<MessageLine> = Vec::new();
        for flow in &self.flows {
            let messages: Vec<Message> = flow
                .messages
                .iter()
                .map(|message| Message {
                    acknowledged: if self.is_ping { message.answered } else { message.acknowledged },
                    ..*message
                })
                .collect();
            lines.extend(MessageLine::of_messages(run, &messages, origin, flow.end));
        }
        lines.sort_by(|a, b| a.due_ms.total_cmp(&b.due_ms));
        lines
    }

    pub(super) fn ping(&self) -> Option<PingRecord> {
        let flow = self.flows.first().filter(|_| self.is_ping)?;
        metrics::ping(&flow.round_trips)
    }

    pub(super) fn delay_of(&self, direction: Direction) -> Option<DelayRecord> {
        let flow = self.flows.iter().find(|flow| flow.direction == direction && !self.is_ping)?;
        metrics::delay(&flow.messages, flow.end)
    }

    /// Delay of the messages of both directions together.
    pub(super) fn delay(&self) -> Option<DelayRecord> {
        if self.is_ping {
            return None;
        }
        let flows: Vec<_> = self.flows.iter().map(|flow| (flow.messages.as_slice(), flow.end)).collect();
        metrics::delay_of_flows(&flows)
    }
}
