//! `pathbench collect`: the collector is a program of its own, so that this one stays small.

use pathbench_program::exit::{Exit, Failure};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "pathbench-collector";

/// Replaces this process by the collector; returns only if that fails.
pub(crate) fn collect(arguments: &[OsString]) -> Result<Exit, Failure> {
    let Some(program) = find() else {
        return Err(Failure::host_cannot(format!(
            "{PROGRAM} is neither beside this program nor in PATH: build it with `cargo build --release --locked \
             --package {PROGRAM}`, and copy target/release/{PROGRAM} beside pathbench"
        )));
    };
    let error = Command::new(&program).args(arguments).exec();
    Err(Failure::host_cannot(format!("cannot start {}: {error}", program.display())))
}

/// Beside this program first: both are of one version there.
fn find() -> Option<PathBuf> {
    let own = env::current_exe().ok()?.parent()?.join(PROGRAM);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut candidates =
        std::iter::once(own).chain(env::split_paths(&path).map(|directory| directory.join(PROGRAM)));
    candidates.find(|file| file.is_file())
}
