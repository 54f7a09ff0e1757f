//! `pathbench-collector`, which `pathbench collect` starts.

use clap::Parser as _;
use pathbench_collector::clock::{Clock, RealClock};
use pathbench_collector::command::{self, Exit, options::Cli};
use pathbench_collector::output;
use pathbench_record::text::printable;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            let _ = message.print();
            return if message.use_stderr() { Exit::BadInput as u8 } else { 0 }.into();
        }
    };
    let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
    match command::run(&cli, &clock, &mut output::print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let lines: Vec<String> =
                failure.message.lines().map(|line| printable(line, usize::MAX)).collect();
            let _ = writeln!(output::standard_error(), "pathbench collect: {}", lines.join("\n  "));
            ExitCode::from(failure.exit as u8)
        }
    }
}
