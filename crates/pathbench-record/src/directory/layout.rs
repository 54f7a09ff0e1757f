//! The files of a result directory.

use super::line::Line;
use crate::datagram::DatagramLine;
use crate::delivery::DeliveryLine;
use crate::document::LinkSample;
use crate::end::MessageLine;
use crate::event::Event;
use crate::sample::Sample;
use std::path::Path;

pub(super) const DOCUMENT: &str = "run.json";
/// The document of an unfinished result; the finished runs of a study are in the file of records.
pub(super) const PARTIAL: &str = "run.partial.json";
/// The records of the finished runs of an unfinished result.
pub(super) const RECORDS: &str = "runs.partial.jsonl";
/// The files with lines of runs.
pub(super) const LINES_OF_RUNS: [&str; 6] =
    [Sample::FILE, Event::FILE, DeliveryLine::FILE, MessageLine::FILE, LinkSample::FILE, DatagramLine::FILE];
pub const TRACE_FILE: &str = "trace.json";
pub const SEQUENCE_FILE: &str = "sequence.jsonl";

pub fn holds_result(dir: &Path) -> bool {
    let files = [DOCUMENT, PARTIAL, RECORDS, Sample::FILE, TRACE_FILE];
    files.iter().any(|file| dir.join(file).symlink_metadata().is_ok())
}
