//! Network namespaces without names or mounts, and the way into a lab's own namespaces.

#![allow(unsafe_code, reason = "unshare(2), fork-time hooks and getsockopt(2) are unsafe to call")]

mod lab;
mod refusal;
mod socket;

pub use lab::{Isolation, IsolationError, JoinError, enter_lab, join, set_parent_death_signal_kill};
pub use refusal::{IsolationStep, Refusal};
pub use socket::{current_cookie, peer_uid};

pub(crate) use lab::try_user_namespace;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The calling thread's network namespace as a file. `/proc` may belong to an outer PID namespace.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace, kept alive by this handle: it goes when the last handle, process and socket in it
/// are gone.
#[derive(Debug)]
pub struct NetNamespace {
    fd: OwnedFd,
}

/// A network namespace could not be made, found or entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error("cannot create a network namespace: {errno}{}", refusal::creation_remedy(*errno))]
    Create { errno: Errno },
    #[error("cannot open {OWN_NAMESPACE}: {errno}; is /proc mounted?")]
    Open { errno: Errno },
    #[error("cannot enter a network namespace: {errno}; this needs CAP_SYS_ADMIN over it")]
    Enter { errno: Errno },
    #[error("cannot start a thread to enter a network namespace with: {source}")]
    Thread { source: std::io::Error },
}

impl NetNamespace {
    /// A new, empty network namespace. The calling thread stays where it is.
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

    /// The file that refers to it.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Another handle to the same namespace.
    /// Errors: [`NamespaceError::Open`] when no file descriptor is left.
    pub fn try_clone(&self) -> Result<Self, NamespaceError> {
        rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)
            .map(|fd| Self { fd })
            .map_err(|errno| NamespaceError::Open { errno })
    }

    /// Moves the calling thread into it, for good. Other threads stay where they are; threads that this one
    /// starts afterwards start in it.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        rustix::thread::move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| NamespaceError::Enter { errno })
    }

    /// Runs `task` on a thread of its own inside the namespace and returns what it returns. A panic in
    /// `task` goes on in the caller.
    /// Errors: [`NamespaceError::Enter`] or [`NamespaceError::Thread`]; `task` has not run then.
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

/// Runs `task` on a thread that ends with it, so that nothing it does to its thread lasts.
fn on_scratch_thread<R: Send>(task: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, task)
            .map_err(|source| NamespaceError::Thread { source })?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}

/// `unshare(2)` for the namespaces of labs.
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!((UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWPID).contains(flags));
    // SAFETY: unsafe only because CLONE_FILES and CLONE_FS can break another thread's or library's idea of
    // who shares descriptors and directories; none of the flags used here touches either.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}
