//! The command line as parsed by clap. Help texts are the users' first documentation: keep them exact.

use crate::arguments::MtuArgs;
use crate::command::check::CheckArgs;
use crate::command::lab::import_trace::ImportTraceArgs;
use crate::command::report::ReportArgs;
use crate::command::roam::RoamArgs;
use crate::command::run::ProgramArgs;
use crate::command::serve::ServeArgs;
use crate::command::setup::SetupArgs;
use crate::command::test::TestArgs;
use crate::command::trace::TraceArgs;
use crate::study::StudyArgs;
use clap::{Arg, ArgAction, ArgMatches, Args, Parser, Subcommand};
use pathbench_agent::service::AgentArgs;
use pathbench_agent::submit::{SubmitArgs, SubmitOptions};
use pathbench_record::units::Span;
use serde_json::{Map, Value};
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 usage or bad input; 3 server unreachable; \
4 server refused; 5 an expectation of the scenario did not hold; 6 a requested multipath transport fell back or \
used one path only; 7 this host lacks a feature or privilege; 8 a condition of report --fail-if holds; 130 stopped at once by a second signal; 141 standard \
output was closed (a broken pipe).";

#[derive(Debug, Parser)]
#[command(name = "pathbench", version, about, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    /// Write diagnostics to standard error: -v events, -vv details; `PATHBENCH_LOG` names levels by module
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Emulated networks: run a scenario, or build a lab for other programs
    #[command(subcommand)]
    Lab(LabCommand),
    /// Test a server: every pattern on every transport that works, path by path
    Test(Box<TestArgs>),
    /// Test mobility: interactive traffic on several transports while this host moves from network to network
    Roam(Box<RoamArgs>),
    /// Measure the MTU of each path to a server, and correct the kernel's path MTU
    Mtu(Box<MtuArgs>),
    /// MPTCP endpoints, limits, rules and routes of this host: plan, apply, undo, persist
    Setup(Box<SetupArgs>),
    /// Run any program with its TCP sockets created as MPTCP, and show what each connection used
    Run(Box<ProgramArgs>),
    /// Find out whether this host can use several paths, why not, and the remedy
    Check(CheckArgs),
    /// Run the test server
    Serve(Box<ServeArgs>),
    /// Submit results to a collector, list the outbox, delete submitted results
    Submit(Box<SubmitArgs>),
    /// Run a collector's experiments on schedule, or measure from a local page
    Agent(Box<AgentArgs>),
    /// Run the collector, where `pathbench-collector` is installed
    Collect {
        /// Arguments of `pathbench-collector`, which lists them with -- --help
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Figures and tables of one or several results
    Report(ReportArgs),
    /// Analyse packet captures: the connections in them, and which bytes each TCP flow, MPTCP subflow or QUIC path carried
    Trace(TraceArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Build the scenario's network, run its traffic and events, write and show the result
    Run(Box<RunArgs>),
    /// Build the scenario's network and keep it, for other programs
    Up(UpArgs),
    /// Run a program in a host of a lab that is up (ping, iperf3, curl, tcpdump, a shell …)
    Exec(ExecArgs),
    /// Take a lab down
    Down(DownArgs),
    /// The shipped scenarios, a line each, and the labs that are up
    List,
    /// Print a shipped scenario
    Show {
        /// Name of a shipped scenario
        name: String,
    },
    /// Convert minitopo's files into a scenario
    Import(ImportArgs),
    /// Show the rate, delay and loss of a trace of a real link, and write them as tables that scenarios read
    ImportTrace(ImportTraceArgs),
    /// Check scenario files in full without running anything
    Check {
        #[command(flatten)]
        scenario: ScenarioArgs,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ScenarioArgs {
    /// Name of a shipped scenario, or path of a scenario file; the runs of several alternate
    #[arg(required = true, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OverrideArgs {
    /// Set a key of the scenario, e.g. path.wlan.rate=50mbit (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Transports to run, e.g. mptcp,tcp@wlan
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) transports: Option<Vec<String>>,
    /// Repetitions of each transport in each variant
    #[arg(long, value_name = "N")]
    pub(crate) repeat: Option<u32>,
    /// Seed of the run order and of all random decisions
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Duration of the traffic, e.g. 5s
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    #[command(flatten)]
    pub(crate) study: StudyArgs,
    /// Directory of the result, new or empty [default: SCENARIO-DATE in `$PATHBENCH_OUT`, else in pathbench-results]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print only the headline, whether multipath was used, and problems
    #[arg(long, conflicts_with_all = ["json", "json_stream"])]
    pub(crate) brief: bool,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Print live records as NDJSON (one JSON object per line) instead of the summary: each second of each run, events,
    /// figures
    #[arg(long, conflicts_with = "json")]
    pub(crate) json_stream: bool,
    /// Show the measurement on the terminal: rates of the paths, delays, events, runs; `?` lists the keys
    #[arg(long, conflicts_with = "json_stream")]
    pub(crate) tui: bool,
    /// Do not measure the links before each run (the result says so)
    #[arg(long)]
    pub(crate) no_calibration: bool,
    /// Run up to N runs in parallel, each in a separate lab; for light traffic (interactive, ping), because they share
    /// the machine
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) jobs: std::num::NonZeroUsize,
    /// Write the packets of every emulated link, with their fate, to captures/RUN-LINK.pcapng in the result
    #[arg(long)]
    pub(crate) capture: bool,
    /// Write no report.html and no figures
    #[arg(long)]
    pub(crate) no_report: bool,
    #[command(flatten)]
    pub(crate) privilege: PrivilegeArgs,
    #[command(flatten)]
    pub(crate) submit: SubmitOptions,
    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Topology file of minitopo
    #[arg(value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// Experiment file of minitopo, for the traffic [default: throughput over tcp and mptcp]
    #[arg(long, value_name = "FILE")]
    pub(crate) experiment: Option<PathBuf>,
    /// New file for the scenario [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PrivilegeArgs {
    /// Build the lab as root instead of in a user namespace (needs root; default if user namespaces are forbidden)
    #[arg(long)]
    pub(crate) as_root: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Name of a shipped scenario, or path of a scenario file
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) overrides: OverrideArgs,
    /// Name of the lab [default: the scenario's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) privilege: PrivilegeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// Name of the lab, when several are up
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,
    /// The lab's host; `wires` is the fabric namespace, with the bridges and shapers of the links
    pub(crate) host: String,
    /// The program and its arguments [default: a shell]
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Name of the lab, when several are up
    #[arg(value_name = "NAME")]
    pub(crate) lab: Option<String>,
    /// All labs of this user
    #[arg(long, conflicts_with = "lab")]
    pub(crate) all: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write it as KEY=VALUE, e.g. path.wlan.rate=50mbit".to_owned()),
    }
}

/// Options that select the server and the output. The result stores the seed and the course of the study in other fields;
/// a token is a secret.
const NOT_RECORDED: [&str; 26] = [
    "port",
    "quic-port",
    "fingerprint",
    "ca",
    "token",
    "submit",
    "collector-token",
    "collector-ca",
    "consent",
    "config",
    "seed",
    "until-ci",
    "time-limit",
    "retry-invalid",
    "resume",
    "shard",
    "record",
    "out",
    "json",
    "json-stream",
    "brief",
    "no-report",
    "tui",
    "quiet",
    "verbose",
    "help",
];

/// The options of the subcommand in `matches` that differ from their defaults: `--NAME` → value; several values as an
/// array, a switch as `true`.
pub(crate) fn given(command: &clap::Command, matches: &ArgMatches) -> Map<String, Value> {
    let Some((name, matches)) = matches.subcommand() else { return Map::new() };
    let Some(command) = command.find_subcommand(name) else { return Map::new() };
    let options = command.get_arguments().filter_map(|option| {
        let long = option.get_long().filter(|long| !NOT_RECORDED.contains(long))?;
        Some((format!("--{long}"), value(option, matches)?))
    });
    options.collect()
}

/// The value of an option; `None` for its default.
fn value(option: &Arg, matches: &ArgMatches) -> Option<Value> {
    let id = option.get_id().as_str();
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return matches.get_flag(id).then_some(Value::Bool(true));
    }
    let given: Vec<_> = matches.get_raw(id)?.collect();
    if given == option.get_default_values() {
        return None;
    }
    let texts: Vec<Value> = given.into_iter().map(|text| text.to_string_lossy().into()).collect();
    match <[Value; 1]>::try_from(texts) {
        Ok([text]) => Some(text),
        Err(texts) => Some(texts.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;
    use pathbench_record::document::{ResultDocument, ScenarioRecord, ServerRecord};
    use serde_json::json;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn given_with(arguments: &[&str]) -> Value {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut([&["pathbench"], arguments].concat()).unwrap();
        given(&command, &matches).into()
    }

    #[test]
    fn defaults_are_not_recorded_even_where_they_are_given() {
        for arguments in [
            &["test", "server"][..],
            &["test", "server", "--bulk-bytes", "10MB", "--scheduler", "lowest-rtt"],
            &["roam", "server", "--patience", "30s", "--seed", "7", "--quiet", "--out", "here"],
            &["test", "server", "--token", "secret", "--port", "5000", "--quic-port", "5001", "--json"],
        ] {
            assert_eq!(given_with(arguments), json!({}), "{arguments:?}");
        }
    }

    #[test]
    fn options_that_differ_from_their_defaults_are_recorded() {
        let arguments =
            ["test", "server", "--repeat", "5", "--tls", "--transports", "tcp,mptcp", "--path", "eth0"];
        let expected =
            json!({ "--transports": ["tcp", "mptcp"], "--path": "eth0", "--repeat": "5", "--tls": true });
        let found = given_with(&arguments);
        assert_eq!(found.as_object().unwrap().len(), 4, "{found}");
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(found[name], *value, "{found}");
        }
        let backups = given_with(&["roam", "server", "--backup", "lte", "--backup", "sat", "--ipv4"]);
        assert_eq!(backups, json!({ "--backup": ["lte", "sat"], "--ipv4": true }));
    }

    /// The command that a report prints has the options of the command that made the result.
    #[test]
    fn the_command_that_repeats_a_result_is_the_same_command() {
        let recorded = |origin: &str, name: &str, overrides: Value| {
            let overrides = overrides.as_object().cloned().unwrap_or_default();
            let (origin, name) = (origin.to_owned(), name.to_owned());
            let scenario = ScenarioRecord { origin, name, overrides, ..ScenarioRecord::default() };
            let address = "[2001:db8::1]:4433".to_owned();
            let servers = vec![ServerRecord { address, ..ServerRecord::default() }];
            ResultDocument { scenario, servers, seed: 7, ..ResultDocument::default() }
        };
        for options in [
            &[
                "test",
                "x",
                "--repeat",
                "5",
                "--tls",
                "--transports",
                "tcp,mptcp",
                "--path",
                "a",
                "--path",
                "b",
            ][..],
            &["roam", "x", "--backup", "lte", "--backup", "sat", "--ipv4"],
            &["test", "x"],
        ] {
            let document = recorded("command line", options[0], given_with(options));
            let again = pathbench_report::command::arguments(&document).unwrap();
            let again: Vec<&str> = again.iter().skip(1).map(String::as_str).collect();
            assert_eq!(given_with(&again), given_with(options), "{again:?}");
        }
        let changes = json!({
            "run.transports": ["mptcp", "tcp@wlan"], "run.repeat": 6, "run.duration": "5s", "path.wlan.rate": "50mbit",
        });
        let again = pathbench_report::command::arguments(&recorded("-x.toml", "x", changes)).unwrap();
        let parsed = Cli::try_parse_from(again).unwrap();
        let Command::Lab(LabCommand::Run(run)) = parsed.command else { panic!("another command") };
        let OverrideArgs { set, transports, repeat, seed, duration } = run.scenario.overrides;
        assert_eq!(run.scenario.scenarios, ["-x.toml"]);
        assert_eq!(set, [("path.wlan.rate".to_owned(), "50mbit".to_owned())]);
        assert_eq!(transports.unwrap(), ["mptcp", "tcp@wlan"]);
        assert_eq!(
            (repeat, seed, duration.map(|one| one.to_string())),
            (Some(6), Some(7), Some("5s".to_owned()))
        );
    }

    #[test]
    fn every_unrecorded_name_is_an_option() {
        let mut command = Cli::command();
        command.build();
        let names: Vec<&str> = command
            .get_subcommands()
            .filter(|one| ["test", "roam"].contains(&one.get_name()))
            .flat_map(clap::Command::get_arguments)
            .filter_map(Arg::get_long)
            .collect();
        for name in NOT_RECORDED {
            assert!(names.contains(&name), "--{name}: {names:?}");
        }
    }
}
