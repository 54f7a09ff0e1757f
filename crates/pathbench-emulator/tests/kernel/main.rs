//! The data plane on the running kernel, in namespaces of the tests' own.
//!
//! They run for root and for ordinary users alike, who need a `/dev/net/tun` that they may open, and never touch the
//! host's own network.

#![allow(clippy::disallowed_methods, reason = "these tests measure delays and rates against the clock")]

mod capturing;
mod changing;
mod delaying;
mod fixture;
mod isolation;
mod losing;
mod lots;
mod segmenting;
mod shaping;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    // Listing needs no namespaces.
    if Arguments::from_args().list { conduct() } else { isolation::in_namespaces(conduct) }
}

fn conduct() -> ExitCode {
    // One after the other: they measure delays and rates.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials()).exit_code()
}

fn trials() -> Vec<Trial> {
    [
        delaying::trials(),
        losing::trials(),
        shaping::trials(),
        segmenting::trials(),
        changing::trials(),
        capturing::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A list of tests out of functions, named after them.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(libtest_mimic::Trial::test(format!("{module}::{}", stringify!($name)), $name)),+]
        }
    };
}
use tests;

/// Like `assert!`, for functions that return an [`Outcome`].
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if $condition {
        } else {
            return Err(libtest_mimic::Failed::from(format!($($text)+)));
        }
    };
}
use ensure;
