//! `pathbench-collector`, which `pathbench collect` starts.

use clap::Parser as _;
use pathbench_collector::command::{self, options::Cli};
use pathbench_program::clock::RealClock;
use pathbench_program::exit::Exit;
use pathbench_program::output;
use pathbench_record::time::SharedClock;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let clock: SharedClock = Arc::new(RealClock);
    // The collector goes on without its standard output.
    let mut print = |text: &str| drop(output::print(text));
    let ended = match Cli::try_parse() {
        Ok(cli) => command::run(&cli, &clock, &mut print).map(|()| Exit::Done),
        Err(message) => output::print_usage(&message),
    };
    let exit = ended.unwrap_or_else(|failure| {
        output::report_failure("pathbench collect", &failure);
        failure.exit
    });
    exit.into()
}
