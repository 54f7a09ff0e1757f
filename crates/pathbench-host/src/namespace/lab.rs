//! A lab's namespaces: creating and entering them, and the reasons and remedies when the kernel refuses.

use pathbench_record::file;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// New user, network and PID namespaces: requires no privilege where the host allows user namespaces.
    User,
    /// New network and PID namespaces only: requires root.
    Root,
}

impl Isolation {
    /// [`Isolation::Root`] for root, who needs no user namespace; [`Isolation::User`] for all other users.
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
    /// The reason, as derived from this host's settings; its text names the remedy.
    pub refusal: NamespaceRefusal,
}

/// Moves a single-threaded process into new namespaces. With [`Isolation::User`] the process is root in them, and only
/// its own user id is mapped. The process itself stays in its PID namespace; its first child becomes PID 1 of the new
/// PID namespace. When PID 1 exits, the kernel kills all processes in that namespace.
/// Errors: the process may then be in some of the namespaces; it should report the error and exit.
pub fn enter_lab(isolation: Isolation) -> Result<(), IsolationError> {
    // Read the settings first: inside, /proc/sys/user shows the values of the new namespace.
    let circumstances = Circumstances::read();
    isolate(isolation).map_err(|(step, errno)| IsolationError {
        step,
        errno,
        refusal: circumstances.explain(step, errno, isolation == Isolation::User),
    })
}

/// `unshare(2)` for the namespaces of labs.
pub(super) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    let usual = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWPID;
    debug_assert!((usual | UnshareFlags::NEWNS).contains(flags));
    // SAFETY: unsafe only because CLONE_FILES and CLONE_FS can break assumptions of other threads about shared
    // descriptors and directories; of the flags used here only CLONE_NEWNS implies CLONE_FS, in a process of one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Makes system calls on prepared data only, so that it can also run between `fork` and `exec`.
fn isolate(isolation: Isolation) -> Result<(), (IsolationStep, Errno)> {
    if isolation == Isolation::User {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        unshare(UnshareFlags::NEWUSER).map_err(|errno| (IsolationStep::UserNamespace, errno))?;
        let map = || {
            // An unprivileged process may map its group only after setgroups is denied (user_namespaces(7)).
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

/// Whether a rootless lab can be created here; tested by creating its namespaces in a child process.
pub fn try_user_namespace() -> Result<(), IsolationError> {
    /// The error code by which the child reports success.
    const WORKED: i32 = 1 << 16;
    const STEP: i32 = 1 << 12;
    const STEPS: [IsolationStep; 3] =
        [IsolationStep::UserNamespace, IsolationStep::IdMaps, IsolationStep::NetworkAndPid];

    let mut command = Command::new("/proc/self/exe");
    // The hook always fails, so the child never reaches exec; `spawn` returns the hook's result as its error.
    let hook = || {
        let code = match isolate(Isolation::User) {
            Ok(()) => WORKED,
            Err((step, errno)) => {
                let index = STEPS.iter().position(|other| *other == step).unwrap_or_default();
                errno.raw_os_error() + STEP * index as i32
            }
        };
        Err(std::io::Error::from_raw_os_error(code))
    };
    // SAFETY: the hook makes system calls on stack data only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(hook) };
    let code = match command.spawn() {
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        // Unreachable: the hook always fails. Kill the child, which would run this program.
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
    // The child was single-threaded, irrespective of this process.
    let circumstances = Circumstances { threads: Some(1), ..Circumstances::read() };
    Err(IsolationError { step, errno, refusal: circumstances.explain(step, errno, true) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot enter the lab's {namespace} namespace: {errno}; only the user who started the lab, or root, can"
)]
pub struct NamespaceJoinError {
    /// `user`, `network` or `PID`.
    pub namespace: &'static str,
    /// The error of `setns(2)`.
    pub errno: Errno,
}

/// Moves a single-threaded process into the namespaces of a running lab. The user namespace is entered first, because
/// it grants the right to enter the others. The process itself stays in its PID namespace; its next child is inside.
/// Errors: the process may then be in some of the namespaces.
pub fn join(
    user: Option<BorrowedFd<'_>>,
    pid: BorrowedFd<'_>,
    net: BorrowedFd<'_>,
) -> Result<(), NamespaceJoinError> {
    let enter = |fd, kind, namespace| {
        rustix::thread::move_into_link_name_space(fd, Some(kind))
            .map_err(|errno| NamespaceJoinError { namespace, errno })
    };
    if let Some(user) = user {
        enter(user, LinkNameSpaceType::User, "user")?;
    }
    enter(net, LinkNameSpaceType::Network, "network")?;
    enter(pid, LinkNameSpaceType::ProcessID, "PID")
}

/// Requests that the kernel kill the calling process when the thread that started it ends (`PR_SET_PDEATHSIG`). A
/// change of user clears the request. The kernel sends no signal if the parent has already exited.
pub fn set_parent_death_signal_kill() -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
}

/// The step that the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IsolationStep {
    /// `unshare(CLONE_NEWUSER)`.
    #[error("create a user namespace")]
    UserNamespace,
    /// Writing `setgroups`, `uid_map`, `gid_map`.
    #[error("map the user into its user namespace")]
    IdMaps,
    /// `unshare(CLONE_NEWNET | CLONE_NEWPID)`.
    #[error("create network and PID namespaces")]
    NetworkAndPid,
}

/// The reason why the kernel refuses namespaces. Its text names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceRefusal {
    #[error(
        "this host forbids user namespaces (user.max_user_namespaces is 0): run as root, or allow them \
         with: sysctl -w user.max_user_namespaces=10000"
    )]
    UserNamespacesForbidden,
    #[error(
        "no further user namespace is allowed (user.max_user_namespaces, or 32 levels of nesting): end \
         programs that hold some, or raise user.max_user_namespaces"
    )]
    UserNamespacesExhausted,
    #[error(
        "this host keeps user namespaces for root (kernel.unprivileged_userns_clone is 0): run as root, \
         or allow them with: sysctl -w kernel.unprivileged_userns_clone=1"
    )]
    UnprivilegedCloneOff,
    /// Ubuntu's `kernel.apparmor_restrict_unprivileged_userns` is 1: the namespace has no capabilities.
    #[error(
        "AppArmor takes all rights from an ordinary user's user namespace \
         (kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu since 24.04): run as root, give \
         the program an AppArmor profile with `userns,`, or: \
         sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )]
    AppArmor,
    #[error(
        "a seccomp filter forbids it, as in a container: start the container with --privileged, or with \
         --security-opt seccomp=unconfined and --cap-add SYS_ADMIN"
    )]
    Seccomp,
    #[error("the process has more than one thread; it must be done before any is started")]
    Threads,
    /// A security module or a chroot; the kernel does not report which.
    #[error(
        "none of the usual settings forbids it, so a security module (SELinux, AppArmor, Landlock) does, or \
         a chroot: run as root and outside of a chroot, or ask this host's administrator"
    )]
    Policy,
    #[error("this needs CAP_SYS_ADMIN: run as root, or let the lab use a user namespace")]
    NotRoot,
    #[error(
        "the limit of network or PID namespaces is reached: raise user.max_net_namespaces and \
         user.max_pid_namespaces, or end programs that hold some"
    )]
    NamespacesExhausted,
    #[error("this kernel was built without the namespaces (CONFIG_USER_NS, CONFIG_NET_NS, CONFIG_PID_NS)")]
    NotBuilt,
    #[error("no known setting of this host explains it; running as root may help")]
    Unknown,
}

/// The settings of this host and the state of this process that control namespaces; `None` where the kernel lacks a
/// setting or does not report it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances {
    pub max_user_namespaces: Option<u64>,
    pub unprivileged_userns_clone: Option<u64>,
    pub apparmor_restrict_unprivileged_userns: Option<u64>,
    pub threads: Option<u64>,
    pub seccomp_filtered: bool,
    pub user_namespaces_built: bool,
    pub root: bool,
}

impl Circumstances {
    pub fn read() -> Self {
        let number = |path: &str| file::read_text(path, file::SMALL_FILE_BYTES).ok()?.trim().parse().ok();
        let status = file::read_text("/proc/self/status", file::SMALL_FILE_BYTES).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().parse::<u64>().ok()
        };
        Self {
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restrict_unprivileged_userns: number(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            ),
            threads: field("Threads"),
            seccomp_filtered: field("Seccomp") == Some(2),
            user_namespaces_built: std::fs::exists("/proc/self/ns/user").unwrap_or(true),
            root: rustix::process::geteuid().is_root(),
        }
    }

    pub fn explain(&self, step: IsolationStep, errno: Errno, user_namespace: bool) -> NamespaceRefusal {
        let forbids_unprivileged = !self.root && self.unprivileged_userns_clone == Some(0);
        let apparmor = self.apparmor_restrict_unprivileged_userns.is_some_and(|value| value != 0);
        match (step, errno) {
            (IsolationStep::UserNamespace, Errno::NOSPC | Errno::USERS) => match self.max_user_namespaces {
                Some(0) => NamespaceRefusal::UserNamespacesForbidden,
                _ => NamespaceRefusal::UserNamespacesExhausted,
            },
            (_, Errno::NOSPC | Errno::USERS) => NamespaceRefusal::NamespacesExhausted,
            (_, Errno::INVAL) if self.threads.is_some_and(|threads| threads > 1) => NamespaceRefusal::Threads,
            (_, Errno::INVAL | Errno::NOSYS) => NamespaceRefusal::NotBuilt,
            (IsolationStep::UserNamespace, _) if !self.user_namespaces_built => NamespaceRefusal::NotBuilt,
            (IsolationStep::UserNamespace, Errno::PERM) if forbids_unprivileged => {
                NamespaceRefusal::UnprivilegedCloneOff
            }
            (_, Errno::PERM | Errno::ACCESS) if user_namespace && apparmor => NamespaceRefusal::AppArmor,
            (_, Errno::PERM | Errno::ACCESS) if self.seccomp_filtered => NamespaceRefusal::Seccomp,
            (IsolationStep::NetworkAndPid, Errno::PERM) if !user_namespace => NamespaceRefusal::NotRoot,
            (IsolationStep::UserNamespace, Errno::PERM) => NamespaceRefusal::Policy,
            _ => NamespaceRefusal::Unknown,
        }
    }
}

pub(super) const fn creation_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM => "; this needs CAP_SYS_ADMIN: run as root or in a user namespace",
        Errno::NOSPC => "; the limit user.max_net_namespaces is reached",
        Errno::INVAL => "; this kernel was built without network namespaces (CONFIG_NET_NS)",
        _ => "",
    }
}
