//! The notifications of a filter and their answers (`SECCOMP_IOCTL_NOTIF_*`, linux/seccomp.h).

#![allow(unsafe_code, reason = "the ioctls of a seccomp listener have no safe form")]

use super::filter::{OptionName, TYPE_MASK};
use crate::syscall::outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6): the program's thread continues on the processor of the answer.
const SYNC_WAKE_UP: u64 = 1;
/// Bytes for a notification, with space for later kernels; Linux 6.18 fills 80.
const NOTIFICATION_CAPACITY: usize = 512;

/// A call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeccompNotification {
    /// The kernel's number for the waiting call; no longer valid once the call was interrupted or its thread killed.
    pub id: u64,
    /// The thread, in this process's PID namespace; 0 if it is not visible there.
    pub thread: u32,
    pub call: SystemCall,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeccompReception {
    Call(SeccompNotification),
    /// No call for the given time.
    Quiet,
    /// The last process of the tree has ended, or the other descriptor is readable.
    End,
}

/// The call with its arguments, all of which are scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCall {
    /// socket(2); `kind` without flags.
    Socket {
        family: i32,
        kind: i32,
        flags: i32,
        protocol: i32,
    },
    /// setsockopt(2)
    SetOption {
        descriptor: i32,
        option: OptionName,
    },
    /// `landlock_restrict_self(2)`
    RestrictSelf,
    /// `io_uring_setup(2)`
    IoUring,
    Other,
}

impl SystemCall {
    fn from_data(data: &libc::seccomp_data) -> Self {
        let argument = |index: usize| data.args.get(index).map_or(0, |argument| *argument as i32);
        match libc::c_long::from(data.nr) {
            libc::SYS_socket => Self::Socket {
                family: argument(0),
                kind: argument(1) & TYPE_MASK as i32,
                flags: argument(1) & !(TYPE_MASK as i32),
                protocol: argument(2),
            },
            libc::SYS_setsockopt => Self::SetOption {
                descriptor: argument(0),
                option: OptionName { level: argument(1), name: argument(2) },
            },
            libc::SYS_landlock_restrict_self => Self::RestrictSelf,
            libc::SYS_io_uring_setup => Self::IoUring,
            _ => Self::Other,
        }
    }
}

/// The receiver of the notifications of a tree of processes. Once it is closed, every selected call of the tree fails
/// with `ENOSYS`.
#[derive(Debug)]
pub struct SeccompListener {
    fd: OwnedFd,
}

impl SeccompListener {
    pub(super) fn new(fd: OwnedFd) -> Self {
        // SAFETY: the ioctl takes its argument by value. Before Linux 6.6 it fails, and answers are slower.
        let _older =
            unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _, SYNC_WAKE_UP) };
        Self { fd }
    }

    /// Blocks until a call waits, at most for `time`.
    pub fn receive(
        &self,
        until: Option<BorrowedFd<'_>>,
        time: Option<&Timespec>,
    ) -> Result<SeccompReception, Errno> {
        loop {
            let own = PollFd::new(&self.fd, PollFlags::IN);
            // The same descriptor twice does no harm.
            let other = PollFd::from_borrowed_fd(until.unwrap_or(self.fd.as_fd()), PollFlags::IN);
            let mut polled = [own, other];
            let watched = if until.is_some() { 2 } else { 1 };
            match poll(&mut polled[..watched], time) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
                Ok(0) => return Ok(SeccompReception::Quiet),
                Ok(_) => {}
            }
            if until.is_some() && !polled[1].revents().is_empty() {
                return Ok(SeccompReception::End);
            }
            let events = polled[0].revents();
            if events.contains(PollFlags::IN) {
                match self.read() {
                    Ok(notification) => return Ok(SeccompReception::Call(notification)),
                    // The thread was killed or interrupted by a signal.
                    Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                    Err(errno) => return Err(errno),
                }
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return Ok(SeccompReception::End);
            }
        }
    }

    /// Whether the last process of the tree has ended.
    pub fn is_unused(&self) -> bool {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let _interrupted = poll(&mut polled, Some(&Timespec::default()));
        polled[0].revents().contains(PollFlags::HUP)
    }

    fn read(&self) -> Result<SeccompNotification, Errno> {
        // The kernel refuses a buffer that is not zero, and writes as much as its own structure has.
        let mut buffer = [0_u64; NOTIFICATION_CAPACITY / size_of::<u64>()];
        let request = libc::SECCOMP_IOCTL_NOTIF_RECV as _;
        // SAFETY: the kernel writes one `struct seccomp_notif`, whose size `start` has compared with this buffer's.
        outcome(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, buffer.as_mut_ptr()) })?;
        // SAFETY: the buffer is aligned for `u64`, larger than the structure, and initialised; all fields are integers.
        let raw = unsafe { buffer.as_ptr().cast::<libc::seccomp_notif>().read() };
        Ok(SeccompNotification { id: raw.id, thread: raw.pid, call: SystemCall::from_data(&raw.data) })
    }

    /// Lets the kernel perform the call. The arguments of the selected calls are scalars, so that no other thread can
    /// change them meanwhile.
    /// Errors: `ENOENT` if the call does not wait any more.
    pub fn leave_to_kernel(&self, id: u64) -> Result<(), Errno> {
        self.respond(libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        })
    }

    /// Ends the call with an error.
    pub fn fail(&self, id: u64, errno: Errno) -> Result<(), Errno> {
        self.respond(libc::seccomp_notif_resp { id, val: 0, error: -errno.raw_os_error(), flags: 0 })
    }

    fn respond(&self, mut response: libc::seccomp_notif_resp) -> Result<(), Errno> {
        let request = libc::SECCOMP_IOCTL_NOTIF_SEND as _;
        // SAFETY: the kernel reads one `struct seccomp_notif_resp`, which lives until the call returns.
        outcome(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, &raw mut response) })
    }

    /// Puts a copy of `descriptor` into the calling process at its lowest free number, and ends the call with that number
    /// (`SECCOMP_ADDFD_FLAG_SEND`), in one step.
    /// Errors: `ENOENT` if the call does not wait any more, `EMFILE` at the program's limit of descriptors; the call then
    /// still waits.
    pub fn answer_with(&self, id: u64, descriptor: BorrowedFd<'_>, close_on_exec: bool) -> Result<(), Errno> {
        let mut added = libc::seccomp_notif_addfd {
            id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: descriptor.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        let request = libc::SECCOMP_IOCTL_NOTIF_ADDFD as _;
        // SAFETY: the kernel reads one `struct seccomp_notif_addfd`, which lives until the call returns.
        outcome(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, &raw mut added) })
    }
}

impl AsFd for SeccompListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether a notification of this kernel fits the buffer (`SECCOMP_GET_NOTIF_SIZES`).
pub(super) fn notifications_fit() -> Result<bool, Errno> {
    let mut sizes = libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the kernel writes one `struct seccomp_notif_sizes`, which lives until the call returns.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes) };
    outcome(answer as libc::c_int)?;
    Ok(usize::from(sizes.seccomp_notif) <= NOTIFICATION_CAPACITY
        && usize::from(sizes.seccomp_notif) >= size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) <= size_of::<libc::seccomp_notif_resp>())
}
