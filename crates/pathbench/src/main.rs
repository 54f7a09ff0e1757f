//! The command line: arguments → validated plan → run; progress and summaries.
//!
//! This room reads the clock for everybody, owns the processes of a lab (the command in front, the
//! orchestrator in its namespaces, the host agents) and reports every failure. It never computes a metric.

mod cli;
mod client;
mod clock;
mod exit;
mod host_agent;
mod lab;
mod mtu;
mod orchestrator;
mod progress;
mod random;
mod report;
mod result;
mod roam;
mod serve;
mod signals;
mod suite;
mod terminal;

use clap::Parser as _;
use cli::{Cli, Command, LabCommand};
use exit::{Exit, Failure};
use std::process::ExitCode;

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            failure.exit.into()
        }
    }
}

fn dispatch(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Lab(LabCommand::Run(args)) => lab::run::run(&args),
        Command::Lab(LabCommand::Up(args)) => lab::keep::up(&args),
        Command::Lab(LabCommand::Exec(args)) => lab::keep::exec(&args),
        Command::Lab(LabCommand::Down(args)) => lab::keep::down(&args),
        Command::Lab(LabCommand::List) => Ok(lab::catalogue::list()),
        Command::Lab(LabCommand::Show { name }) => lab::catalogue::show(&name),
        Command::Lab(LabCommand::Import(args)) => lab::import::run(&args),
        Command::Lab(LabCommand::Check { scenario }) => lab::catalogue::check(&scenario),
        Command::Test(args) => suite::test(&args),
        Command::Roam(args) => roam::roam(&args),
        Command::Mtu(args) => mtu::mtu(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Report(args) => report::report(&args),
        Command::Orchestrate => orchestrator::orchestrate(),
        Command::Keep => orchestrator::keep::keep(),
        Command::Host { name: _ } => host_agent::serve(),
    }
}
