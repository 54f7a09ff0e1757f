//! What is to be run, validated before anything is sent.

use crate::client::{self, AccessArgs, FamilyArgs, TRANSPORTS};
use crate::report::PresentationArgs;
use clap::Args;
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, IperfParameters, PatternParameters, PingParameters,
};
use pathbench_record::transport::Transport;
use pathbench_record::units::{Size, Span};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Pings of one run: enough for a median that one late answer does not move.
const PINGS: u32 = 10;
/// What a run takes beside its traffic: connections, the exchange of records.
const OVERHEAD: Duration = Duration::from_millis(500);
/// A bulk download is expected to take this long until one has been measured.
const UNKNOWN_DOWNLOAD: Duration = Duration::from_secs(3);

/// A pattern of the suite under its name in results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SuitePattern {
    pub(super) name: &'static str,
    pub(super) parameters: PatternParameters,
}

impl SuitePattern {
    /// How long a run of it takes about; `measured`: how long earlier ones took.
    pub(super) fn expected(&self, measured: &[Duration]) -> Duration {
        match self.parameters.nominal_duration() {
            // Of the linger, next to nothing is used.
            _ if !measured.is_empty() => measured.iter().sum::<Duration>() / measured.len() as u32,
            Some(nominal) => match &self.parameters {
                PatternParameters::Interactive(interactive) => interactive.duration + OVERHEAD,
                _ => nominal + OVERHEAD,
            },
            None => UNKNOWN_DOWNLOAD,
        }
    }

    /// Its parameters as the user knows them.
    pub(super) fn asked(&self) -> Map<String, Value> {
        client::asked_parameters(self.name, &self.parameters)
    }

    /// Whether it sends enough to need more than one path.
    pub(super) const fn fills_paths(&self) -> bool {
        matches!(self.parameters, PatternParameters::Iperf(_))
    }
}

/// The suite as asked for.
#[derive(Debug, Clone)]
pub(super) struct SuitePlan {
    pub(super) patterns: Vec<SuitePattern>,
    /// Those to try.
    pub(super) transports: Vec<Transport>,
    /// Whether the user named them.
    pub(super) named: bool,
    pub(super) repeat: u32,
    pub(super) scheduler: Scheduler,
}

impl SuitePlan {
    /// Reads the arguments; all mistakes at once, each with what would be right.
    pub(super) fn of(args: &TrafficArgs) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        let patterns = patterns(args, &mut mistakes);
        for pattern in &patterns {
            if let Err(wrong) = pattern.parameters.validate() {
                mistakes.extend(wrong.iter().map(|wrong| format!("{}: {wrong}", pattern.name)));
            }
        }
        let scheduler = client::scheduler(&args.scheduler).unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            Scheduler::default()
        });
        let named = !args.transports.is_empty();
        let transports: Vec<Transport> = TRANSPORTS
            .into_iter()
            .filter(|transport| !named || args.transports.contains(transport))
            .collect();
        for (index, path) in args.paths.iter().enumerate() {
            if args.paths[..index].contains(path) {
                mistakes.push(format!("--path {path} is given twice"));
            }
        }
        if mistakes.is_empty() {
            Ok(Self { patterns, transports, named, repeat: args.repeat, scheduler })
        } else {
            Err(mistakes)
        }
    }

    /// Whether the user asked for this transport by name.
    pub(super) fn asks_for(&self, transport: Transport) -> bool {
        self.named && self.transports.contains(&transport)
    }
}

const PATTERNS: [&str; 5] = ["ping", "bulk", "iperf-upload", "iperf-download", "interactive"];

fn patterns(args: &TrafficArgs, mistakes: &mut Vec<String>) -> Vec<SuitePattern> {
    for asked in &args.patterns {
        if asked != "iperf" && !PATTERNS.contains(&asked.as_str()) {
            mistakes.push(format!("`{asked}` is not a pattern; known are {} and iperf", PATTERNS.join(", ")));
        }
    }
    let wanted = |name: &str| {
        args.patterns.is_empty()
            || args.patterns.iter().any(|asked| {
                asked == name || name.strip_prefix(asked.as_str()).is_some_and(|rest| rest.starts_with('-'))
            })
    };
    let parameters = |name| match name {
        "ping" => PatternParameters::Ping(PingParameters { count: PINGS, ..PingParameters::default() }),
        "bulk" => {
            PatternParameters::Bulk(BulkParameters { bytes: args.bulk_bytes.0, ..BulkParameters::default() })
        }
        "interactive" => PatternParameters::Interactive(InteractiveParameters {
            duration: args.duration.0,
            ..InteractiveParameters::default()
        }),
        _ => PatternParameters::Iperf(IperfParameters {
            direction: match name {
                "iperf-upload" => DataDirection::Upload,
                _ => DataDirection::Download,
            },
            amount: Amount::Duration(args.duration.0),
            ..IperfParameters::default()
        }),
    };
    let wanted = PATTERNS.into_iter().filter(|name| wanted(name));
    wanted.map(|name| SuitePattern { name, parameters: parameters(name) }).collect()
}

/// Servers, what to run against the nearest of them, and where the result goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct TestArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets); of several, the nearest is tested
    #[arg(required = true, value_name = "SERVER")]
    pub(super) servers: Vec<String>,
    /// Port of the servers, TCP and UDP
    #[arg(long, value_name = "N", default_value_t = 4433, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    #[command(flatten)]
    pub(super) traffic: TrafficArgs,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    /// Directory of the result, new or empty [default: test-DATE in `$PATHBENCH_OUT`, else in pathbench-results]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) presentation: PresentationArgs,
    /// No progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// What is run, how often, and over which paths.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrafficArgs {
    /// Transports: tcp, mptcp, quic, mpquic [default: all that work]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) transports: Vec<Transport>,
    /// Patterns: ping, bulk, iperf-upload, iperf-download, interactive; iperf is both of its kind [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) patterns: Vec<String>,
    /// An interface to use, the preferred one first (repeatable) [default: all that have a route to the server]
    #[arg(long = "path", value_name = "IFACE")]
    pub(super) paths: Vec<String>,
    /// Runs of each pattern on each transport
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// Seed of the order of the runs [default: a random one, which the result names]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How long iperf and interactive send
    #[arg(long, value_name = "TIME", default_value = "7s")]
    pub(super) duration: Span,
    /// Size of the bulk download
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    pub(super) bulk_bytes: Size,
    /// mpquic: which path data takes: lowest-rtt, round-robin, weighted, backup
    #[arg(long, value_name = "NAME", default_value = "lowest-rtt")]
    pub(super) scheduler: String,
    /// Congestion control at this end: cubic, reno, bbr, … [default: the system's; cubic for QUIC]
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,
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
        SuitePlan::of(&line.traffic)
    }

    #[test]
    fn without_wishes_everything_is_run() {
        let plan = plan(&[]).unwrap();
        let names: Vec<&str> = plan.patterns.iter().map(|pattern| pattern.name).collect();
        assert_eq!(names, PATTERNS);
        assert_eq!((plan.transports.len(), plan.repeat, plan.named), (4, 3, false));
        assert!(plan.patterns.iter().all(|pattern| !pattern.asked().is_empty()));
        assert!(!plan.asks_for(Transport::Mptcp));
    }

    #[test]
    fn wishes_choose_and_iperf_is_both_of_its_kind() {
        let plan =
            plan(&["--transports", "mptcp,tcp", "--patterns", "iperf,ping", "--duration", "2s"]).unwrap();
        let names: Vec<&str> = plan.patterns.iter().map(|pattern| pattern.name).collect();
        assert_eq!(names, ["ping", "iperf-upload", "iperf-download"]);
        assert_eq!(plan.transports, [Transport::Tcp, Transport::Mptcp]);
        assert!(plan.asks_for(Transport::Mptcp));
        assert_eq!(plan.patterns[1].parameters.nominal_duration(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let wrong = [
            "--patterns",
            "pong",
            "--scheduler",
            "best",
            "--path",
            "eth0",
            "--path",
            "eth0",
            "--bulk-bytes",
            "0",
        ];
        let mistakes = plan(&wrong).unwrap_err();
        for words in ["`pong` is not a pattern", "`best` is not a scheduler", "eth0 is given twice"] {
            assert!(mistakes.iter().any(|mistake| mistake.contains(words)), "{words}: {mistakes:?}");
        }
        let empty = plan(&["--bulk-bytes", "0"]).unwrap_err();
        assert!(empty[0].starts_with("bulk: "), "{empty:?}");
    }

    #[test]
    fn what_was_measured_replaces_what_was_expected() {
        let plan = plan(&[]).unwrap();
        let bulk = &plan.patterns[1];
        assert_eq!(bulk.expected(&[]), UNKNOWN_DOWNLOAD);
        assert_eq!(bulk.expected(&[Duration::from_secs(1), Duration::from_secs(3)]), Duration::from_secs(2));
        assert!(plan.patterns[4].expected(&[]) < Duration::from_secs(8), "the linger is hardly ever used");
    }
}
