//! The process of a lab host: its agent, on the socket that is its standard input.

use crate::clock::MonotonicClock;
use crate::exit::{Exit, Failure};
use crate::signals;
use pathbench_record::time::Clock;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

pub(crate) fn serve() -> Result<Exit, Failure> {
    // Ctrl-C reaches the whole process group; the orchestrator decides what becomes of the agents.
    signals::ignore_interrupts();
    let channel = std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    pathbench_lab::agent::serve(&UnixStream::from(channel), &clock).map_err(Failure::failed)?;
    Ok(Exit::Done)
}
