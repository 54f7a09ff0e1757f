//! The arguments of `test`, and the resulting suite.

use crate::arguments::{
    OutputArguments, TestServerArguments, TransportChoice, all_transports_parser, scheduler_parser,
};
use crate::study::StudyArgs;
use clap::{ArgAction, Args, ValueEnum};
use pathbench_agent::submit::SubmitOptions;
use pathbench_record::connection::Scheduler;
use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::response::ResponsivenessParameters;
use pathbench_record::transport::Transport;
use pathbench_record::units::{Rate, Size, Span, UnitError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Pings of one run: enough that one slow answer does not change the median.
const PINGS: u32 = 10;
/// Repetitions of a suite that is to end neither on precision nor after the user's number of them.
const REPETITIONS: u32 = 3;
/// Time that throughput sends before it is measured, and the measured time. In slow start goodput is low, and the data that
/// the receiver holds behind the losses at its end arrives at once: both would distort a gain. Over an RTT of 90 ms with a
/// queue of 150 ms the second ends 2 to 3 s after the start.
const DURATIONS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(3)];
/// With `--quick` each run sends for 4 s.
const QUICK_DURATIONS: [Duration; 2] = [Duration::from_millis(2500), Duration::from_millis(1500)];

#[derive(Debug, Clone, Args)]
pub(crate) struct TestArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets); of several, the nearest is tested
    #[arg(required = true, value_name = "SERVER")]
    pub(super) servers: Vec<String>,
    #[command(flatten)]
    pub(super) server: TestServerArguments,
    #[command(flatten)]
    pub(super) traffic: TrafficArgs,
    #[command(flatten)]
    pub(super) study: StudyArgs,
    /// Write the measured lines as a scenario into this new file, which `pathbench lab run` runs
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["resume", "shard"])]
    pub(super) record: Option<PathBuf>,
    /// Show the measurement on the terminal: rates of the paths, delays, events, runs; `?` lists the keys
    #[arg(long, conflicts_with = "json_stream")]
    pub(super) tui: bool,
    #[command(flatten)]
    pub(super) submit: SubmitOptions,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TrafficArgs {
    /// Transports; udp only with the pattern datagrams, which needs udp, quic or mpquic [default: all that work]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = all_transports_parser())]
    pub(super) transports: Vec<Transport>,
    /// An answer in about a minute: throughput in both directions, once, 4 s each; other options change its parts
    #[arg(long)]
    pub(super) quick: bool,
    /// Patterns; throughput stands for throughput-upload and throughput-download; datagrams runs alone [default: all but
    /// responsiveness and datagrams]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(super) patterns: Vec<PatternName>,
    /// Runs of each pattern on each transport [default: 3; with --quick 1; with --until-ci at most 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: Option<u32>,
    /// Seed of the order of the runs [default: a random one, which the result names; --shard requires one]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How long throughput and interactive send; throughput sends for 3 s more before it, with --quick for 2.5 s
    /// [default: 3s; with --quick 1.5s]
    #[arg(long, value_name = "TIME")]
    pub(super) duration: Option<Span>,
    /// Size of the bulk download
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    pub(super) bulk_bytes: Size,
    /// Pattern datagrams: voice (50 packets of 160 bytes a second), video (60 frames of 20 kB a second), `NUMBERxBYTES`
    /// (frames a second) or `RATExBYTES`
    #[arg(long, value_name = "KIND", default_value = "voice")]
    pub(super) datagrams: DatagramKindArgument,
    /// Pattern datagrams: a datagram that arrives later than this after it was sent is late
    #[arg(long, value_name = "TIME", default_value = "150ms", value_parser = deadline)]
    pub(super) deadline: Span,
    /// mpquic: the scheduler, which decides on which path data is sent
    #[arg(long, value_name = "NAME", default_value = "lowest-rtt", value_parser = scheduler_parser())]
    pub(super) scheduler: Scheduler,
    /// Congestion control at this end: cubic, reno, bbr, … [default: the system's; cubic for QUIC]
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,
    /// Throughput: the senders' data are not copied (sendfile); tcp without --tls
    #[arg(long)]
    pub(super) zero_copy: bool,
    /// Throughput: the receivers discard data without copying them (`MSG_TRUNC`); tcp and mptcp without --tls
    #[arg(long)]
    pub(super) skip_receive_copy: bool,
    /// Throughput: the processor of the client's threads, and that of the server's
    #[arg(long, value_name = "CLIENT[,SERVER]", value_delimiter = ',', num_args = 1, action = ArgAction::Set)]
    pub(super) affinity: Vec<u32>,
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
    Responsiveness,
    Datagrams,
}

/// Frames per second and bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatagramKindArgument {
    frames_per_second: u32,
    frame_bytes: u32,
}

impl FromStr for DatagramKindArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let of = |preset: DatagramsParameters| Self {
            frames_per_second: preset.frames_per_second,
            frame_bytes: preset.frame_bytes,
        };
        match text {
            "voice" => return Ok(of(DatagramsParameters::voice())),
            "video" => return Ok(of(DatagramsParameters::video())),
            _ => {}
        }
        let numbers = text.split_once('x').and_then(|(number, bytes)| {
            let frame_bytes: u32 = bytes.parse().ok()?;
            let frames_of = |rate: Rate| {
                let frame_bits = u64::from(frame_bytes.max(1)) * 8;
                u32::try_from((rate.0 + frame_bits / 2) / frame_bits).unwrap_or(u32::MAX).max(1)
            };
            let frames_per_second = number.parse().ok().or_else(|| number.parse().ok().map(frames_of))?;
            Some(Self { frames_per_second, frame_bytes })
        });
        numbers.ok_or_else(|| {
            "give voice, video, NUMBERxBYTES or RATExBYTES: 100x300 or 2mbitx1200, for example".to_owned()
        })
    }
}

/// As in scenarios.
fn deadline(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    let possible = Duration::from_millis(1)..=Duration::from_secs(60);
    if possible.contains(&span.0) { Ok(span) } else { Err("give 1ms to 60s".to_owned()) }
}

/// A pattern of the suite with its name in results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SuitePattern {
    pub(super) name: &'static str,
    pub(super) parameters: PatternParameters,
}

impl SuitePattern {
    /// The time of a run's traffic; `None` if its amount decides.
    pub(super) fn nominal(&self) -> Option<Duration> {
        match &self.parameters {
            // A run needs almost none of its linger time.
            PatternParameters::Interactive(interactive) => Some(interactive.duration),
            PatternParameters::Responsiveness(response) => Some(response.duration()),
            other => other.nominal_duration(),
        }
    }

    /// The time for which a run sends at the full rate of its paths, and the bytes of a run with a given number.
    pub(super) fn volume(&self) -> (Duration, u64) {
        match &self.parameters {
            PatternParameters::Throughput(_) => (self.nominal().unwrap_or_default(), 0),
            PatternParameters::Bulk(bulk) => (Duration::ZERO, bulk.bytes + bulk.upload_bytes),
            PatternParameters::Responsiveness(response) => {
                let directions =
                    response.phases.iter().map(|phase| 1 + u32::from(*phase == DataDirection::Both));
                (response.load.saturating_mul(directions.sum()), 0)
            }
            // A few kilobytes per second.
            PatternParameters::Ping(_) | PatternParameters::Interactive(_) => (Duration::ZERO, 0),
            PatternParameters::Datagrams(datagrams) => {
                let directions = if datagrams.direction == DataDirection::Both { 2 } else { 1 };
                (Duration::ZERO, datagrams.bytes().saturating_mul(directions))
            }
        }
    }

    /// Whether the pattern sends enough to need more than one path.
    pub(super) const fn fills_paths(&self) -> bool {
        matches!(self.parameters, PatternParameters::Throughput(_) | PatternParameters::Responsiveness(_))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SuitePlan {
    pub(super) patterns: Vec<SuitePattern>,
    pub(super) choice: TransportChoice,
    pub(super) repeat: u32,
    pub(super) warm_up: u32,
    pub(super) scheduler: Scheduler,
}

impl SuitePlan {
    /// Returns the plan, or all mistakes in the arguments, each with its remedy.
    pub(super) fn new(args: &TrafficArgs, tls: bool, study: &StudyArgs) -> Result<Self, Vec<String>> {
        let patterns = patterns(args);
        let has_datagrams = args.patterns.contains(&PatternName::Datagrams);
        let datagrams = [Transport::Udp, Transport::Quic, Transport::Mpquic];
        let usual: &[Transport] = if has_datagrams { &datagrams } else { &Transport::ALL };
        let choice = TransportChoice::new(&args.transports, usual);
        let usual = if args.quick { 1 } else { REPETITIONS };
        let repeat = args.repeat.or_else(|| study.most_repetitions()).unwrap_or(usual);
        let mut mistakes: Vec<String> = patterns
            .iter()
            .filter_map(|pattern| Some((pattern.name, pattern.parameters.validate().err()?)))
            .flat_map(|(name, wrong)| wrong.into_iter().map(move |wrong| format!("{name}: {wrong}")))
            .collect();
        mistakes.extend(check_options(args, tls, &patterns, &choice).err());
        mistakes.extend(study.validate("this suite", repeat).err());
        if has_datagrams && patterns.len() > 1 {
            mistakes
                .push("--patterns: datagrams runs alone, because tcp and mptcp cannot carry it".to_owned());
        }
        let misfit = |pattern: &SuitePattern| {
            args.transports.iter().find_map(|transport| pattern.parameters.misfit(*transport))
        };
        mistakes.extend(patterns.iter().find_map(misfit).map(|problem| format!("--transports: {problem}")));
        if study.shard.is_some() && args.seed.is_none() {
            mistakes
                .push("--shard: all shards have the order of one seed; give each the same --seed".to_owned());
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let (warm_up, scheduler) = (study.warm_up.unwrap_or(0), args.scheduler.clone());
        Ok(Self { patterns, choice, repeat, warm_up, scheduler })
    }

    /// The transports to try at the server: udp and the recording of lines need a tcp connection for control, and QUIC's
    /// UDP port.
    pub(super) fn choice_to_reach(&self, records: bool) -> TransportChoice {
        let mut choice = self.choice.clone();
        if records || choice.transports.contains(&Transport::Udp) {
            choice.transports.retain(|transport| *transport != Transport::Udp);
            for needed in [Transport::Tcp, Transport::Quic] {
                if !choice.transports.contains(&needed) {
                    choice.transports.push(needed);
                }
            }
        }
        choice
    }

    /// Keeps the endpoints of the chosen transports, and adds that of udp; why udp is missing.
    pub(super) fn settle_endpoints(&self, endpoints: &mut BTreeMap<Transport, SocketAddr>) -> Option<String> {
        let udp = udp_endpoint(endpoints);
        endpoints.retain(|transport, _| self.choice.transports.contains(transport));
        if !self.choice.transports.contains(&Transport::Udp) {
            return None;
        }
        udp.map(|address| endpoints.insert(Transport::Udp, address)).err()
    }
}

/// The address that serves udp, or why udp does not work.
pub(super) fn udp_endpoint(endpoints: &BTreeMap<Transport, SocketAddr>) -> Result<SocketAddr, String> {
    let udp = endpoints.get(&Transport::Tcp).copied();
    udp.filter(|_| udp == endpoints.get(&Transport::Quic).copied()).ok_or_else(|| {
        "udp does not work: the server must serve tcp and QUIC at the same port number of one address"
            .to_owned()
    })
}

/// The options of throughput need a pattern, and transports that can fulfil them.
fn check_options(
    args: &TrafficArgs,
    tls: bool,
    patterns: &[SuitePattern],
    choice: &TransportChoice,
) -> Result<(), String> {
    if args.affinity.len() > 2 {
        return Err("--affinity: one processor of the client, and one of the server".to_owned());
    }
    let asked = args.zero_copy || args.skip_receive_copy || !args.affinity.is_empty();
    let mut throughputs = patterns.iter().filter_map(|pattern| match &pattern.parameters {
        PatternParameters::Throughput(throughput) => Some(throughput),
        _ => None,
    });
    // Both directions have the same options.
    let Some(throughput) = throughputs.next() else {
        let problem = "--zero-copy, --skip-receive-copy and --affinity are options of throughput";
        return if asked { Err(format!("{problem}; add it to --patterns")) } else { Ok(()) };
    };
    choice
        .transports
        .iter()
        .try_for_each(|transport| throughput.check_copying(*transport, tls))
        .map_err(|error| format!("{error}: give --transports with those that can, and no --tls"))
}

fn patterns(args: &TrafficArgs) -> Vec<SuitePattern> {
    let [omit, usual] = if args.quick { QUICK_DURATIONS } else { DURATIONS };
    let duration = args.duration.map_or(usual, |given| given.0);
    let throughput = |direction| {
        PatternParameters::Throughput(ThroughputParameters {
            direction,
            amount: Amount::Duration(duration),
            omit,
            zero_copy: args.zero_copy,
            skip_receive_copy: args.skip_receive_copy,
            client_processor: args.affinity.first().copied(),
            server_processor: args.affinity.get(1).copied(),
            ..ThroughputParameters::default()
        })
    };
    let ping = PingParameters { count: PINGS, ..PingParameters::default() };
    let bulk = BulkParameters { bytes: args.bulk_bytes.0, ..BulkParameters::default() };
    let interactive = InteractiveParameters { duration, ..InteractiveParameters::default() };
    let response = ResponsivenessParameters::default();
    let datagrams = DatagramsParameters {
        frames_per_second: args.datagrams.frames_per_second,
        frame_bytes: args.datagrams.frame_bytes,
        deadline: args.deadline.0,
        duration,
        ..DatagramsParameters::default()
    };
    let all = [
        (PatternName::Ping, "ping", PatternParameters::Ping(ping)),
        (PatternName::Bulk, "bulk", PatternParameters::Bulk(bulk)),
        (PatternName::ThroughputUpload, "throughput-upload", throughput(DataDirection::Upload)),
        (PatternName::ThroughputDownload, "throughput-download", throughput(DataDirection::Download)),
        (PatternName::Interactive, "interactive", PatternParameters::Interactive(interactive)),
        (PatternName::Responsiveness, "responsiveness", PatternParameters::Responsiveness(response)),
        (PatternName::Datagrams, "datagrams", PatternParameters::Datagrams(datagrams)),
    ];
    let wanted = |pattern: PatternName| {
        let both = matches!(pattern, PatternName::ThroughputUpload | PatternName::ThroughputDownload);
        // Half a minute of load is not part of the suite, and tcp cannot carry datagrams.
        let is_default =
            !matches!(pattern, PatternName::Responsiveness | PatternName::Datagrams) && (both || !args.quick);
        (args.patterns.is_empty() && is_default)
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
        #[command(flatten)]
        study: StudyArgs,
        /// `--resume` excludes it.
        #[arg(long)]
        out: Option<String>,
    }

    fn plan(arguments: &[&str]) -> Result<SuitePlan, Vec<String>> {
        let line = Line::try_parse_from([&["test"], arguments].concat()).unwrap();
        SuitePlan::new(&line.traffic, false, &line.study)
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
        // Three seconds are sent and not measured.
        assert_eq!(plan.patterns[1].parameters.nominal_duration(), Some(Duration::from_secs(5)));
    }

    #[test]
    fn the_time_of_traffic_is_known_except_of_bulk() {
        let nominal: Vec<Option<Duration>> =
            plan(&[]).unwrap().patterns.iter().map(SuitePattern::nominal).collect();
        let throughput = Some(Duration::from_secs(6));
        // The linger of interactive traffic is hardly ever used.
        assert_eq!(nominal[1..], [None, throughput, throughput, Some(Duration::from_secs(3))]);
    }

    #[test]
    fn a_quick_suite_is_one_repetition_of_throughput() {
        let quick = plan(&["--quick"]).unwrap();
        let parts: Vec<_> = quick.patterns.iter().map(|pattern| (pattern.name, pattern.nominal())).collect();
        let sends = Some(Duration::from_secs(4));
        assert_eq!(parts, [("throughput-upload", sends), ("throughput-download", sends)]);
        assert_eq!(quick.repeat, 1);
        let changed = plan(&["--quick", "--repeat", "2", "--patterns", "ping", "--duration", "1s"]).unwrap();
        assert_eq!((changed.repeat, changed.patterns.len(), changed.patterns[0].name), (2, 1, "ping"));
    }

    #[test]
    fn responsiveness_runs_only_by_name() {
        let named = plan(&["--patterns", "responsiveness"]).unwrap();
        let parts: Vec<_> = named.patterns.iter().map(|pattern| (pattern.name, pattern.nominal())).collect();
        // 3 s idle, and three phases of 8 s with a pause of 1 s before each.
        assert_eq!(parts, [("responsiveness", Some(Duration::from_secs(30)))]);
        assert!(named.patterns[0].fills_paths());
    }

    #[test]
    fn a_study_until_a_precision_has_many_repetitions() {
        assert_eq!(plan(&["--until-ci", "5%"]).unwrap().repeat, 100);
        assert_eq!(plan(&["--until-ci", "5%", "--repeat", "8", "--warm-up", "2"]).unwrap().repeat, 8);
    }

    #[test]
    fn datagrams_have_a_number_of_frames_or_a_rate() {
        let frames = |text: &str| {
            let kind: DatagramKindArgument = text.parse().unwrap();
            (kind.frames_per_second, kind.frame_bytes)
        };
        assert_eq!(frames("video"), (60, 20_000));
        assert_eq!(frames("100x300"), (100, 300));
        // 208.3 frames a second.
        assert_eq!(frames("2mbitx1200"), (208, 1_200));
        for wrong in ["audio", "100", "2mbit", "x300", "100x", "2MBx300", "-1x300"] {
            assert!(wrong.parse::<DatagramKindArgument>().is_err(), "{wrong}");
        }
        assert_eq!(deadline("39ms").map(|span| span.0), Ok(Duration::from_millis(39)));
        assert!(deadline("0ms").is_err() && deadline("61s").is_err() && deadline("39").is_err());
    }
}
