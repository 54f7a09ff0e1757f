//! The room against the running kernel, each test in a network namespace of its own.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print")]

mod quic;
mod quic_mtu;
mod quic_paths;
mod routed_ways;
mod sampling;
mod sockets;
mod support;
mod telemetry;
mod two_ways;

use libtest_mimic::Trial;
use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_kerneltest::{Order, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(Order::SideBySide, || enter_lab(Isolation::for_this_user()), trials())
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
