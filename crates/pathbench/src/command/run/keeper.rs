//! The process in the background that answers a program's calls when `pathbench run` has become the program, or has ended
//! before processes that the program left in the background. It reports nothing, and ends with the last of them.

use pathbench_host::process::close_inherited_descriptors;
use pathbench_host::seccomp::take_listener;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{signals, supervised};
use pathbench_record::time::SharedClock;
use pathbench_supervisor::{Answering, SocketActivity};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The word of such a process on its command line.
pub(crate) const COMMAND: &str = "__answer";
const DETACHED: &str = "detached";
const CONFINED: &str = "confined";

/// Starts a keeper, which is no child of this process, for the tree whose first process is `root` (0: it has ended). The
/// listener is sent over the returned socket. After `is_confined`, new sockets stay on TCP.
pub(super) fn start(root: u32, is_confined: bool) -> io::Result<OwnedFd> {
    let (own, keepers) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let confined = if is_confined { CONFINED } else { "" };
    // It starts the keeper and ends.
    let status = command(&["", &root.to_string(), confined], keepers).status()?;
    if status.success() { Ok(own) } else { Err(io::Error::other(format!("the keeper ended: {status}"))) }
}

fn command(arguments: &[&str], socket: OwnedFd) -> Command {
    let mut command = Command::new(supervised::THIS_PROGRAM);
    command.arg(COMMAND).args(arguments);
    command.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs this process as a keeper, or as the one that starts it.
pub(crate) fn keep(_clock: &SharedClock) -> Result<Exit, Failure> {
    close_inherited_descriptors();
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [stage, root, confined] = arguments.as_slice() else { return Ok(Exit::BadInput) };
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    if stage != DETACHED {
        command(&[DETACHED, root, confined], socket).spawn().map_err(Failure::failed)?;
        return Ok(Exit::Done);
    }
    // A service manager sends its signals to all processes of a service; without this one the others lose their sockets.
    signals::ignore_all();
    let _leader_already = rustix::process::setsid();
    let _unreadable = std::env::set_current_dir("/");
    let listener = take_listener(&socket).map_err(Failure::failed)?;
    drop(socket);
    let Some(listener) = listener else { return Ok(Exit::Done) };
    let mut activity = SocketActivity::default();
    if confined == CONFINED {
        activity.doubt_all();
    }
    let activity = Mutex::new(activity);
    let answered = Answering::new(&listener, &activity, root.parse().unwrap_or_default()).run(None);
    answered.map(|()| Exit::Done).map_err(Failure::failed)
}
