//! The messages of the patterns `ping` and `interactive`, as an end recorded them, and their lines in
//! `messages.jsonl`.

use crate::direction::Direction;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What became of one message. All timestamps are of the requester's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Which way the request goes: upload when the client sends it.
    pub direction: Direction,
    /// Number within its direction, from 0.
    pub sequence: u32,
    /// When the application wanted it sent, whatever the transport did.
    pub due: Timestamp,
    /// When the last of its bytes was taken by the transport; `None` when that never happened.
    pub sent: Option<Timestamp>,
    /// When the peer's acknowledgement had arrived; `None` when it never did. `ping` has none but the answer.
    pub acknowledged: Option<Timestamp>,
    /// When the peer's answer had arrived as a whole; `None` when it never did.
    pub answered: Option<Timestamp>,
}

impl Message {
    /// From due to acknowledged; for a message never acknowledged, to `end`: at least this long.
    ///
    /// `end` is when its requester stopped waiting for acknowledgements.
    pub fn delay(&self, end: Timestamp) -> Duration {
        self.acknowledged.unwrap_or(end).since(self.due)
    }

    /// Whether it was never acknowledged.
    pub const fn is_late(&self) -> bool {
        self.acknowledged.is_none()
    }
}

/// One line of `messages.jsonl`. Times are on the run's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageLine {
    pub run: String,
    /// Which way the request goes.
    pub direction: Direction,
    /// Number within its direction, from 0.
    pub sequence: u32,
    /// When the application wanted it sent.
    pub due_ms: f64,
    /// When the last of its bytes was taken by the transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ms: Option<f64>,
    /// Due → acknowledged; for a late one, due → end of the run: at least this long.
    pub delay_ms: f64,
    /// Whether it was never acknowledged.
    pub late: bool,
}

impl MessageLine {
    /// The lines of `messages`; `origin` is the zero of the run's clock, `end` when their requesters stopped
    /// waiting.
    pub fn of_messages(run: &str, messages: &[Message], origin: Timestamp, end: Timestamp) -> Vec<Self> {
        let on_the_clock = |at: Option<Timestamp>| at.map(|at| at.ms_from(origin));
        messages
            .iter()
            .map(|message| Self {
                run: run.to_owned(),
                direction: message.direction,
                sequence: message.sequence,
                due_ms: message.due.ms_from(origin),
                sent_ms: on_the_clock(message.sent),
                acknowledged_ms: on_the_clock(message.acknowledged),
                answered_ms: on_the_clock(message.answered),
                delay_ms: message.delay(end).as_nanos() as f64 / 1e6,
                late: message.is_late(),
            })
            .collect()
    }
}
