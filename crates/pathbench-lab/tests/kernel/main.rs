//! Tests with networks, traffic and the running kernel, in namespaces of their own.

mod chain;
mod path_mtu;

use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_testkit::{TrialOrder, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(TrialOrder::OneByOne, || enter_lab(Isolation::for_this_user()), path_mtu::trials())
}
