//! Traces beside a scenario's file: `rate_trace`, `delay_trace`, `loss_trace`. They are read when the plan is made, so
//! that a bad one is a mistake of the scenario.

use super::mistake::MistakeKind;
use super::section::Section;
use pathbench_emulator::model::RateModel;
use pathbench_emulator::schedule::{DelaySchedule, LossSchedule};
use pathbench_emulator::trace::{self, MAX_BYTES, RateFormat, TraceError};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rate that `rate_trace` describes.
pub(super) fn rate(section: &Section<'_>) -> Option<RateModel> {
    let known = RateFormat::ALL.map(|format| (format.name(), Some(format)));
    let formats: Vec<_> = std::iter::once(("auto", None)).chain(known).collect();
    let format = section.choice("rate_trace_format", &formats).flatten();
    parse(section, "rate_trace", |bytes| trace::rate(bytes, format))
}

/// The delays that `delay_trace` describes.
pub(super) fn delays(section: &Section<'_>) -> Option<Arc<DelaySchedule>> {
    parse(section, "delay_trace", trace::delay).map(Arc::new)
}

/// The losses that `loss_trace` describes.
pub(super) fn losses(section: &Section<'_>) -> Option<Arc<LossSchedule>> {
    parse(section, "loss_trace", trace::loss).map(Arc::new)
}

fn parse<T>(
    section: &Section<'_>,
    key: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, TraceError>,
) -> Option<T> {
    let (path, bytes) = read(section, key)?;
    parse(&bytes)
        .map_err(|error| {
            let problem = format!("{} is no trace: {error}", path.display());
            section.wrong(MistakeKind::Value, key, problem, "docs/presets.md has the formats");
        })
        .ok()
}

/// Path and content of the file that `key` names, relative to the scenario's directory.
fn read(section: &Section<'_>, key: &str) -> Option<(PathBuf, Vec<u8>)> {
    let name = section.text(key, "walk.trace")?;
    let directory = Path::new(section.ledger.file()).parent().unwrap_or(Path::new(""));
    let path = directory.join(name);
    let mut bytes = Vec::new();
    // One byte too many is enough for the parser to say that it is too large.
    let most = MAX_BYTES as u64 + 1;
    let read = File::open(&path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    if let Err(error) = read {
        let problem = format!("cannot read {}: {error}", path.display());
        let remedy = "give the path of a file, relative to the scenario's own directory";
        section.wrong(MistakeKind::Reference, key, problem, remedy);
        return None;
    }
    Some((path, bytes))
}
