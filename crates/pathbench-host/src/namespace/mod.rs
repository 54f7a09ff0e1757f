//! Network namespaces without names or mounts, and a lab's namespaces.

#![allow(unsafe_code, reason = "unshare(2) and fork-time hooks are unsafe to call")]

mod lab;
mod program;

pub use lab::{
    Circumstances, Isolation, IsolationError, IsolationStep, NamespaceJoinError, NamespaceRefusal, enter_lab,
    join, set_parent_death_signal_kill, try_user_namespace,
};
pub use program::{keep_one_user, mount_own_sysfs};

use crate::syscall::option;
use lab::unshare;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The calling thread's network namespace as a file. `/proc` may belong to an outer PID namespace.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace, kept alive by this handle: the kernel removes it after its last handle, process and socket.
#[derive(Debug)]
pub struct NetNamespace {
    fd: OwnedFd,
}

/// A network namespace could not be created, found or entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error("cannot create a network namespace: {errno}{}", lab::creation_remedy(*errno))]
    Create { errno: Errno },
    #[error("cannot open {OWN_NAMESPACE}: {errno}; is /proc mounted?")]
    Open { errno: Errno },
    #[error("cannot enter a network namespace: {errno}; this needs CAP_SYS_ADMIN over it")]
    Enter { errno: Errno },
    #[error("cannot start a thread to enter a network namespace with: {source}")]
    Thread { source: std::io::Error },
}

impl NetNamespace {
    /// Creates an empty network namespace. The calling thread stays in its namespace.
    pub fn create() -> Result<Self, NamespaceError> {
        on_scratch_thread(|| {
            unshare(UnshareFlags::NEWNET).map_err(|errno| NamespaceError::Create { errno })?;
            Self::current()
        })?
    }

    /// The network namespace of the calling thread.
    pub fn current() -> Result<Self, NamespaceError> {
        rustix::fs::open(OWN_NAMESPACE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map(|fd| Self { fd })
            .map_err(|errno| NamespaceError::Open { errno })
    }

    /// Another handle to the same namespace.
    /// Errors: [`NamespaceError::Open`] if no file descriptor is available.
    pub fn try_clone(&self) -> Result<Self, NamespaceError> {
        rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)
            .map(|fd| Self { fd })
            .map_err(|errno| NamespaceError::Open { errno })
    }

    /// Moves the calling thread into the namespace permanently. Other threads are not affected; threads that this one
    /// starts later inherit the namespace.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        rustix::thread::move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| NamespaceError::Enter { errno })
    }

    /// Runs `task` on a new thread inside the namespace and returns its result. A panic in `task` continues in the
    /// caller.
    /// Errors: [`NamespaceError::Enter`] or [`NamespaceError::Thread`]; `task` has not run.
    pub fn run_in<R: Send>(&self, task: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
        on_scratch_thread(|| {
            self.enter()?;
            Ok(task())
        })?
    }
}

impl AsFd for NetNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `task` on a temporary thread, so that its changes to the thread do not persist.
fn on_scratch_thread<R: Send>(task: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, task)
            .map_err(|source| NamespaceError::Thread { source })?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}

/// The number of the calling thread's network namespace (`SO_NETNS_COOKIE`). It is unique until the next boot, whereas
/// the kernel reuses a namespace's inode once the namespace is removed (`ENOPROTOOPT` before Linux 5.14).
pub fn current_cookie() -> Result<u64, Errno> {
    // Any family works: every socket belongs to its creator's network namespace.
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    option(socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, 0)
}

/// The user id of the peer process of a Unix socket, in the calling process's user namespace; an unmapped user is the
/// overflow id, 65534.
pub fn peer_uid(socket: impl AsFd) -> Result<u32, Errno> {
    let credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, credentials).map(|credentials| credentials.uid)
}
