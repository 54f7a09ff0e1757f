//! Starts a program behind a filter, which is installed between fork and exec.

#![allow(
    unsafe_code,
    reason = "seccomp(2) has no wrapper, and a child process runs code before it executes the program"
)]

use super::filter::{FilterPlan, SeccompFilter};
use super::listener::{SeccompListener, notifications_fit};
use crate::kernel;
use crate::syscall::outcome;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// `SECCOMP_ADDFD_FLAG_SEND` came with this kernel.
const OLDEST: (u32, u32) = (5, 14);

#[derive(Debug, thiserror::Error)]
pub enum ProgramStartError {
    #[error(
        "seccomp user notification is supported on x86_64 and aarch64 only, and this processor is {machine}"
    )]
    Architecture { machine: String },
    #[error(
        "seccomp user notification with injected sockets requires Linux 5.14, and this kernel is {release}"
    )]
    Kernel { release: String },
    #[error("this kernel has no seccomp user notification: {errno}; it requires CONFIG_SECCOMP_FILTER")]
    NotBuilt { errno: Errno },
    /// Another filter with a listener is in force already: an outer `run`, or a container runtime.
    #[error(
        "another supervisor already receives the seccomp notifications of this process (EBUSY), and the kernel permits \
         one: run the command outside of that sandbox or container"
    )]
    Busy,
    #[error(
        "this process may not install a seccomp filter: {step}: {errno}; a container or sandbox forbids it: run the \
         command outside, or permit the calls `seccomp` and `prctl` (container: --security-opt seccomp=unconfined)"
    )]
    Forbidden { step: &'static str, errno: Errno },
    #[error("{0}")]
    Program(io::Error),
    #[error("cannot receive the seccomp listener: {0}")]
    Transfer(io::Error),
}

impl ProgramStartError {
    /// Whether this host lacks the feature or forbids it.
    pub const fn is_host_unable(&self) -> bool {
        !matches!(self, Self::Program(_) | Self::Transfer(_))
    }
}

/// The steps in the child, and their number in the message to the parent.
const STEPS: [&str; 3] = ["prctl(PR_SET_NO_NEW_PRIVS)", "seccomp(SECCOMP_SET_MODE_FILTER)", "sendmsg"];
const INSTALLED: u8 = u8::MAX;
/// The step, and the error number.
const MESSAGE_BYTES: usize = 5;

/// Starts `command` behind a filter, which all descendants inherit. `no_new_privs` is set, so that setuid programs run
/// without their privileges.
pub fn start(
    mut command: Command,
    plan: FilterPlan<'_>,
) -> Result<(Child, SeccompListener), ProgramStartError> {
    let filter = filter(plan)?;
    let (own, childs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|errno| ProgramStartError::Transfer(errno.into()))?;
    let install = move || {
        let installed = install(&filter);
        let (step, errno) = match &installed {
            Ok(_) => (INSTALLED, 0),
            Err((step, errno)) => (*step, errno.raw_os_error()),
        };
        send(&childs, step, errno, installed.as_ref().ok().map(OwnedFd::as_fd))?;
        installed.map(drop).map_err(|(_, errno)| io::Error::from(errno))
    };
    // SAFETY: between fork and exec the closure only makes system calls: it neither allocates nor takes a lock.
    unsafe { command.pre_exec(install) };
    let started = command.spawn();
    // Closes the child's end, so that the answer is there or never comes.
    drop(command);
    match (started, receive(&own, RecvFlags::DONTWAIT)) {
        (Ok(child), Ok(Ok(listener))) => Ok((child, SeccompListener::new(listener))),
        (Err(error), Ok(Ok(_)) | Err(_)) => Err(ProgramStartError::Program(error)),
        (_, Ok(Err(refused))) => Err(refused),
        (Ok(mut child), Err(error)) => {
            let _dead = child.kill();
            let _reaped = child.wait();
            Err(ProgramStartError::Transfer(error))
        }
    }
}

/// Installs the filter in this process, which then executes a program, and passes its listener to the process at the other
/// end of `keeper`, which must call [`take_listener`].
pub fn confine_self(plan: FilterPlan<'_>, keeper: &OwnedFd) -> Result<(), ProgramStartError> {
    let filter = filter(plan)?;
    let listener = install(&filter).map_err(|(step, errno)| refusal(step, errno.raw_os_error()))?;
    hand_over(&listener, keeper).map_err(ProgramStartError::Transfer)
}

/// Passes a listener to the process at the other end of `keeper`, and waits until it has the listener.
pub fn pass_listener(listener: &SeccompListener, keeper: &OwnedFd) -> io::Result<()> {
    hand_over(listener.as_fd(), keeper)
}

fn hand_over(listener: impl AsFd, keeper: &OwnedFd) -> io::Result<()> {
    send(keeper, INSTALLED, 0, Some(listener.as_fd()))?;
    let mut taken = [0; 1];
    match rustix::io::retry_on_intr(|| rustix::io::read(keeper, &mut taken))? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The listener that [`confine_self`] or [`pass_listener`] passes; `None` if the other end has none.
pub fn take_listener(from: &OwnedFd) -> io::Result<Option<SeccompListener>> {
    let listener = match receive(from, RecvFlags::empty()) {
        Ok(Ok(listener)) => listener,
        Ok(Err(_)) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    rustix::io::write(from, &[1])?;
    Ok(Some(SeccompListener::new(listener)))
}

/// The filter, if this kernel and processor support its notifications.
fn filter(plan: FilterPlan<'_>) -> Result<SeccompFilter, ProgramStartError> {
    let filter = SeccompFilter::new(plan).ok_or_else(|| ProgramStartError::Architecture {
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
    })?;
    let release = kernel::release();
    if !release.is_at_least(OLDEST.0, OLDEST.1) {
        return Err(ProgramStartError::Kernel { release: release.text });
    }
    match notifications_fit() {
        Ok(true) => Ok(filter),
        Ok(false) => Err(ProgramStartError::NotBuilt { errno: Errno::TOOBIG }),
        Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
            Err(ProgramStartError::Forbidden { step: "seccomp(SECCOMP_GET_NOTIF_SIZES)", errno })
        }
        Err(errno) => Err(ProgramStartError::NotBuilt { errno }),
    }
}

/// Installs the filter in this process; the step that failed, and the error.
fn install(filter: &SeccompFilter) -> Result<OwnedFd, (u8, Errno)> {
    rustix::thread::set_no_new_privs(true).map_err(|errno| (0, errno))?;
    let program =
        libc::sock_fprog { len: filter.0.len() as libc::c_ushort, filter: filter.0.as_ptr().cast_mut() };
    // After the supervisor has received a notification, only SIGKILL interrupts the call (Linux 5.19): signals restart
    // the calls of a Go program all the time otherwise.
    let killable = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let refused = match install_with(&program, killable) {
        Err(Errno::INVAL) => install_with(&program, 0),
        other => other,
    };
    refused.map_err(|errno| (1, errno))
}

fn install_with(program: &libc::sock_fprog, flags: libc::c_ulong) -> Result<OwnedFd, Errno> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | flags;
    let program: *const libc::sock_fprog = program;
    // SAFETY: the kernel reads the program, which `filter` owns and which outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, program) };
    outcome(answer as libc::c_int)?;
    // SAFETY: the kernel returned a new descriptor, which nothing else owns; it closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as RawFd) })
}

fn send(to: &OwnedFd, step: u8, errno: i32, listener: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut message = [step, 0, 0, 0, 0];
    message[1..].copy_from_slice(&errno.to_ne_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = listener.map(|listener| [listener]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(to, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// The listener, or why the child has none. Errors: the child sent nothing.
fn receive(from: &OwnedFd, flags: RecvFlags) -> io::Result<Result<OwnedFd, ProgramStartError>> {
    let mut message = [0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | flags;
    let mut parts = [IoSliceMut::new(&mut message)];
    let received = rustix::io::retry_on_intr(|| recvmsg(from, &mut parts, &mut ancillary, flags))?;
    if received.bytes != MESSAGE_BYTES {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let [step, errno @ ..] = message;
    if step != INSTALLED {
        return Ok(Err(refusal(step, i32::from_ne_bytes(errno))));
    }
    let listener = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    listener.map(Ok).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

fn refusal(step: u8, errno: i32) -> ProgramStartError {
    let errno = Errno::from_io_error(&io::Error::from_raw_os_error(errno)).unwrap_or(Errno::IO);
    match (step, errno) {
        (1, Errno::BUSY) => ProgramStartError::Busy,
        (1, Errno::INVAL | Errno::NOSYS) => ProgramStartError::NotBuilt { errno },
        _ => ProgramStartError::Forbidden {
            step: STEPS.get(usize::from(step)).copied().unwrap_or("start"),
            errno,
        },
    }
}
