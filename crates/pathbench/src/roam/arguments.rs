//! `pathbench roam` as clap reads it.

use crate::client::{AccessArgs, FamilyArgs};
use crate::report::PresentationArgs;
use clap::Args;
use pathbench_record::transport::Transport;
use pathbench_record::units::Span;
use std::path::PathBuf;

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
