//! The arguments of `test`, and the resulting suite.

use crate::arguments::{
    OutputArguments, TestServerArguments, TransportChoice, scheduler_parser, transport_parser,
};
use clap::{Args, ValueEnum};
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::transport::Transport;
use pathbench_record::units::{Size, Span};
use std::time::Duration;

/// Pings of one run: enough that one slow answer does not change the median.
const PINGS: u32 = 10;
/// Time of a run in addition to its traffic: connections, the exchange of records.
const OVERHEAD: Duration = Duration::from_millis(500);
/// Expected time of a bulk download until one has been measured.
const UNKNOWN_DOWNLOAD: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Args)]
pub(crate) struct TestArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets); of several, the nearest is tested
    #[arg(required = true, value_name = "SERVER")]
    pub(super) servers: Vec<String>,
    #[command(flatten)]
    pub(super) server: TestServerArguments,
    #[command(flatten)]
    pub(super) traffic: TrafficArgs,
    /// Show the measurement on the terminal: rates of the paths, delays, events, runs; `?` lists the keys
    #[arg(long, conflicts_with = "json_stream")]
    pub(super) tui: bool,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TrafficArgs {
    /// Transports [default: all that work]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = transport_parser())]
    pub(super) transports: Vec<Transport>,
    /// Patterns; throughput stands for throughput-upload and throughput-download [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(super) patterns: Vec<PatternName>,
    /// Runs of each pattern on each transport
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// Seed of the order of the runs [default: a random one, which the result names]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How long throughput and interactive send
    #[arg(long, value_name = "TIME", default_value = "7s")]
    pub(super) duration: Span,
    /// Size of the bulk download
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    pub(super) bulk_bytes: Size,
    /// mpquic: the scheduler, which decides on which path data is sent
    #[arg(long, value_name = "NAME", default_value = "lowest-rtt", value_parser = scheduler_parser())]
    pub(super) scheduler: Scheduler,
    /// Congestion control at this end: cubic, reno, bbr, … [default: the system's; cubic for QUIC]
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PatternName {
    Ping,
    Bulk,
    #[value(alias = "iperf-upload")]
    ThroughputUpload,
    #[value(alias = "iperf-download")]
    ThroughputDownload,
    #[value(alias = "iperf")]
    Throughput,
    Interactive,
}

/// A pattern of the suite with its name in results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SuitePattern {
    pub(super) name: &'static str,
    pub(super) parameters: PatternParameters,
}

impl SuitePattern {
    /// Expected time of a run: the mean of earlier runs, if any.
    pub(super) fn expected(&self, measured: &[Duration]) -> Duration {
        match self.parameters.nominal_duration() {
            _ if !measured.is_empty() => measured.iter().sum::<Duration>() / measured.len() as u32,
            Some(nominal) => match &self.parameters {
                // A run needs almost none of its linger time.
                PatternParameters::Interactive(interactive) => interactive.duration + OVERHEAD,
                _ => nominal + OVERHEAD,
            },
            None => UNKNOWN_DOWNLOAD,
        }
    }

    /// Whether the pattern sends enough to need more than one path.
    pub(super) const fn fills_paths(&self) -> bool {
        matches!(self.parameters, PatternParameters::Throughput(_))
    }
}

#[derive(Debug, Clone)]
pub(super) struct SuitePlan {
    pub(super) patterns: Vec<SuitePattern>,
    pub(super) choice: TransportChoice,
    pub(super) repeat: u32,
    pub(super) scheduler: Scheduler,
}

impl SuitePlan {
    /// Returns the plan, or all mistakes in the arguments, each with its remedy.
    pub(super) fn new(args: &TrafficArgs) -> Result<Self, Vec<String>> {
        let patterns = patterns(args);
        let mistakes: Vec<String> = patterns
            .iter()
            .filter_map(|pattern| Some((pattern.name, pattern.parameters.validate().err()?)))
            .flat_map(|(name, wrong)| wrong.into_iter().map(move |wrong| format!("{name}: {wrong}")))
            .collect();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let choice = TransportChoice::new(&args.transports, &Transport::ALL);
        Ok(Self { patterns, choice, repeat: args.repeat, scheduler: args.scheduler.clone() })
    }
}

fn patterns(args: &TrafficArgs) -> Vec<SuitePattern> {
    let throughput = |direction| {
        PatternParameters::Throughput(ThroughputParameters {
            direction,
            amount: Amount::Duration(args.duration.0),
            ..ThroughputParameters::default()
        })
    };
    let ping = PingParameters { count: PINGS, ..PingParameters::default() };
    let bulk = BulkParameters { bytes: args.bulk_bytes.0, ..BulkParameters::default() };
    let interactive = InteractiveParameters { duration: args.duration.0, ..InteractiveParameters::default() };
    let all = [
        (PatternName::Ping, "ping", PatternParameters::Ping(ping)),
        (PatternName::Bulk, "bulk", PatternParameters::Bulk(bulk)),
        (PatternName::ThroughputUpload, "throughput-upload", throughput(DataDirection::Upload)),
        (PatternName::ThroughputDownload, "throughput-download", throughput(DataDirection::Download)),
        (PatternName::Interactive, "interactive", PatternParameters::Interactive(interactive)),
    ];
    let wanted = |pattern: PatternName| {
        let both = matches!(pattern, PatternName::ThroughputUpload | PatternName::ThroughputDownload);
        args.patterns.is_empty()
            || args.patterns.contains(&pattern)
            || (both && args.patterns.contains(&PatternName::Throughput))
    };
    let wanted = all.into_iter().filter(|(pattern, ..)| wanted(*pattern));
    wanted.map(|(_, name, parameters)| SuitePattern { name, parameters }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        traffic: TrafficArgs,
    }

    fn plan(arguments: &[&str]) -> Result<SuitePlan, Vec<String>> {
        let line = Line::try_parse_from([&["test"], arguments].concat()).unwrap();
        SuitePlan::new(&line.traffic)
    }

    #[test]
    fn without_options_everything_is_run() {
        let plan = plan(&[]).unwrap();
        let names: Vec<&str> = plan.patterns.iter().map(|pattern| pattern.name).collect();
        assert_eq!(names, ["ping", "bulk", "throughput-upload", "throughput-download", "interactive"]);
        assert_eq!((plan.choice.transports.len(), plan.repeat, plan.choice.named), (4, 3, false));
        assert!(
            plan.patterns
                .iter()
                .all(|one| !crate::client::asked_parameters(one.name, &one.parameters).is_empty())
        );
        assert!(!plan.choice.names(Transport::Mptcp));
    }

    #[test]
    fn iperf_is_an_alias_of_throughput() {
        for name in ["throughput", "throughput-upload", "throughput-download"] {
            let alias = name.replace("throughput", "iperf");
            let patterns = |name: &str| plan(&["--patterns", name]).unwrap().patterns;
            assert_eq!(patterns(&alias), patterns(name));
        }
    }

    #[test]
    fn options_choose_and_throughput_is_both_directions() {
        let plan = plan(&["--transports", "mptcp,tcp", "--patterns", "throughput,ping", "--duration", "2s"])
            .unwrap();
        let names: Vec<&str> = plan.patterns.iter().map(|pattern| pattern.name).collect();
        assert_eq!(names, ["ping", "throughput-upload", "throughput-download"]);
        assert_eq!(plan.choice.transports, [Transport::Tcp, Transport::Mptcp]);
        assert!(plan.choice.names(Transport::Mptcp));
        assert_eq!(plan.patterns[1].parameters.nominal_duration(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn wrong_values_are_rejected() {
        let empty = plan(&["--bulk-bytes", "0"]).unwrap_err();
        assert!(empty[0].starts_with("bulk: "), "{empty:?}");
        for (option, value, known) in [
            ("--patterns", "pong", "interactive"),
            ("--scheduler", "best", "round-robin"),
            ("--transports", "udp", "mpquic"),
        ] {
            let error = Line::try_parse_from(["test", option, value]).err().unwrap().to_string();
            assert!(error.contains(value) && error.contains(known), "{error}");
        }
    }

    #[test]
    fn measured_times_replace_expected_times() {
        let plan = plan(&[]).unwrap();
        let bulk = &plan.patterns[1];
        assert_eq!(bulk.expected(&[]), UNKNOWN_DOWNLOAD);
        assert_eq!(bulk.expected(&[Duration::from_secs(1), Duration::from_secs(3)]), Duration::from_secs(2));
        assert!(plan.patterns[4].expected(&[]) < Duration::from_secs(8), "the linger is hardly ever used");
    }
}
