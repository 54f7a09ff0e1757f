//! The messages of a run: ping and interactive.

use super::evidence::sending_side;
use super::resolved::ResolvedRun;
use crate::metrics;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, PingRecord};
use pathbench_record::end::{MessageLine, MessageRecord};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::time::Timestamp;

/// The messages of both flows, each flow with the time when its requester stopped waiting.
pub(super) struct Messages {
    flows: Vec<Flow>,
    is_ping: bool,
}

struct Flow {
    direction: Direction,
    messages: Vec<MessageRecord>,
    end: Timestamp,
}

impl Messages {
    pub(super) fn new(run: &ResolvedRun<'_>) -> Self {
        let flow = |direction| {
            let (end, _) = run.ends.iter().find(|(end, _)| end.side == sending_side(direction))?;
            let of_flow = end.messages.iter().filter(|message| message.flow == direction);
            let messages: Vec<MessageRecord> = of_flow.copied().collect();
            (!messages.is_empty()).then_some(Flow { direction, messages, end: end.ended })
        };
        Self {
            flows: Direction::BOTH.into_iter().filter_map(flow).collect(),
            is_ping: matches!(run.evidence.setting.parameters, PatternParameters::Ping(_)),
        }
    }

    /// Lines of `messages.jsonl`, sorted by time. The answer to a ping is its acknowledgement.
    pub(super) fn lines(&self, run: &ResolvedRun<'_>) -> Vec<MessageLine> {
        let mut lines: Vec<MessageLine> = Vec::new();
        for flow in &self.flows {
            let mut messages = flow.messages.clone();
            for message in messages.iter_mut().filter(|_| self.is_ping) {
                message.acknowledged = message.answered;
            }
            lines.extend(MessageLine::of_messages(&run.evidence.id, &messages, run.origin, flow.end));
        }
        lines.sort_by(|a, b| a.due_ms.total_cmp(&b.due_ms));
        lines
    }

    pub(super) fn ping(&self) -> Option<PingRecord> {
        let flow = self.flows.first().filter(|_| self.is_ping)?;
        metrics::ping(&flow.messages.iter().map(MessageRecord::round_trip).collect::<Vec<_>>())
    }

    pub(super) fn delay_of(&self, direction: Direction) -> Option<DelayRecord> {
        let flow = self.flows.iter().find(|flow| flow.direction == direction && !self.is_ping)?;
        metrics::delay(&flow.messages, flow.end)
    }

    /// Delay over the messages of both directions.
    pub(super) fn delay(&self) -> Option<DelayRecord> {
        if self.is_ping {
            return None;
        }
        let flows: Vec<_> = self.flows.iter().map(|flow| (flow.messages.as_slice(), flow.end)).collect();
        metrics::delay_of_flows(&flows)
    }
}
