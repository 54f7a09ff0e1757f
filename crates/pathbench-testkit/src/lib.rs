//! Shared code of tests, benchmarks and examples: test programs in namespaces, fuzz bodies, the validation of results, a
//! real clock. A dev-dependency of the other crates; it is never part of a released program, and depends on
//! pathbench-record alone.
//!
//! A test program has its own `main`, because namespaces must be entered before any thread starts:
//!
//! ```text
//! fn main() -> ExitCode {
//!     pathbench_testkit::run(Order::OneByOne, || enter_lab(Isolation::for_this_user()), trials())
//! }
//! ```
//!
//! The name of a test program is its ring (CONTRIBUTING.md): `pure` computes, `sockets` uses loopback and child processes,
//! `kernel` uses namespaces, `root` needs root, `peers`, `browser` and `release` need other programs.

#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod clock;
mod diagnostics;
mod documentation;
mod fuzz;
mod processes;
mod programs;
mod schemas;
pub mod soak;
mod units;

pub use clock::FixedClock;
pub use diagnostics::DiagnosticsFile;
pub use documentation::assert_documented;
pub use fuzz::{fuzz_config, run_fuzz_body, run_fuzz_body_on_changed_seeds};
#[doc(hidden)]
pub use libtest_mimic;
pub use processes::{
    STAGE, TrialOrder, TrialOutcome, again, checkout, exit_code, in_namespaces, output, run, trial,
};

#[doc(hidden)]
pub use programs::trial_with_programs;
pub use programs::{program, run_with_programs, test_tools};
pub use schemas::{finished_results, validate_results};
pub use units::command_of_unit;

use pathbench_record::sample::{PathFigures, Sample, Side};
use pathbench_record::time::{Clock, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[expect(clippy::disallowed_methods, reason = "the clock that tests on the running kernel are passed")]
    fn now(&self) -> Timestamp {
        let now = clock_gettime(ClockId::Monotonic);
        Timestamp::from_nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    fn sleep_until(&self, deadline: Timestamp) {
        std::thread::sleep(deadline.duration_since(self.now()));
    }
}

/// A sample of a run with one stream.
pub fn sample(t_ms: f64, side: Side, path: &str, figures: PathFigures) -> Sample {
    let host = if side == Side::Client { "client" } else { "server" };
    let (run, host, path) = ("r".to_owned(), host.to_owned(), path.to_owned());
    Sample { run, t_ms, host, side, stream: 0, path, figures }
}

/// Defines a module's function `trials`, a list of tests named after their functions. Each function is called directly
/// or, after `function =>`, passed to that function, which returns a [`TrialOutcome`]. After `[programs] =>`, the functions
/// return nothing, and start these programs of other projects.
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            vec![$($crate::trial(module_path!(), stringify!($name), $name)),+]
        }
    };
    ($around:path => $($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            vec![$($crate::trial(module_path!(), stringify!($name), || $around($name))),+]
        }
    };
    ($($programs:tt => $($name:ident),+);+ $(;)?) => {
        pub(crate) fn trials() -> Vec<$crate::libtest_mimic::Trial> {
            let mut trials = Vec::new();
            $($(trials.push($crate::trial_with_programs(module_path!(), stringify!($name), &$programs, $name));)+)+
            trials
        }
    };
}

/// Like `assert!`, for functions that return `Result<_, Failed>`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        // Not negated: clippy reports the negated comparison of floats.
        if $condition {
        } else {
            return Err($crate::libtest_mimic::Failed::from(format!($($text)+)));
        }
    };
}
