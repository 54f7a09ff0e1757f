//! `test --record` and `roam --record`: a scenario with the measured lines.

mod flows;
mod lines;
mod runner;
mod traces;

pub(crate) use lines::LineRecorder;
pub(crate) use traces::record_roam;

use pathbench_lab::scenario::{RecordedLines, recorded_scenario};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use std::path::Path;

const READABLE: u32 = 0o666;

/// Refuses a file that exists, before anything is measured for it.
pub(crate) fn require_new(file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    if file.symlink_metadata().is_ok() {
        return Err(Failure::bad_input(format!(
            "--record {}: the file exists already, and pathbench does not overwrite it; move it away or choose another name",
            file.display()
        )));
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        let (file, directory) = (file.display(), directory.display());
        return Err(Failure::bad_input(format!(
            "--record {file}: {directory} is no directory; create it first"
        )));
    }
    Ok(())
}

/// Writes the scenario into a new file; returns the line that says so.
pub(crate) fn write(file: &Path, recorded: &RecordedLines) -> Result<String, Failure> {
    output::create_file(file, READABLE, &recorded_scenario(recorded))?;
    let file = file.display();
    Ok(format!("the lines are in {file}; pathbench lab run {file} runs the transports over them"))
}
