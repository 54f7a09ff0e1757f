//! The data plane on the running kernel, in namespaces of the tests' own.
//!
//! They need a `/dev/net/tun` that they may open.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print")]
#![allow(clippy::disallowed_methods, reason = "these tests measure delays and rates against the clock")]

mod capturing;
mod changing;
mod delaying;
mod fixture;
mod losing;
mod lots;
mod segmenting;
mod shaping;

use libtest_mimic::Trial;
use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_testkit::{TrialOrder, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(TrialOrder::OneByOne, || enter_lab(Isolation::for_this_user()), trials())
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
