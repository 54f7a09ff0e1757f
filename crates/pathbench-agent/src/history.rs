//! The results of the agent on this host: the latest ones, for the page, and the removal of old ones.

use crate::pending;
use pathbench_record::directory::{ResultDirectory, holds_result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Results that are kept; older ones have been submitted or wait in the outbox.
const KEPT: usize = 50;
/// Results on the page.
const SHOWN: usize = 20;
/// A larger document is not read for the page.
const DOCUMENT_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PastResult {
    pub(crate) name: String,
    pub(crate) started: String,
    pub(crate) server: Option<String>,
    pub(crate) has_report: bool,
    pub(crate) groups: Vec<PastGroup>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PastGroup {
    pub(crate) label: String,
    pub(crate) pattern: String,
    pub(crate) completed: u32,
    pub(crate) runs: u32,
    pub(crate) figures: BTreeMap<String, f64>,
}

/// Results of `directory`, the latest first.
fn all(directory: &Path) -> Vec<PathBuf> {
    let of_entry = |entry: fs::DirEntry| {
        let path = entry.path();
        let modified =
            entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        (path.is_dir() && holds_result(&path)).then_some((modified, path))
    };
    let mut all: Vec<(SystemTime, PathBuf)> =
        fs::read_dir(directory).into_iter().flatten().flatten().filter_map(of_entry).collect();
    all.sort();
    all.into_iter().rev().map(|(_, path)| path).collect()
}

pub(crate) fn latest(directory: &Path) -> Vec<PastResult> {
    all(directory).into_iter().take(SHOWN).filter_map(|path| read(&path)).collect()
}

/// The report of a result; `None` if there is no such result.
pub(crate) fn report(directory: &Path, name: &str) -> Option<PathBuf> {
    let path = all(directory).into_iter().find(|path| path.file_name().is_some_and(|one| one == name))?;
    Some(path.join("report.html")).filter(|file| file.is_file())
}

pub(crate) fn prune(directory: &Path) {
    // A result that could not be put into the outbox stays.
    for old in all(directory).into_iter().skip(KEPT).filter(|old| !pending::is_noted(old)) {
        let _stays = fs::remove_dir_all(old);
    }
}

fn read(path: &Path) -> Option<PastResult> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let document = path.join("run.json");
    if fs::metadata(&document).ok()?.len() > DOCUMENT_BYTES {
        return None;
    }
    let document = ResultDirectory::open(path).ok()?.document;
    let group = |group: &pathbench_record::document::Group| PastGroup {
        label: group.label.clone(),
        pattern: group.pattern.clone(),
        completed: group.completed,
        runs: group.runs,
        figures: ["goodput_mbps", "fct_ms", "ping_ms", "delay_p50_ms", "delay_max_ms"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), group.figures.get(name)?.median)))
            .collect(),
    };
    let server = document.servers.iter().find(|server| server.chosen);
    Some(PastResult {
        name,
        started: document.host.started.clone(),
        server: server.map(|server| server.name.clone().unwrap_or_else(|| server.address.clone())),
        has_report: path.join("report.html").is_file(),
        groups: document.summary.groups.iter().take(64).map(group).collect(),
    })
}
