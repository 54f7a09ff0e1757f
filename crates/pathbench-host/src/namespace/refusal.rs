//! Why the kernel refuses namespaces, and what its administrator can do about it.

use rustix::io::Errno;
use std::fmt;

/// What was being done when the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationStep {
    /// `unshare(CLONE_NEWUSER)`.
    UserNamespace,
    /// Writing `setgroups`, `uid_map`, `gid_map`.
    IdMaps,
    /// `unshare(CLONE_NEWNET | CLONE_NEWPID)`.
    NetworkAndPid,
}

impl fmt::Display for IsolationStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespace => "create a user namespace",
            Self::IdMaps => "map the user into its user namespace",
            Self::NetworkAndPid => "create network and PID namespaces",
        })
    }
}

/// Why the kernel refuses namespaces. Its text names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `user.max_user_namespaces` is 0.
    UserNamespacesForbidden,
    /// `user.max_user_namespaces` (or the nesting depth of 32) is reached.
    UserNamespacesExhausted,
    /// Debian's `kernel.unprivileged_userns_clone` is 0.
    UnprivilegedCloneOff,
    /// Ubuntu's `kernel.apparmor_restrict_unprivileged_userns` is 1: the namespace comes without rights.
    AppArmor,
    Seccomp,
    Threads,
    /// A security module or a chroot; the kernel does not tell which.
    Policy,
    NotRoot,
    NamespacesExhausted,
    NotBuilt,
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespacesForbidden => {
                "this host forbids user namespaces (user.max_user_namespaces is 0): run as root, or allow them \
                 with: sysctl -w user.max_user_namespaces=10000"
            }
            Self::UserNamespacesExhausted => {
                "no further user namespace is allowed (user.max_user_namespaces, or 32 levels of nesting): end \
                 programs that hold some, or raise user.max_user_namespaces"
            }
            Self::UnprivilegedCloneOff => {
                "this host keeps user namespaces for root (kernel.unprivileged_userns_clone is 0): run as root, \
                 or allow them with: sysctl -w kernel.unprivileged_userns_clone=1"
            }
            Self::AppArmor => {
                "AppArmor takes all rights from an ordinary user's user namespace \
                 (kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu since 24.04): run as root, give \
                 the program an AppArmor profile with `userns,`, or: \
                 sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            }
            Self::Seccomp => {
                "a seccomp filter forbids it, as in a container: start the container with --privileged, or with \
                 --security-opt seccomp=unconfined and --cap-add SYS_ADMIN"
            }
            Self::Threads => "the process has more than one thread; it must be done before any is started",
            Self::Policy => {
                "none of the usual settings forbids it, so a security module (SELinux, AppArmor, Landlock) does, or \
                 a chroot: run as root and outside of a chroot, or ask this host's administrator"
            }
            Self::NotRoot => "this needs CAP_SYS_ADMIN: run as root, or let the lab use a user namespace",
            Self::NamespacesExhausted => {
                "the limit of network or PID namespaces is reached: raise user.max_net_namespaces and \
                 user.max_pid_namespaces, or end programs that hold some"
            }
            Self::NotBuilt => {
                "this kernel was built without the namespaces (CONFIG_USER_NS, CONFIG_NET_NS, CONFIG_PID_NS)"
            }
            Self::Unknown => "no known setting of this host explains it; running as root may help",
        })
    }
}

/// The settings and states of this host and process that decide over namespaces; `None` where the kernel
/// has no such setting or does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Circumstances {
    pub(super) max_user_namespaces: Option<u64>,
    pub(super) unprivileged_userns_clone: Option<u64>,
    pub(super) apparmor_restrict_unprivileged_userns: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) seccomp_filtered: bool,
    pub(super) user_namespaces_built: bool,
    pub(super) root: bool,
}

impl Circumstances {
    pub(super) fn read() -> Self {
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
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

    pub(super) fn explain(&self, step: IsolationStep, errno: Errno, user_namespace: bool) -> Refusal {
        let forbids_unprivileged = !self.root && self.unprivileged_userns_clone == Some(0);
        let apparmor = self.apparmor_restrict_unprivileged_userns.is_some_and(|value| value != 0);
        match (step, errno) {
            (IsolationStep::UserNamespace, Errno::NOSPC | Errno::USERS) => match self.max_user_namespaces {
                Some(0) => Refusal::UserNamespacesForbidden,
                _ => Refusal::UserNamespacesExhausted,
            },
            (_, Errno::NOSPC | Errno::USERS) => Refusal::NamespacesExhausted,
            (_, Errno::INVAL) if self.threads.is_some_and(|threads| threads > 1) => Refusal::Threads,
            (_, Errno::INVAL | Errno::NOSYS) => Refusal::NotBuilt,
            (IsolationStep::UserNamespace, _) if !self.user_namespaces_built => Refusal::NotBuilt,
            (IsolationStep::UserNamespace, Errno::PERM) if forbids_unprivileged => {
                Refusal::UnprivilegedCloneOff
            }
            (_, Errno::PERM | Errno::ACCESS) if user_namespace && apparmor => Refusal::AppArmor,
            (_, Errno::PERM | Errno::ACCESS) if self.seccomp_filtered => Refusal::Seccomp,
            (IsolationStep::NetworkAndPid, Errno::PERM) if !user_namespace => Refusal::NotRoot,
            (IsolationStep::UserNamespace, Errno::PERM) => Refusal::Policy,
            _ => Refusal::Unknown,
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Circumstances = Circumstances {
        max_user_namespaces: Some(1000),
        unprivileged_userns_clone: None,
        apparmor_restrict_unprivileged_userns: None,
        threads: Some(1),
        seccomp_filtered: false,
        user_namespaces_built: true,
        root: false,
    };

    #[test]
    fn names_the_setting_that_forbids() {
        use IsolationStep::{IdMaps, NetworkAndPid, UserNamespace};
        let apparmor = Circumstances { apparmor_restrict_unprivileged_userns: Some(1), ..PLAIN };
        let cases = [
            (
                Circumstances { max_user_namespaces: Some(0), ..PLAIN },
                UserNamespace,
                Errno::NOSPC,
                "user.max_user_namespaces=10000",
            ),
            (PLAIN, UserNamespace, Errno::NOSPC, "raise user.max_user_namespaces"),
            (
                Circumstances { unprivileged_userns_clone: Some(0), ..PLAIN },
                UserNamespace,
                Errno::PERM,
                "kernel.unprivileged_userns_clone=1",
            ),
            (apparmor, IdMaps, Errno::PERM, "kernel.apparmor_restrict_unprivileged_userns=0"),
            (apparmor, NetworkAndPid, Errno::PERM, "kernel.apparmor_restrict_unprivileged_userns=0"),
            (
                Circumstances { seccomp_filtered: true, ..PLAIN },
                UserNamespace,
                Errno::PERM,
                "seccomp=unconfined",
            ),
            (
                Circumstances { threads: Some(3), ..PLAIN },
                UserNamespace,
                Errno::INVAL,
                "more than one thread",
            ),
            (PLAIN, UserNamespace, Errno::INVAL, "CONFIG_USER_NS"),
            (PLAIN, UserNamespace, Errno::PERM, "security module"),
            (PLAIN, NetworkAndPid, Errno::NOSPC, "user.max_net_namespaces"),
        ];
        for (circumstances, step, errno, remedy) in cases {
            let text = circumstances.explain(step, errno, true).to_string();
            assert!(text.contains(remedy), "{step} {errno}: {text}");
        }
    }

    #[test]
    fn without_a_user_namespace_root_is_the_remedy() {
        let refusal = PLAIN.explain(IsolationStep::NetworkAndPid, Errno::PERM, false);
        assert_eq!(refusal, Refusal::NotRoot);
    }
}
