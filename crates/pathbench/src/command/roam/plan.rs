//! The arguments of `roam`, and the resulting plan.

use crate::arguments::{
    OutputArguments, TestServerArguments, TransportChoice, find_repeated, scheduler_parser, transport_parser,
};
use crate::client::TestClient;
use crate::client::discovery::Reached;
use clap::Args;
use pathbench_agent::submit::SubmitOptions;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::connection::Scheduler;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters};
use pathbench_record::transport::Transport;
use pathbench_record::units::Span;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The transports that run if the user names none.
const DEFAULT: [Transport; 2] = [Transport::Mptcp, Transport::Mpquic];
/// Durations to request if the user sets none, starting with the longest possible test: servers have limits.
const OPEN_END: [Duration; 7] = [
    Duration::from_secs(3590),
    Duration::from_secs(1790),
    Duration::from_secs(890),
    Duration::from_secs(590),
    Duration::from_secs(290),
    Duration::from_secs(110),
    Duration::from_secs(50),
];
/// Interval between messages of the interactive pattern.
pub(super) const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Args)]
pub(crate) struct RoamArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER")]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) server: TestServerArguments,
    /// Transports that run at the same time [default: mptcp,mpquic]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = transport_parser())]
    pub(super) transports: Vec<Transport>,
    /// Interface of a backup path, which carries data only while no other path works well (repeatable)
    #[arg(long = "backup", value_name = "IFACE")]
    pub(super) backups: Vec<String>,
    /// mpquic: the scheduler, which decides on which path data is sent [default: lowest-rtt; backup with --backup]
    #[arg(long, value_name = "NAME", value_parser = scheduler_parser())]
    pub(super) scheduler: Option<Scheduler>,
    /// The Wi-Fi interface [default: the one that the kernel reports]
    #[arg(long, value_name = "IFACE")]
    pub(super) wifi: Option<String>,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub(super) duration: Option<Span>,
    /// End when this Wi-Fi interface has lost its network or joined another one; `auto`: the only Wi-Fi interface
    #[arg(long, value_name = "IFACE|auto")]
    pub(super) until_gone: Option<String>,
    /// How long it has to be lost for that
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "until_gone")]
    pub(super) gone_for: Span,
    /// End a transport that receives nothing for this long; quic and mpquic end after 30s at the latest
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(super) patience: Span,
    /// Seed of the order in which the transports start [default: a random one, which the result names]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Write the measured lines as a scenario into this new file, which `pathbench lab run` runs
    #[arg(long, value_name = "FILE.toml")]
    pub(super) record: Option<PathBuf>,
    /// Show the measurement on the terminal: rates of the paths, delays, events, runs; `?` lists the keys
    #[arg(long, conflicts_with = "json_stream")]
    pub(super) tui: bool,
    #[command(flatten)]
    pub(super) submit: SubmitOptions,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoamPlan {
    pub(super) choice: TransportChoice,
    pub(super) scheduler: Scheduler,
    /// Interfaces of backup paths.
    pub(super) backups: Vec<String>,
    /// Durations to request, one after the other, until the server grants one.
    pub(super) durations: Vec<Duration>,
    /// Whether the user set the duration.
    pub(super) timed: bool,
    pub(super) patience: Duration,
}

impl RoamPlan {
    /// Returns the plan, or all mistakes in the arguments, each with its remedy.
    pub(super) fn new(args: &RoamArgs) -> Result<Self, Vec<String>> {
        let mut mistakes = find_repeated("--backup", &args.backups);
        let default = if args.backups.is_empty() { Scheduler::LowestRtt } else { Scheduler::backup() };
        let durations = args.duration.map_or_else(|| OPEN_END.to_vec(), |duration| vec![duration.0]);
        if let Some(&longest) = durations.first()
            && let Err(wrong) = interactive(longest).validate()
        {
            mistakes.extend(wrong.iter().map(|wrong| format!("--duration: {wrong}")));
        }
        if args.patience.0 < Duration::from_secs(1) {
            mistakes.push("--patience is at least 1s: a handover takes longer than that".to_owned());
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self {
            choice: TransportChoice::new(&args.transports, &DEFAULT),
            scheduler: args.scheduler.clone().unwrap_or(default),
            backups: args.backups.clone(),
            durations,
            timed: args.duration.is_some(),
            patience: args.patience.0,
        })
    }

    /// The paths in the order in which `transport` uses them, backup paths last. For mptcp, the kernel's endpoints
    /// determine which paths are backup paths (`kernel_backups`).
    pub(super) fn paths_of(
        &self,
        transport: Transport,
        paths: &[ClientPath],
        kernel_backups: &[std::net::IpAddr],
    ) -> Vec<ClientPath> {
        let named = |path: &ClientPath| self.backups.contains(&path.interface);
        let is_backup = |path: &ClientPath| match transport {
            Transport::Mptcp => path.addresses.iter().any(|at| kernel_backups.contains(at)),
            _ => named(path),
        };
        let mut paths = paths.to_vec();
        for path in &mut paths {
            path.backup = transport.is_multipath().then(|| is_backup(path));
        }
        // A stable sort keeps the order of the other paths.
        paths.sort_by_key(|path| named(path));
        paths
    }
}

pub(super) struct Roam<'a> {
    pub(super) client: &'a TestClient,
    pub(super) plan: &'a RoamPlan,
    pub(super) reached: &'a Reached,
    /// The transports in the order of their start, each with its paths.
    pub(super) tests: Vec<(Transport, Vec<ClientPath>)>,
    /// The Wi-Fi interface whose loss ends the tests, and how long the loss must last.
    pub(super) until_gone: Option<(String, Duration)>,
    pub(super) stop: Arc<AtomicBool>,
}

/// `MultipathTester`'s stream test with this duration.
pub(super) fn interactive(duration: Duration) -> PatternParameters {
    PatternParameters::Interactive(InteractiveParameters { duration, ..InteractiveParameters::default() })
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
        RoamPlan::new(&Line::try_parse_from([&["roam", "server"], arguments].concat()).unwrap().roam)
    }

    fn path(name: &str, host: u8) -> ClientPath {
        ClientPath {
            name: name.to_owned(),
            interface: name.to_owned(),
            addresses: vec![[192, 0, 2, host].into()],
            backup: None,
            mtu_bytes: None,
        }
    }

    #[test]
    fn without_options_both_multipath_transports_run_until_stopped() {
        let plan = plan(&[]).unwrap();
        assert_eq!(plan.choice.transports, DEFAULT);
        assert_eq!(plan.scheduler, Scheduler::LowestRtt);
        assert!(!plan.timed && !plan.choice.names(Transport::Mptcp));
        assert!(plan.durations.is_sorted_by(|a, b| a > b));
        // Each duration gives a valid test.
        assert!(plan.durations.iter().all(|duration| interactive(*duration).validate().is_ok()));
    }

    #[test]
    fn a_backup_path_comes_last_and_brings_its_scheduler() {
        let plan = plan(&["--backup", "lte", "--transports", "mpquic,tcp,mptcp"]).unwrap();
        assert_eq!(plan.choice.transports, [Transport::Tcp, Transport::Mptcp, Transport::Mpquic]);
        assert_eq!(plan.scheduler, Scheduler::backup());
        let paths = [path("lte", 1), path("wlan", 2)];
        let of = |transport, backups: &[std::net::IpAddr]| -> Vec<(String, Option<bool>)> {
            let paths = plan.paths_of(transport, &paths, backups);
            paths.into_iter().map(|path| (path.name, path.backup)).collect()
        };
        let named = |wlan, lte| vec![("wlan".to_owned(), wlan), ("lte".to_owned(), lte)];
        assert_eq!(of(Transport::Mpquic, &[]), named(Some(false), Some(true)));
        assert_eq!(of(Transport::Tcp, &[]), named(None, None));
        // For mptcp the kernel's endpoints decide, not the command line.
        assert_eq!(of(Transport::Mptcp, &[]), named(Some(false), Some(false)));
        assert_eq!(of(Transport::Mptcp, &[[192, 0, 2, 1].into()]), named(Some(false), Some(true)));
    }
}
