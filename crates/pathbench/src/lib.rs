//! The commands of Pathbench: arguments → validated plan → run; progress and summaries.
//!
//! The binary is a thin main around [`run_command_line`]. This crate owns the processes of a lab (the foreground command, the
//! orchestrator in its namespaces, the host agents) and reports every failure. It never computes a metric.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files by themselves"))]

mod arguments;
mod cli;
mod client;
mod command;
mod journal;
mod live;
mod orchestrator;
mod progress;
mod result;
mod session;
mod study;

use clap::{CommandFactory as _, FromArgMatches as _};
use cli::{Cli, Command, LabCommand};
use command::run::keeper;
use command::{check, collect, lab, mtu, report, roam, run, serve, setup, test, trace};
use pathbench_agent::client::state_directory;
use pathbench_agent::host::AgentHost;
use pathbench_agent::networks::KernelNetworks;
use pathbench_agent::{service, submit};
use pathbench_lab::scenario;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{diagnostics, output, signals, supervised};
use pathbench_record::time::SharedClock;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::sync::Arc;

/// Runs the command of this process's command line, and reports its failure.
pub fn run_command_line(clock: &SharedClock) -> Exit {
    let ended =
        run_lab_process(clock).unwrap_or_else(|| match parse(&mut Cli::command(), std::env::args_os()) {
            Ok((cli, given)) => {
                diagnostics::start(cli.verbose, clock).and_then(|()| dispatch(cli.command, given, clock))
            }
            Err(message) => output::print_usage(&message),
        });
    // If a command was stopped because its output was closed, report that reason and not a consequence.
    let ended = ended.or_else(|failure| output::check_open().and(Err(failure)));
    match ended {
        Ok(exit) => exit,
        Err(failure) => {
            output::report_failure("pathbench", &failure);
            failure.exit
        }
    }
}

/// Runs this process as one of a lab, if it is one: the orchestrator of `lab run`, that of `lab up`, or the agent of a
/// host. Parsing their one word with the users' command lines would take a third of their start.
fn run_lab_process(clock: &SharedClock) -> Option<Result<Exit, Failure>> {
    let process = match std::env::args_os().nth(1)?.to_str()? {
        "__orchestrate" => orchestrator::orchestrate,
        keeper::COMMAND => keeper::keep,
        "__keep" => orchestrator::keep::keep,
        "__host" => orchestrator::serve_host,
        _ => return None,
    };
    Some(diagnostics::start(0, clock).and_then(|()| process(clock)))
}

/// Parses a command line, and plans `lab run`, `lab up`, `lab show`, `test` and `roam`, without effects; other commands
/// are only parsed. Fails as the command would.
pub fn plan_command_line(words: &[&str]) -> Result<(), Failure> {
    let (cli, _) = parse(&mut Cli::command(), words).map_err(Failure::bad_input)?;
    match cli.command {
        Command::Lab(LabCommand::Run(args)) => lab::run::plan(&args).map(drop),
        Command::Lab(LabCommand::Up(args)) => lab::load(&args.scenario, &(&args.overrides).into()).map(drop),
        Command::Lab(LabCommand::Show { name }) => {
            scenario::load(&name).map(drop).map_err(Failure::bad_input)
        }
        Command::Test(args) => test::plan(&args).map(drop),
        Command::Roam(args) => roam::plan(&args).map(drop),
        _ => Ok(()),
    }
}

/// The command line, and its options that differ from their defaults.
fn parse<W: Into<OsString> + Clone>(
    command: &mut clap::Command,
    words: impl IntoIterator<Item = W>,
) -> Result<(Cli, Map<String, Value>), clap::Error> {
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(command))?;
    Ok((cli, cli::given(command, &matches)))
}

fn dispatch(command: Command, given: Map<String, Value>, clock: &SharedClock) -> Result<Exit, Failure> {
    match command {
        Command::Lab(LabCommand::Run(args)) => lab::run::run(&args, clock),
        Command::Lab(LabCommand::Up(args)) => lab::keep::up(&args),
        Command::Lab(LabCommand::Exec(args)) => lab::keep::exec(&args, clock),
        Command::Lab(LabCommand::Down(args)) => lab::keep::down(&args, clock),
        Command::Lab(LabCommand::List) => lab::keep::list(),
        Command::Lab(LabCommand::Show { name }) => lab::show(&name),
        Command::Lab(LabCommand::Import(args)) => lab::import(&args),
        Command::Lab(LabCommand::ImportTrace(args)) => lab::import_trace::import_trace(&args),
        Command::Lab(LabCommand::Check { scenario }) => lab::check(&scenario),
        Command::Test(args) => test::test(&args, given, clock),
        Command::Roam(args) => roam::roam(&args, given, clock),
        Command::Mtu(args) => mtu::mtu(&args, clock),
        Command::Setup(args) => setup::setup(&args, clock),
        Command::Run(args) => run::run(&args, clock),
        Command::Check(args) => check::check(&args, clock),
        Command::Serve(args) => serve::serve(&args, clock),
        Command::Submit(args) => submit::submit(&args, clock),
        Command::Agent(args) => service::run(&args, agent_host(clock)?),
        Command::Collect { arguments } => collect::collect(&arguments),
        Command::Report(args) => report::report(&args, clock),
        Command::Trace(args) => trace::trace(&args, clock),
    }
}

fn agent_host(clock: &SharedClock) -> Result<AgentHost, Failure> {
    Ok(AgentHost {
        clock: Arc::clone(clock),
        networks: Arc::new(KernelNetworks),
        program: supervised::THIS_PROGRAM.into(),
        state_directory: state_directory()?,
        log: Box::new(|line| output::note(line)),
        stop: signals::service_stop_flag(),
        reload: signals::reload_flag(),
    })
}
