//! Measurements whose result is not in the outbox yet: noted on the disk before they begin, so that the next start of the
//! agent submits what a SIGKILL or a power cut left behind.

use crate::durable;
use pathbench_api::name::Name;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const ENDING: &str = "pending";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) directory: PathBuf,
    pub(crate) experiment: Option<Name>,
    /// The server that the collector offered.
    pub(crate) server: Option<Name>,
}

/// The note is beside the result directory.
fn place(directory: &Path) -> PathBuf {
    directory.with_extension(ENDING)
}

impl Pending {
    pub(crate) fn note(&self) -> io::Result<()> {
        durable::write(&place(&self.directory), &[&serde_json::to_vec(self)?])
    }

    /// Of all results in `results`.
    pub(crate) fn all(results: &Path) -> Vec<Self> {
        let files = fs::read_dir(results).into_iter().flatten().flatten().map(|entry| entry.path());
        let notes = files.filter(|path| path.extension().is_some_and(|ending| ending == ENDING));
        notes.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
    }
}

pub(crate) fn is_noted(directory: &Path) -> bool {
    place(directory).exists()
}

/// The result is in the outbox, or will never be.
pub(crate) fn forget(directory: &Path) {
    let _was_not_noted = fs::remove_file(place(directory));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_until_they_are_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("ping-20261125-090000");
        let pending = Pending { directory, experiment: Some(Name::new("ping").unwrap()), server: None };
        pending.note().unwrap();
        fs::write(home.path().join("damaged.pending"), "{").unwrap();
        assert_eq!(Pending::all(home.path()), std::slice::from_ref(&pending));
        forget(&pending.directory);
        forget(&pending.directory);
        assert!(Pending::all(home.path()).is_empty());
    }
}
