//! What the end-to-end tests share: the binary under test, results read back, processes found by their mark,
//! and the machine before and after.
//!
//! The binary is `PATHBENCH_BIN` where that is set, so that the tests can be run as another user from copied files.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

pub(crate) mod help;
pub(crate) mod machine;
pub(crate) mod measured;
pub(crate) mod namespaces;
pub(crate) mod processes;
pub(crate) mod standing;

use measured::Measured;
use processes::Process;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Environment variable by which every process that a test starts, however far down, can be found.
const MARK: &str = "PATHBENCH_TEST_MARK";

/// The quickest run there is.
pub(crate) const QUICK: &str = r#"
[[path]]
name = "eth"
rate = "20mbit"

[run]
transports = ["tcp"]
duration = "200ms"
"#;

/// Two hosts with two paths of 20 Mbit/s. The queues are short, so that data is not late because it waited.
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
    let chosen = std::env::var_os("PATHBENCH_BIN");
    chosen.map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_pathbench")), PathBuf::from)
}

/// A directory of a test's own, in which its commands run, and a mark that its processes carry.
pub(crate) struct Workplace {
    directory: TempDir,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("pathbench-test-").tempdir().unwrap();
        Self { directory }
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

    /// Makes `command` one of this workplace's.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.path())
            .env(MARK, self.path())
            .env_remove("PATHBENCH_OUT")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
    }

    /// Runs the program to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Finished {
        finish(&mut self.pathbench(arguments))
    }

    /// Runs a scenario of this text to its end and reads its result.
    pub(crate) fn lab_run(&self, name: &str, text: &str, options: &[&str]) -> Measured {
        let file = self.scenario(name, text);
        let out = format!("result-{name}");
        let finished = self.run(&[&["lab", "run", &file, "--out", &out], options].concat());
        Measured::read(&self.path().join(out), finished)
    }

    /// Every process that was started here and still lives.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes::with_environment(MARK, self.path())
    }

    /// The processes that are still there after they had three seconds to go.
    pub(crate) fn left_behind(&self) -> Vec<Process> {
        within(Duration::from_secs(3), || self.processes().is_empty());
        self.processes()
    }
}

impl Drop for Workplace {
    /// A failed test leaves no lab behind either.
    fn drop(&mut self) {
        for process in self.processes() {
            process.kill();
        }
    }
}

/// What a command that has ended left.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None` when a signal ended it.
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
    /// Checks the exit code; shows everything when it is another.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that every one of `texts` was said on stderr.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` was not said: {self:#?}");
        }
        self
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    command.output().unwrap().into()
}

/// Runs a command to its end, with something to read on its standard input.
pub(crate) fn finish_with_input(command: &mut Command, input: &str) -> Finished {
    let mut child = captured(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// Starts a command whose output is kept for later.
pub(crate) fn captured(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until `condition` holds, at most for `time`, and says whether it does.
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

/// A sequence of numbers that looks random and is the same each time (`SplitMix64`).
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
