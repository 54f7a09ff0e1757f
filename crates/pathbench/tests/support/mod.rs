//! Shared by the end-to-end tests: the binary under test, results read from files, processes found by their mark, and
//! the machine's state before and after.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

pub(crate) mod agent_page;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod help;
pub(crate) mod hostile;
pub(crate) mod machine;
pub(crate) mod measured;
pub(crate) mod namespaces;
pub(crate) mod processes;
pub(crate) mod site;
pub(crate) mod standing;
pub(crate) mod supervised;

use measured::Measured;
use pathbench_testkit::{DiagnosticsFile, finished_results, validate_results};
use processes::Process;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Environment variable that identifies every process started by a test, including descendants.
const MARK: &str = "PATHBENCH_TEST_MARK";

/// A scenario with the shortest possible run.
pub(crate) const QUICK: &str = r#"
[[path]]
name = "eth"
rate = "20mbit"

[run]
transports = ["tcp"]
duration = "200ms"
"#;

/// Two hosts with two paths of 20 Mbit/s. The queues are short, to keep queueing delay short.
pub(crate) const TWO_PATHS: &str = r#"
[[path]]
name = "eth"
rate = "20mbit"
queue = "50ms"

[[path]]
name = "wlan"
rate = "20mbit"
queue = "50ms"
"#;

/// The program under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_pathbench"))
}

/// A test's own directory, in which its commands run, and the mark of its processes.
pub(crate) struct Workplace {
    directory: TempDir,
    diagnostics: DiagnosticsFile,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("pathbench-test-").tempdir().unwrap();
        Self { directory, diagnostics: DiagnosticsFile::create() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes `NAME.toml`: the name, and then `text`.
    pub(crate) fn scenario(&self, name: &str, text: &str) -> String {
        let file = format!("{name}.toml");
        std::fs::write(self.path().join(&file), format!("name = \"{name}\"\n{text}")).unwrap();
        file
    }

    /// The program with `arguments`, marked, in this directory.
    pub(crate) fn pathbench<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(binary());
        self.prepare(&mut command);
        command.args(arguments);
        command
    }

    /// Sets the mark and the directory of `command`.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.path())
            .env(MARK, self.path())
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env_remove("PATHBENCH_OUT")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        self.diagnostics.collect_from(command);
    }

    /// Runs the program to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Finished {
        finish(&mut self.pathbench(arguments))
    }

    /// Runs a scenario with this text to its end, without a report, and reads the result.
    pub(crate) fn lab_run(&self, name: &str, text: &str, options: &[&str]) -> Measured {
        let file = self.scenario(name, text);
        let out = format!("result-{name}");
        let finished = self.run(&[&["lab", "run", &file, "--out", &out, "--no-report"], options].concat());
        Measured::read(&self.path().join(out), finished)
    }

    /// Every live process that was started here.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes::with_environment(MARK, self.path())
    }

    /// The processes that have not ended after three seconds.
    pub(crate) fn left_behind(&self) -> Vec<Process> {
        within(Duration::from_secs(3), || self.processes().is_empty());
        self.processes()
    }
}

impl Drop for Workplace {
    /// A failed test does not leave a lab behind either. The schemas accept every result that a test makes.
    fn drop(&mut self) {
        for process in self.processes() {
            process.kill();
        }
        if std::thread::panicking() {
            self.diagnostics.show();
        } else {
            assert_valid(&finished_results(self.path()));
        }
    }
}

/// Checks the files in `directories` against the schemas.
#[track_caller]
pub(crate) fn assert_valid(directories: &[PathBuf]) {
    if !directories.is_empty() {
        validate_results(directories).unwrap();
    }
}

/// Exit code and output of a finished command.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None` if a signal ended the command.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Finished {
    /// Checks the exit code; prints all output if it differs.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that stderr contains all of `texts`.
    #[track_caller]
    pub(crate) fn reports(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` is not on stderr: {self:#?}");
        }
        self
    }
}

/// Runs a command to its end, without standard input.
pub(crate) fn finish(command: &mut Command) -> Finished {
    ended(captured(command.stdin(Stdio::null())))
}

/// Waits for the end of a captured command.
#[track_caller]
pub(crate) fn ended(child: Child) -> Finished {
    pathbench_testkit::output(child).into()
}

/// Runs a command to its end, with `input` on its standard input.
pub(crate) fn finish_with_input(command: &mut Command, input: &str) -> Finished {
    let mut child = captured(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ended(child)
}

/// Starts a command and captures its output.
pub(crate) fn captured(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits at most `time` until `condition` holds; returns whether it does.
pub(crate) fn within(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begin.elapsed() >= time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A reproducible pseudo-random sequence (`SplitMix64`).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From 0 to `end` − 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
