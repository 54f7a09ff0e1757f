//! `pathbench mtu` as clap reads it.

use crate::client::FamilyArgs;
use clap::Args;
use pathbench_record::units::Span;
use std::path::PathBuf;

/// Which server, by which paths, and what to do about what is found.
#[derive(Debug, Clone, Args)]
pub(crate) struct MtuArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER", required_unless_present = "undo")]
    pub(super) server: Option<String>,
    /// UDP port of the server, the one at which it serves QUIC
    #[arg(long, value_name = "N", default_value_t = 4433, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// What the server's operator gave you, where the server asks for it
    #[arg(long, value_name = "T", env = "PATHBENCH_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// An interface to probe by (repeatable) [default: all that have a route to the server]
    #[arg(long = "path", value_name = "IFACE")]
    pub(super) paths: Vec<String>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    #[command(flatten)]
    pub(super) remedy: RemedyArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// What to do about a kernel that is wrong.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct RemedyArgs {
    /// Put the kernel right: the route's MTU, and connections that are stuck (takes root, or `CAP_NET_ADMIN`)
    #[arg(long, conflicts_with_all = ["print", "undo"])]
    pub(super) apply: bool,
    /// Print nothing but the commands that would put the kernel right, each with the one that takes it back
    #[arg(long, conflicts_with_all = ["undo", "json", "watch"])]
    pub(super) print: bool,
    /// Take back all that `--apply` did since the last `--undo`, by the journal; no server is needed
    #[arg(long, conflicts_with_all = ["server", "json", "watch", "paths"])]
    pub(super) undo: bool,
    /// Take back also what somebody else has changed since
    #[arg(long, requires = "undo", conflicts_with = "server")]
    pub(super) force: bool,
    /// Where the changes are written down before they are made [default: mtu-journal-NAMESPACE.jsonl in
    /// /run/pathbench for root, in the user's runtime directory for others]
    #[arg(long, value_name = "FILE")]
    pub(super) journal: Option<PathBuf>,
}

/// How long to keep looking.
#[derive(Debug, Clone, Args)]
pub(crate) struct WatchArgs {
    /// Go on probing and tell every change, up or down; with `--apply`, follow it. Ends with Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// From one look at a path to its next
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub(super) interval: Span,
    /// End the watch after this time
    #[arg(long, value_name = "TIME", requires = "watch")]
    pub(super) time: Option<Span>,
    /// Take back what was applied when the watch ends [default: it stays, until `pathbench mtu --undo`]
    #[arg(long, requires_all = ["watch", "apply"])]
    pub(super) undo_at_end: bool,
}

/// What is shown, and where.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Directory of the result, new or empty, for `pathbench report` [default: mtu-DATE in `$PATHBENCH_OUT`, else none]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    pub(super) json: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}
