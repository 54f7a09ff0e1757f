//! `pathbench run`: a program with its TCP sockets created as MPTCP, and the proof per connection.

mod document;
mod live;
pub(crate) mod process;
mod program;
mod summary;
mod tree;

use clap::Args;
use clap::builder::PossibleValuesParser;
use pathbench_host::kernel::{MptcpSupport, mptcp_support};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::time::SharedClock;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ProgramArgs {
    /// Transport of the program's TCP sockets
    #[arg(long, value_name = "NAME", default_value = "mptcp", value_parser = PossibleValuesParser::new(["mptcp"]))]
    transport: String,
    /// Print a line on stderr for each connection that opens, transfers or ends
    #[arg(long)]
    watch: bool,
    /// Print one JSON document on stdout instead of the summary on stderr; the program's standard output goes to stderr
    #[arg(long)]
    json: bool,
    /// New or empty directory for run.json and connections.jsonl
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Refuse `io_uring_setup` (ENOSYS), so that the program creates its sockets by socket(2)
    #[arg(long)]
    no_io_uring: bool,
    /// No summary on stderr
    #[arg(long, short)]
    quiet: bool,
    /// Show which TCP sockets of a running process are MPTCP, and the ways to make them so, instead of running a program
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "watch", "out", "no_io_uring"])]
    pid: Option<u32>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "pid")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &ProgramArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    if let Some(process) = args.pid {
        return process::show(process, args.json);
    }
    match mptcp_support() {
        MptcpSupport::Available => {}
        unable => return Err(Failure::host_cannot(format!("cannot create MPTCP sockets: {unable}"))),
    }
    let code = program::supervise(args, clock)?;
    output::check_open()?;
    // The program's exit code, unchanged.
    std::process::exit(code);
}
