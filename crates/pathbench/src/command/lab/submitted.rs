//! `lab run --submit`: the lab's processes are in namespaces without the host's network, so another process of this
//! program runs the lab, and this one submits the results.

use pathbench_agent::submit::SubmitOptions;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{random, signals, supervised};
use pathbench_record::file;
use pathbench_record::time::SharedClock;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Names the file that gets the directory of each result, one per line.
const VARIABLE: &str = "PATHBENCH_RESULT_LIST";

/// Runs the lab in another process and submits its results, if that was asked for.
pub(crate) fn run(options: &SubmitOptions, clock: &SharedClock) -> Result<Option<Exit>, Failure> {
    if std::env::var_os(VARIABLE).is_some() {
        return Ok(None);
    }
    let Some(submitter) = options.submitter(clock)? else { return Ok(None) };
    let list = List::create()?;
    let start = || {
        supervised::command(supervised::THIS_PROGRAM, std::env::args_os().skip(1))
            .env(VARIABLE, &list.0)
            .spawn()
    };
    let status = signals::wait_forwarding(start)
        .map_err(|error| Failure::failed(format!("cannot start the lab: {error}")))?;
    for directory in list.directories() {
        submitter.submit(&directory);
    }
    match status.code() {
        Some(code) if code == signals::INTERRUPTED => std::process::exit(code),
        Some(code) => Ok(Some(Exit::from_code(code))),
        None => Err(Failure::failed(format!("the lab was killed ({status})"))),
    }
}

/// Notes a finished result for the process that submits it.
pub(crate) fn record(directory: &Path) {
    let Some(list) = std::env::var_os(VARIABLE) else { return };
    let line = [directory.as_os_str().as_bytes(), b"\n"].concat();
    // The result is complete either way; `pathbench submit DIR` submits it.
    let _not_submitted = file::append_existing(list).and_then(|mut file| file.write_all(&line));
}

struct List(PathBuf);

impl List {
    fn create() -> Result<Self, Failure> {
        let name = format!("pathbench-results-{:016x}", u64::from_ne_bytes(random::bytes()));
        let file = std::env::temp_dir().join(name);
        file::create_new(&file, 0o600)
            .map_err(|error| Failure::failed(format!("cannot create {}: {error}", file.display())))?;
        Ok(Self(file))
    }

    fn directories(&self) -> Vec<PathBuf> {
        let text = file::read(&self.0, file::SMALL_FILE_BYTES).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| PathBuf::from(std::ffi::OsString::from_vec(line.to_vec()))).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _stays = fs::remove_file(&self.0);
    }
}
