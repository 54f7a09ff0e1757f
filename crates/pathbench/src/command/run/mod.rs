//! `pathbench run`: a program with its TCP sockets created as MPTCP, and the proof per connection.

mod arguments;
mod collector;
mod document;
pub(crate) mod keeper;
mod live;
pub(crate) mod process;
mod program;
mod summary;
mod tree;

pub(crate) use arguments::ProgramArgs;

use pathbench_host::kernel::{MptcpSupport, mptcp_support};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::time::SharedClock;

pub(crate) fn run(args: &ProgramArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    if let Some(process) = args.pid {
        return process::show(process, args.json);
    }
    match mptcp_support() {
        MptcpSupport::Available => {}
        unable => return Err(Failure::host_cannot(format!("cannot create MPTCP sockets: {unable}"))),
    }
    if args.reports_nothing() {
        return Err(program::become_program(args)?);
    }
    let code = program::supervise(args, clock)?;
    output::check_open()?;
    // The program's exit code, unchanged.
    std::process::exit(code);
}
