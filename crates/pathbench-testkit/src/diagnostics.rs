//! Diagnostics of tests: all processes of a test append them to a file, whose end is shown when the test fails.

#![allow(clippy::print_stderr, reason = "tests print")]

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

/// The variables of the program `pathbench` for its diagnostics.
const FILTER: &str = "PATHBENCH_LOG";
const FILE: &str = "PATHBENCH_LOG_FILE";

/// The levels, unless the caller's environment has others.
const LEVELS: &str = "debug";

/// Shown of the file, at most.
const TAIL_BYTES: u64 = 16_384;

/// A file for the diagnostics of commands, removed by the drop.
#[derive(Debug)]
pub struct DiagnosticsFile {
    _directory: TempDir,
    path: PathBuf,
}

impl DiagnosticsFile {
    /// # Panics
    /// The file cannot be created.
    #[allow(clippy::unwrap_used, reason = "a failed test panics")]
    pub fn create() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("diagnostics");
        File::create(&path).unwrap();
        // Tests start programs as other users.
        for (path, mode) in [(directory.path(), 0o755), (&path, 0o666)] {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        Self { _directory: directory, path }
    }

    /// Makes a command and its descendants append to the file, unless the caller's environment names another one.
    pub fn collect_from(&self, command: &mut Command) {
        if std::env::var_os(FILE).is_none() {
            command.env(FILE, &self.path);
            command.env(FILTER, std::env::var(FILTER).unwrap_or_else(|_| LEVELS.to_owned()));
        }
    }

    /// Prints the last lines, for a test that has failed.
    pub fn show(&self) {
        show_since(&self.path, 0);
    }
}

/// The file of this process, if a test program started it.
fn own_file() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// Appends this process's own events to its file.
pub(crate) fn start() {
    let opened = own_file().and_then(|file| OpenOptions::new().append(true).open(file).ok());
    let filter = std::env::var(FILTER).ok().and_then(|text| text.parse::<Targets>().ok());
    if let (Some(file), Some(filter)) = (opened, filter) {
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(file);
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
        let _once = tracing::subscriber::set_global_default(subscriber);
    }
}

/// The present end of this process's file.
pub(crate) fn own_length() -> u64 {
    own_file().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len())
}

/// Prints the last lines of this process's file after its byte `mark`.
pub(crate) fn show_own_since(mark: u64) {
    if let Some(file) = own_file() {
        show_since(&file, mark);
    }
}

fn show_since(file: &Path, mark: u64) {
    let tail = || {
        let mut file = File::open(file)?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(mark.max(end.saturating_sub(TAIL_BYTES))))?;
        let mut text = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut text)?;
        std::io::Result::Ok(String::from_utf8_lossy(&text).into_owned())
    };
    if let Some(tail) = tail().ok().filter(|tail| !tail.is_empty()) {
        eprintln!("---- the last diagnostics (PATHBENCH_LOG) ----\n{tail}----");
    }
}
