//! The result directory: `run.json` and the files of lines beside it (docs/results.md).

mod reader;
mod writer;

pub use reader::{OpenError, ReadError, Records, ResultDirectory};
pub use writer::{CreateError, ResultWriter, WriteError};

use crate::calendar;
use std::path::{Path, PathBuf};
use std::{fs, io};

const DOCUMENT: &str = "run.json";
/// The document of a result that is not finished, over the runs so far.
const PARTIAL: &str = "run.partial.json";
const SAMPLES: &str = "samples.jsonl";
const EVENTS: &str = "events.jsonl";
const DELIVERIES: &str = "delivery.jsonl";
/// Only in results with patterns that send messages.
const MESSAGES: &str = "messages.jsonl";
/// Only in results with emulated links.
const LINKS: &str = "links.jsonl";
/// Only in results of a walk (`pathbench roam`).
const PROBES: &str = "probes.jsonl";

/// `<parent>/<scenario>-<YYYYmmdd-HHMMSS>` for a scenario's name and an RFC 3339 start (UTC).
///
/// Characters of the name that have a meaning to a shell or a file system become `-`.
pub fn default_directory_name(parent: &Path, scenario: &str, started: &str) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let mut name: String = scenario.chars().map(plain).collect();
    if name.starts_with('.') || name.is_empty() {
        name.insert_str(0, "result");
    }
    if let Some(stamp) = calendar::compact_stamp(started) {
        name.push('-');
        name.push_str(&stamp);
    }
    parent.join(name)
}

pub fn holds_result(dir: &Path) -> bool {
    [DOCUMENT, PARTIAL, SAMPLES].iter().any(|file| dir.join(file).exists())
}

/// Creates `dir` with its parents, or where that exists `dir-2`, `dir-3`, …: a directory of its own.
///
/// # Errors
///
/// When the system refuses.
pub fn create_new_beside(dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(dir.parent().unwrap_or(Path::new("")))?;
    let mut candidates = candidates(dir);
    loop {
        let Some(candidate) = candidates.next() else { return Err(io::ErrorKind::AlreadyExists.into()) };
        match fs::create_dir(&candidate) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| candidate),
        }
    }
}

/// `dir`, `dir-2`, `dir-3`, …: default names, which two commands started in the same second share.
fn candidates(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = |number: u32| {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    std::iter::once(dir.to_owned()).chain((2..u32::MAX).map(numbered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_are_safe_and_sort_by_time() {
        for (scenario, started, expected) in [
            ("failover", "2026-11-21T20:33:54Z", "/results/failover-20261121-203354"),
            ("a b/../c", "2026-11-21T20:33:54Z", "/results/a-b-..-c-20261121-203354"),
            ("..", "2026-11-21T20:33:54Z", "/results/result..-20261121-203354"),
            ("", "yesterday", "/results/result"),
        ] {
            assert_eq!(default_directory_name(Path::new("/results"), scenario, started), Path::new(expected));
        }
    }
}
