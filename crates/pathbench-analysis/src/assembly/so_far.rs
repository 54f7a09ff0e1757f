//! The lines of a run that still goes on.

use super::{Evidence, PathNames, lines};
use crate::assembly::messages::Messages;
use pathbench_record::event::Event;
use pathbench_record::message::MessageLine;
use pathbench_record::sample::Sample;
use pathbench_record::time::Timestamp;

/// Lines of a run that still goes on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinesSoFar {
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
    /// For `messages.jsonl`; one that waits for its acknowledgement is late, for now.
    pub messages: Vec<MessageLine>,
}

impl LinesSoFar {
    /// The lines of what `evidence` has, which may be a part of the run only. `origin` is the zero of their clock: that
    /// of the finished run is known when both ends' records are.
    pub fn of(evidence: &Evidence<'_>, origin: Timestamp) -> Self {
        let names = PathNames::of(evidence.setting.named());
        Self {
            samples: lines::samples(evidence, &names, origin),
            events: lines::events(evidence, &names, origin),
            messages: Messages::of(evidence).lines(&evidence.id, origin),
        }
    }
}
