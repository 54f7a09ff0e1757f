//! Throughput, processor cost and timing accuracy of the data plane (docs/performance.md).
//!
//! ```text
//! cargo bench -p pathbench-emulator --bench plane [-- ROUNDS [SECONDS [WORD OF A CASE'S NAME]]]
//! ```
//! Every round measures all cases, so that other load on the machine affects all of them alike; the table shows
//! medians over the rounds. The processor time is that of the data plane's thread alone.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its measurements")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures against the clock")]

mod cases;
#[path = "../../tests/kernel/fixture.rs"]
mod fixture;
mod load;

use cases::{Case, Figures};
use libtest_mimic::Failed;
use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_testkit::in_namespaces;
use std::process::ExitCode;

fn main() -> ExitCode {
    let enter = || enter_lab(Isolation::for_this_user());
    in_namespaces(enter, || match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    })
}

fn run() -> Result<(), Failed> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |place: usize, otherwise: f64| {
        arguments
            .get(place)
            .map_or(Ok(otherwise), |text| text.parse::<f64>())
            .map_err(|error| error.to_string())
    };
    let (rounds, seconds) = (number(0, 5.0)? as usize, number(1, 2.0)?);
    let word = arguments.get(2).map_or("", String::as_str);
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.name.contains(word)).collect();
    let mut figures: Vec<Vec<Figures>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (case, figures) in cases.iter().zip(&mut figures) {
            eprintln!("round {} of {rounds}: {}", round + 1, case.name);
            figures.push((case.run)(std::time::Duration::from_secs_f64(seconds))?);
        }
    }
    println!("medians of {rounds} rounds of {seconds} s");
    for (case, rounds) in cases.iter().zip(&figures) {
        println!("{}", case.name);
        let Some(first) = rounds.first() else { continue };
        for (place, (label, _, unit)) in first.iter().enumerate() {
            let mut values: Vec<f64> =
                rounds.iter().filter_map(|figures| figures.get(place)).map(|one| one.1).collect();
            values.sort_by(f64::total_cmp);
            let (least, median, most) = (values[0], values[values.len() / 2], values[values.len() - 1]);
            println!("    {label:<34} {median:>10.3} {unit:<10} ({least:.3} to {most:.3})");
        }
    }
    Ok(())
}
