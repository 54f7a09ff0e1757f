//! The handover of a run between the client's paths.

use super::Evidence;
use crate::metrics::{self, PathHistory};
use pathbench_record::direction::Direction;
use pathbench_record::document::HandoverRecord;
use pathbench_record::event::Event;
use pathbench_record::sample::{Sample, Side};

/// The handover of a run over several paths, seen at the end that sends data: the client, unless data goes only down.
pub(super) fn handover(
    evidence: &Evidence<'_>,
    samples: &[Sample],
    events: &[Event],
) -> Option<HandoverRecord> {
    if !evidence.label.transport.is_multipath() {
        return None;
    }
    let side = if evidence.directions() == [Direction::Download] { Side::Server } else { Side::Client };
    let paths = &evidence.setting.paths;
    let spares: Vec<String> =
        paths.iter().filter(|path| path.backup == Some(true)).map(|path| path.name.clone()).collect();
    metrics::handover(&PathHistory { samples, events, side, spares: &spares })
}
