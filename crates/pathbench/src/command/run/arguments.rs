//! The command line of `run`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ProgramArgs {
    /// Transport of the program's TCP sockets
    #[arg(long, value_name = "NAME", default_value = "mptcp", value_parser = PossibleValuesParser::new(["mptcp"]))]
    pub(super) transport: String,
    /// Print a line on stderr for each connection that opens, transfers or ends
    #[arg(long)]
    pub(super) watch: bool,
    /// Print one JSON document on stdout instead of the summary on stderr; the program's standard output goes to stderr
    #[arg(long)]
    pub(super) json: bool,
    /// New or empty directory for run.json and connections.jsonl
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Refuse `io_uring_setup` (ENOSYS), so that the program creates its sockets by socket(2)
    #[arg(long)]
    pub(super) no_io_uring: bool,
    /// No summary on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Show which TCP sockets of a running process are MPTCP, and the ways to make them so, instead of running a program
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "watch", "out", "no_io_uring"])]
    pub(super) pid: Option<u32>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "pid")]
    pub(super) command: Vec<OsString>,
}

impl ProgramArgs {
    /// Whether nothing is reported about the program.
    pub(super) const fn reports_nothing(&self) -> bool {
        self.quiet && !self.json && !self.watch && self.out.is_none()
    }
}
