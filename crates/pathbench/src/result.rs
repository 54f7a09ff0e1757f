//! What every command that measures puts into its result, and what it leaves when it measured nothing.

use crate::exit::Failure;
use pathbench_host::kernel;
use pathbench_record::directory::{ResultWriter, default_directory_name};
use pathbench_record::document::HostRecord;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that names the directory in which results get directories of their own.
const PARENT_VARIABLE: &str = "PATHBENCH_OUT";
/// The same where the variable is not set, in the current directory.
const DEFAULT_PARENT: &str = "pathbench-results";

/// What `PATHBENCH_OUT` names.
pub(crate) fn parent_of_results() -> Option<PathBuf> {
    std::env::var_os(PARENT_VARIABLE).filter(|parent| !parent.is_empty()).map(PathBuf::from)
}

/// The directory of a result or comparison where `--out` names none.
pub(crate) fn default_directory(name: &str, started: &str) -> PathBuf {
    let parent = parent_of_results().unwrap_or_else(|| DEFAULT_PARENT.into());
    default_directory_name(&parent, name, started)
}

/// Begins the result of the command or scenario `name` that started at `started` (RFC 3339): in `out` where the user
/// says so, else in a directory of its own beside others.
pub(crate) fn begin_result(out: Option<&Path>, name: &str, started: &str) -> Result<ResultWriter, Failure> {
    match out {
        Some(out) => ResultWriter::create(out),
        None => ResultWriter::create_beside(&default_directory(name, started)),
    }
    .map_err(Failure::bad_input)
}

/// This machine; `privilege` is what the command had.
pub(crate) fn host_record(privilege: &str, started: String) -> HostRecord {
    HostRecord {
        kernel: kernel::release().text,
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
        cpus: kernel::cpu_count() as u32,
        memory_bytes: kernel::memory_bytes(),
        pathbench: env!("CARGO_PKG_VERSION").to_owned(),
        privilege: privilege.to_owned(),
        started,
        default_congestion: kernel::default_congestion_control().unwrap_or_default(),
        processors_awake: false,
    }
}

/// Removes a result directory in which nothing was written yet. A file that has content keeps it.
pub(crate) fn remove_empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            let _stays = fs::remove_file(entry.path());
        }
    }
    let _not_empty = fs::remove_dir(directory);
}
