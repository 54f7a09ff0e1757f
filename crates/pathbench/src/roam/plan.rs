//! What is to be run, validated before anything is sent.

use crate::client::{self, AccessArgs, FamilyArgs, TRANSPORTS};
use crate::report::PresentationArgs;
use clap::Args;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::connection::Scheduler;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters};
use pathbench_record::transport::Transport;
use pathbench_record::units::Span;
use std::path::PathBuf;
use std::time::Duration;

/// What runs where nothing else is asked for: what the comparison is about.
const DEFAULT: [Transport; 2] = [Transport::Mptcp, Transport::Mpquic];
/// Durations to ask for, from the longest that a test can have down, where the user names none: servers have limits.
const OPEN_END: [Duration; 7] = [
    Duration::from_secs(3590),
    Duration::from_secs(1790),
    Duration::from_secs(890),
    Duration::from_secs(590),
    Duration::from_secs(290),
    Duration::from_secs(110),
    Duration::from_secs(50),
];

/// A walk as asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoamPlan {
    /// Those to try, without repetition.
    pub(super) transports: Vec<Transport>,
    /// Whether the user named them.
    pub(super) named: bool,
    pub(super) scheduler: Scheduler,
    /// Interfaces that are spares.
    pub(super) backups: Vec<String>,
    /// Durations to ask the server for, until one is granted.
    pub(super) durations: Vec<Duration>,
    /// Whether the user set the duration.
    pub(super) timed: bool,
    pub(super) patience: Duration,
}

impl RoamPlan {
    /// Reads the arguments; all mistakes at once, each with what would be right.
    pub(super) fn of(args: &RoamArgs) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        let named = !args.transports.is_empty();
        let wanted = |transport: &Transport| {
            if named { args.transports.contains(transport) } else { DEFAULT.contains(transport) }
        };
        let name = match &args.paths.scheduler {
            Some(name) => name.as_str(),
            None if args.paths.backups.is_empty() => "lowest-rtt",
            None => "backup",
        };
        let scheduler = client::scheduler(name).unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            Scheduler::default()
        });
        for (option, given) in [("--path", &args.paths.interfaces), ("--backup", &args.paths.backups)] {
            for (index, path) in given.iter().enumerate() {
                if given[..index].contains(path) {
                    mistakes.push(format!("{option} {path} is given twice"));
                }
            }
        }
        let durations = match args.end.duration {
            Some(duration) => vec![duration.0],
            None => OPEN_END.to_vec(),
        };
        if let Some(&longest) = durations.first()
            && let Err(wrong) = interactive(longest).validate()
        {
            mistakes.extend(wrong.iter().map(|wrong| format!("--duration: {wrong}")));
        }
        if args.end.patience.0 < Duration::from_secs(1) {
            mistakes
                .push("--patience is at least 1s: networks take longer than that to come back".to_owned());
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self {
            transports: TRANSPORTS.into_iter().filter(wanted).collect(),
            named,
            scheduler,
            backups: args.paths.backups.clone(),
            durations,
            timed: args.end.duration.is_some(),
            patience: args.end.patience.0,
        })
    }

    /// Whether the user asked for this transport by name.
    pub(super) fn asks_for(&self, transport: Transport) -> bool {
        self.named && self.transports.contains(&transport)
    }

    /// The ways in the order in which `transport` is to take them, spares last. `spares` tells those of mptcp, for that
    /// is the kernel's to know.
    pub(super) fn ways_of(
        &self,
        transport: Transport,
        ways: &[ClientPath],
        spares: &[std::net::IpAddr],
    ) -> Vec<ClientPath> {
        let asked = |way: &ClientPath| self.backups.contains(&way.interface);
        let is_spare = |way: &ClientPath| match transport {
            Transport::Mptcp => way.addresses.iter().any(|at| spares.contains(at)),
            _ => asked(way),
        };
        let mut ways: Vec<ClientPath> = ways
            .iter()
            .map(|way| ClientPath { backup: transport.is_multipath().then(|| is_spare(way)), ..way.clone() })
            .collect();
        // A stable sort keeps the order of the others.
        ways.sort_by_key(|way| asked(way));
        ways
    }
}

/// `MultipathTester`'s stream test for that long.
pub(super) fn interactive(duration: Duration) -> PatternParameters {
    PatternParameters::Interactive(InteractiveParameters { duration, ..InteractiveParameters::default() })
}

/// Which server, over what, how long, and where the result goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct RoamArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER")]
    pub(super) server: String,
    /// Port of the server, TCP and UDP
    #[arg(long, value_name = "N", default_value_t = 4433, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    /// Transports that run at the same time: tcp, mptcp, quic, mpquic [default: mptcp,mpquic]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) transports: Vec<Transport>,
    #[command(flatten)]
    pub(super) paths: PathArgs,
    #[command(flatten)]
    pub(super) end: EndArgs,
    /// Seed of the order in which the transports start [default: a random one, which the result names]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    /// Directory of the result, new or empty [default: roam-DATE in `$PATHBENCH_OUT`, else in pathbench-results]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) presentation: PresentationArgs,
    /// No live view and no progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// The ways to the server.
#[derive(Debug, Clone, Args)]
pub(crate) struct PathArgs {
    /// An interface to use, the preferred one first (repeatable) [default: all that have a route to the server]
    #[arg(long = "path", value_name = "IFACE")]
    pub(super) interfaces: Vec<String>,
    /// An interface that is to carry data only while no other does well (repeatable)
    #[arg(long = "backup", value_name = "IFACE")]
    pub(super) backups: Vec<String>,
    /// mpquic: which path data takes: lowest-rtt, round-robin, weighted, backup [default: lowest-rtt; backup with
    /// --backup]
    #[arg(long, value_name = "NAME")]
    pub(super) scheduler: Option<String>,
    /// The Wi-Fi interface [default: what the kernel says]
    #[arg(long, value_name = "IFACE")]
    pub(super) wifi: Option<String>,
}

/// When it ends: when the user stops it (Ctrl-C), at the latest after the longest time that the server allows.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndArgs {
    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub(super) duration: Option<Span>,
    /// End when this Wi-Fi interface has lost its network or joined another one; `auto` is the only one there is
    #[arg(long, value_name = "IFACE|auto")]
    pub(super) until_gone: Option<String>,
    /// How long it has to be gone for that
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "until_gone")]
    pub(super) gone_for: Span,
    /// A transport on which nothing was heard for this long has broken; quic and mpquic break after 30s at the latest
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(super) patience: Span,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        roam: RoamArgs,
    }

    fn plan(arguments: &[&str]) -> Result<RoamPlan, Vec<String>> {
        RoamPlan::of(&Line::try_parse_from([&["roam", "server"], arguments].concat()).unwrap().roam)
    }

    fn way(name: &str, host: u8) -> ClientPath {
        ClientPath {
            name: name.to_owned(),
            interface: name.to_owned(),
            addresses: vec![[192, 0, 2, host].into()],
            backup: None,
            mtu_bytes: None,
        }
    }

    #[test]
    fn without_wishes_both_multipath_transports_run_until_stopped() {
        let plan = plan(&[]).unwrap();
        assert_eq!(plan.transports, DEFAULT);
        assert_eq!(plan.scheduler, Scheduler::LowestRtt);
        assert!(!plan.timed && !plan.asks_for(Transport::Mptcp));
        assert!(plan.durations.is_sorted_by(|a, b| a > b));
        // Every one of them is a test that can be run.
        assert!(plan.durations.iter().all(|duration| interactive(*duration).validate().is_ok()));
    }

    #[test]
    fn a_spare_comes_last_and_brings_its_scheduler() {
        let plan = plan(&["--backup", "lte", "--transports", "mpquic,tcp,mptcp"]).unwrap();
        assert_eq!(plan.transports, [Transport::Tcp, Transport::Mptcp, Transport::Mpquic]);
        assert_eq!(plan.scheduler, Scheduler::backup());
        let ways = [way("lte", 1), way("wlan", 2)];
        let told = |transport, spares: &[std::net::IpAddr]| -> Vec<(String, Option<bool>)> {
            let ways = plan.ways_of(transport, &ways, spares);
            ways.into_iter().map(|way| (way.name, way.backup)).collect()
        };
        let named = |wlan, lte| vec![("wlan".to_owned(), wlan), ("lte".to_owned(), lte)];
        assert_eq!(told(Transport::Mpquic, &[]), named(Some(false), Some(true)));
        assert_eq!(told(Transport::Tcp, &[]), named(None, None));
        // Whether mptcp spares it is not for the command line to say.
        assert_eq!(told(Transport::Mptcp, &[]), named(Some(false), Some(false)));
        assert_eq!(told(Transport::Mptcp, &[[192, 0, 2, 1].into()]), named(Some(false), Some(true)));
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let wrong = [
            "--scheduler",
            "best",
            "--backup",
            "lte",
            "--backup",
            "lte",
            "--duration",
            "120m",
            "--patience",
            "100ms",
        ];
        let mistakes = plan(&wrong).unwrap_err();
        for words in ["`best` is not", "lte is given twice", "--duration: 72000 messages", "at least 1s"] {
            assert!(mistakes.iter().any(|mistake| mistake.contains(words)), "{words}: {mistakes:?}");
        }
    }
}
