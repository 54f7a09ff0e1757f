//! Programs of other projects that tests start, and tests that need them.

use crate::processes::{checkout, trial};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::PathBuf;
use std::process::ExitCode;

/// Set by `./test`, which installs the programs: a missing one fails its tests. Otherwise these are reported as ignored.
const REQUIRED: &str = "PATHBENCH_TEST_PROGRAMS_REQUIRED";

/// The path of a program: in `PATH`, in directories of daemons and of Go that the PATH of an ordinary user lacks, among
/// the tools of `.ci/tools/install`, or among what is built with this test.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let further = ["/usr/sbin", "/sbin", "/usr/local/go/bin"].map(PathBuf::from);
    let built = std::env::current_exe().ok();
    let built = built.as_ref().and_then(|file| file.parent()?.parent()).map(PathBuf::from);
    let directories = std::env::split_paths(&path).chain(further).chain([tools().join("bin")]).chain(built);
    directories.chain(postgres()).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// The directory of the installed `PostgreSQL`, the newest if there are several (Debian's layout).
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.map(|version| version.path()).max_by_key(number).map(|version| version.join("bin"))
}

/// # Panics
/// The program is not installed.
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    find_program(name).unwrap_or_else(|| panic!("{}", missing_programs(&[name])))
}

fn missing_programs(names: &[&str]) -> String {
    format!(
        "this test needs {}; .ci/tools/install --all installs all programs that tests start",
        names.join(", ")
    )
}

fn tools() -> PathBuf {
    let of_checkout = || checkout().join("target/test-tools");
    std::env::var_os("PATHBENCH_TEST_TOOLS").map_or_else(of_checkout, PathBuf::from)
}

/// The libraries of npm and `PyPI` that `.ci/tools/install --all` installs: `node_modules`, `venv/bin/python`,
/// `trace-processor`.
///
/// # Panics
/// They are not installed.
pub fn test_tools() -> PathBuf {
    assert!(is_available("libraries"), "{}", missing_programs(&["libraries"]));
    tools()
}

/// Whether this machine has what a test names: a program, `root` or the `libraries` of [`test_tools`].
fn is_available(name: &str) -> bool {
    match name {
        "root" => rustix::process::geteuid().is_root(),
        // It refuses to run as root.
        "postgres" if is_available("root") => false,
        "libraries" => tools().join("venv").is_dir(),
        program => find_program(program).is_some(),
    }
}

/// A test that needs `programs` ([`is_available`]); ignored where one is missing, unless `./test` requires them.
#[doc(hidden)]
pub fn trial_with_programs(module: &str, name: &str, programs: &[&str], test: fn()) -> Trial {
    let missing_names: Vec<&str> =
        programs.iter().copied().filter(|program| !is_available(program)).collect();
    if missing_names.is_empty() {
        return trial(module, name, move || {
            test();
            Ok(())
        });
    }
    let message = missing_programs(&missing_names);
    let is_required = std::env::var_os(REQUIRED).is_some();
    let trial = trial(module, name, move || Err(Failed::from(message)));
    if is_required {
        trial
    } else {
        trial.with_kind(format!("needs {}", missing_names.join(", "))).with_ignored_flag(true)
    }
}

/// The `main` of a test program whose tests start programs of other projects.
pub fn run_with_programs<const MODULES: usize>(trials: [Vec<Trial>; MODULES]) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
