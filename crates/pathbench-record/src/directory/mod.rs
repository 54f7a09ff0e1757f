//! The result directory: `run.json` and the files of lines beside it (docs/results.md).

mod reader;
mod writer;

pub use reader::{OpenError, ReadError, Records, ResultDirectory};
pub use writer::{CreateError, ResultWriter, WriteError};

use crate::calendar;
use std::path::{Path, PathBuf};

/// Under which default names lie, in the current directory.
pub const DEFAULT_PARENT: &str = "pathbench-results";

/// The result document.
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

/// `pathbench-results/<scenario>-<YYYYmmdd-HHMMSS>` for a scenario's name and an RFC 3339 start (UTC).
///
/// Characters of the name that have a meaning to a shell or a file system become `-`.
#[must_use]
pub fn default_directory_name(scenario: &str, started: &str) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let mut name: String = scenario.chars().map(plain).collect();
    if name.starts_with('.') || name.is_empty() {
        name.insert_str(0, "result");
    }
    if let Some(stamp) = calendar::compact_stamp(started) {
        name.push('-');
        name.push_str(&stamp);
    }
    Path::new(DEFAULT_PARENT).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_are_safe_and_sort_by_time() {
        for (scenario, started, expected) in [
            ("failover", "2026-11-21T20:33:54Z", "pathbench-results/failover-20261121-203354"),
            ("a b/../c", "2026-11-21T20:33:54Z", "pathbench-results/a-b-..-c-20261121-203354"),
            ("..", "2026-11-21T20:33:54Z", "pathbench-results/result..-20261121-203354"),
            ("", "yesterday", "pathbench-results/result"),
        ] {
            assert_eq!(default_directory_name(scenario, started), Path::new(expected));
        }
    }
}
