//! `pathbench test` as clap reads it.

use crate::client::{AccessArgs, FamilyArgs};
use crate::report::PresentationArgs;
use clap::Args;
use pathbench_record::transport::Transport;
use pathbench_record::units::{Size, Span};
use std::path::PathBuf;

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
