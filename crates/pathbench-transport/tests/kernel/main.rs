//! Tests of the crate on the running kernel, each in its own network namespace.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print")]

mod quic;
mod quic_mtu;
mod quic_paths;
mod routed_topology;
mod sampling;
mod sockets;
mod support;
mod telemetry;
mod two_links;

use libtest_mimic::Trial;
use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_testkit::{TrialOrder, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(TrialOrder::SideBySide, || enter_lab(Isolation::for_this_user()), trials())
}

fn trials() -> Vec<Trial> {
    [
        quic::trials(),
        quic_mtu::trials(),
        quic_paths::trials(),
        sampling::trials(),
        sockets::trials(),
        telemetry::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
