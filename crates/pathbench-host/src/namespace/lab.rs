//! Entering a lab's namespaces: as the process that makes them, and as a guest.

use super::refusal::{Circumstances, IsolationStep, Refusal};
use super::unshare;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// How a lab is kept apart from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// New user, network and PID namespaces: needs no privilege where the host allows user namespaces.
    User,
    /// New network and PID namespaces only: needs root.
    Root,
}

impl Isolation {
    /// [`Isolation::Root`] for root, who needs no user namespace; [`Isolation::User`] for everybody else.
    pub fn for_this_user() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::User }
    }
}

/// The kernel refused a lab's namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {step}: {errno}: {refusal}")]
pub struct IsolationError {
    pub step: IsolationStep,
    pub errno: Errno,
    /// The reason, as far as this host's settings tell; its text names the remedy.
    pub refusal: Refusal,
}

/// Moves a single-threaded process into new namespaces of its own. With [`Isolation::User`] it is root in
/// them, and its user outside is the only one that exists inside. The process itself stays in its PID
/// namespace; its first child becomes the new one's PID 1, whose end ends everything in it.
/// Errors: The process may then be in some of the namespaces; it should say why and exit.
pub fn enter_lab(isolation: Isolation) -> Result<(), IsolationError> {
    // The settings have to be read before: inside, /proc/sys/user shows the new namespace's own.
    let circumstances = Circumstances::read();
    isolate(isolation).map_err(|(step, errno)| IsolationError {
        step,
        errno,
        refusal: circumstances.explain(step, errno, isolation == Isolation::User),
    })
}

/// Only system calls on prepared data, so that it can also run between `fork` and `exec`.
fn isolate(isolation: Isolation) -> Result<(), (IsolationStep, Errno)> {
    if isolation == Isolation::User {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        unshare(UnshareFlags::NEWUSER).map_err(|errno| (IsolationStep::UserNamespace, errno))?;
        let map = || {
            // Groups must be given up before an unprivileged process may map its own (user_namespaces(7)).
            write_whole(c"/proc/self/setgroups", format_args!("deny"))?;
            write_whole(c"/proc/self/uid_map", format_args!("0 {} 1", user.as_raw()))?;
            write_whole(c"/proc/self/gid_map", format_args!("0 {} 1", group.as_raw()))
        };
        map().map_err(|errno| (IsolationStep::IdMaps, errno))?;
    }
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWPID)
        .map_err(|errno| (IsolationStep::NetworkAndPid, errno))
}

fn write_whole(path: &std::ffi::CStr, text: std::fmt::Arguments<'_>) -> Result<(), Errno> {
    let mut buffer = [0u8; 64];
    let mut free = buffer.as_mut_slice();
    free.write_fmt(text).map_err(|_| Errno::OVERFLOW)?;
    let unused = free.len();
    let used = buffer.len() - unused;
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, buffer.get(..used).unwrap_or_default()).map(drop)
}

pub(crate) fn try_user_namespace() -> Result<(), IsolationError> {
    /// Stands for "everything worked" on the way back from the child.
    const WORKED: i32 = 1 << 16;
    const STEP: i32 = 1 << 12;
    const STEPS: [IsolationStep; 3] =
        [IsolationStep::UserNamespace, IsolationStep::IdMaps, IsolationStep::NetworkAndPid];

    let mut command = Command::new("/proc/self/exe");
    // The hook never lets the child come to exec: what it found out travels back as the error of the spawn.
    let hook = || {
        let code = match isolate(Isolation::User) {
            Ok(()) => WORKED,
            Err((step, errno)) => {
                let place = STEPS.iter().position(|other| *other == step).unwrap_or_default();
                errno.raw_os_error() + STEP * place as i32
            }
        };
        Err(std::io::Error::from_raw_os_error(code))
    };
    // SAFETY: the hook makes system calls on stack data only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(hook) };
    let code = match command.spawn() {
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        // Cannot be: the hook always fails. The child would run this program; end it.
        Ok(mut child) => {
            let _ = child.kill();
            let _ = child.wait();
            libc::EIO
        }
    };
    if code == WORKED {
        return Ok(());
    }
    let errno = Errno::from_io_error(&std::io::Error::from_raw_os_error(code % STEP)).unwrap_or(Errno::IO);
    let step = STEPS.get((code / STEP) as usize).copied().unwrap_or(IsolationStep::UserNamespace);
    // The child was single-threaded, whatever this process is.
    let circumstances = Circumstances { threads: Some(1), ..Circumstances::read() };
    Err(IsolationError { step, errno, refusal: circumstances.explain(step, errno, true) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot enter the lab's {namespace} namespace: {errno}; only the user who started the lab, or root, can"
)]
pub struct JoinError {
    /// `user`, `network` or `PID`.
    pub namespace: &'static str,
    /// What `setns(2)` said.
    pub errno: Errno,
}

/// Moves a single-threaded process into the namespaces of a running lab: the user namespace first, where the
/// lab has one of its own, for that gives the right to enter the others. The process itself stays in its PID
/// namespace; its next child is inside.
/// Errors: the process may then be in some of them.
pub fn join(user: Option<BorrowedFd<'_>>, pid: BorrowedFd<'_>, net: BorrowedFd<'_>) -> Result<(), JoinError> {
    let enter = |fd, kind, namespace| {
        rustix::thread::move_into_link_name_space(fd, Some(kind))
            .map_err(|errno| JoinError { namespace, errno })
    };
    if let Some(user) = user {
        enter(user, LinkNameSpaceType::User, "user")?;
    }
    enter(net, LinkNameSpaceType::Network, "network")?;
    enter(pid, LinkNameSpaceType::ProcessID, "PID")
}

/// Has the kernel kill the calling process when the thread that started it ends (`PR_SET_PDEATHSIG`). It
/// does not last over a change of user; a parent that is gone already goes unnoticed.
pub fn set_parent_death_signal_kill() -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
}
