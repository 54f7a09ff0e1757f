//! Tests with networks, traffic and the running kernel, in namespaces of their own.

mod chain;
mod path_mtu;

use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_testkit::{Order, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(Order::OneByOne, || enter_lab(Isolation::for_this_user()), path_mtu::trials())
}
