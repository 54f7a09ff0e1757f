//! The command line: arguments → validated plan → run; progress and summaries.
//!
//! This crate reads the clock for all other crates, owns the processes of a lab (the foreground command, the
//! orchestrator in its namespaces, the host agents) and reports every failure. It never computes a metric.

mod agent;
mod arguments;
mod check;
mod cli;
mod client;
mod clock;
mod collect;
mod collector;
mod durable;
mod exit;
mod exposition;
mod journal;
mod lab;
mod live;
mod mtu;
mod orchestrator;
mod output;
mod progress;
mod random;
mod report;
mod responder;
mod roam;
mod run;
mod serve;
mod session;
mod setup;
mod signals;
mod study;
mod submit;
mod suite;
mod supervised;
mod trace;

use clap::{CommandFactory as _, FromArgMatches as _};
use cli::{Cli, Command, LabCommand};
use exit::{Exit, Failure};
use serde_json::{Map, Value};
use std::process::ExitCode;

fn main() -> ExitCode {
    supervised::follow_parent();
    let mut command = Cli::command();
    let ended = match parse(&mut command) {
        Ok((cli, given)) => dispatch(cli.command, given),
        Err(message) => output::usage(&message),
    };
    // If a command was stopped because its output was closed, report that reason and not a consequence.
    let ended = ended.or_else(|failure| output::check().and(Err(failure)));
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::report(&failure);
            failure.exit.into()
        }
    }
}

/// The command line, and its options that differ from their defaults.
fn parse(command: &mut clap::Command) -> Result<(Cli, Map<String, Value>), clap::Error> {
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(command))?;
    Ok((cli, cli::given(command, &matches)))
}

fn dispatch(command: Command, given: Map<String, Value>) -> Result<Exit, Failure> {
    match command {
        Command::Lab(LabCommand::Run(args)) => lab::run::run(&args),
        Command::Lab(LabCommand::Up(args)) => lab::keep::up(&args),
        Command::Lab(LabCommand::Exec(args)) => lab::keep::exec(&args),
        Command::Lab(LabCommand::Down(args)) => lab::keep::down(&args),
        Command::Lab(LabCommand::List) => lab::keep::list(),
        Command::Lab(LabCommand::Show { name }) => lab::show(&name),
        Command::Lab(LabCommand::Import(args)) => lab::import(&args),
        Command::Lab(LabCommand::Check { scenario }) => lab::check(&scenario),
        Command::Test(args) => suite::test(&args, given),
        Command::Roam(args) => roam::roam(&args, given),
        Command::Mtu(args) => mtu::mtu(&args),
        Command::Setup(args) => setup::setup(&args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Submit(args) => submit::submit(&args),
        Command::Agent(args) => agent::agent(&args),
        Command::Collect { arguments } => collect::collect(&arguments),
        Command::Report(args) => report::report(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Orchestrate => orchestrator::orchestrate(),
        Command::Keep => orchestrator::keep::keep(),
        Command::Host { name: _ } => orchestrator::serve_host(),
    }
}
