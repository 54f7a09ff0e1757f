//! How long a lab takes from nothing to ready for traffic: two hosts, two shaped paths, an agent each.
//!
//! `cargo bench --bench lab_start [-- ROUNDS]`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]

mod support;

use pathbench_lab::environment::Environment;
use pathbench_record::statistics::{median, quantile};
use pathbench_record::time::Clock as _;
use pathbench_testkit::MonotonicClock;
use std::process::ExitCode;

const SCENARIO: &str = "name = \"start\"\ndescription = \"two shaped paths\"\n\
    [[path]]\nname = \"eth\"\nrate = \"1gbit\"\n[[path]]\nname = \"wlan\"\nrate = \"1gbit\"\n";

fn main() -> ExitCode {
    support::in_lab_namespaces(|| {
        let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(50_usize);
        measure(rounds)
    })
}

fn measure(rounds: usize) -> Result<(), String> {
    let plan = support::variant(SCENARIO)?;
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = MonotonicClock.now();
        let environment =
            Environment::build(&plan.topology, &plan.run.server, &support::launcher(), &support::emulation())
                .map_err(|error| error.to_string())?;
        let ready = MonotonicClock.now();
        drop(environment);
        starts.push(ready.ms_from(begun));
        ends.push(MonotonicClock.now().ms_from(ready));
    }
    for (name, times) in [("start", &starts), ("end", &ends)] {
        println!(
            "lab {name}: median {:.1} ms, p95 {:.1} ms, longest {:.1} ms ({rounds} labs)",
            median(times).unwrap_or_default(),
            quantile(times, 0.95).unwrap_or_default(),
            quantile(times, 1.0).unwrap_or_default()
        );
    }
    Ok(())
}
