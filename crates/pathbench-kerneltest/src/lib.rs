//! What tests, benchmarks and examples on the running kernel share: the processes in which they run, the macros in
//! which they are written, and a real clock. A dev-dependency of the other crates; it never becomes part of a program
//! that is shipped, and depends on pathbench-record alone.
//!
//! A program of tests has a `main` of its own, for namespaces have to be entered before any thread is started:
//!
//! ```text
//! fn main() -> ExitCode {
//!     pathbench_kerneltest::run(Order::OneByOne, || enter_lab(Isolation::for_this_user()), trials())
//! }
//! ```
//!
//! Every program of tests of a crate that uses this one declares whether an ordinary user is to run it as well
//! ([`unprivileged_too!`], [`privilege_independent!`]); those with such a `main` always are.

mod clock;
mod macros;
mod processes;

pub use clock::MonotonicClock;
#[doc(hidden)]
pub use libtest_mimic;
pub use processes::{Order, STAGE, again, checkout, exit_code, in_namespaces, run, trial, wrong_user};

/// What a test returns. See [`ensure!`].
pub type Outcome = Result<(), libtest_mimic::Failed>;
