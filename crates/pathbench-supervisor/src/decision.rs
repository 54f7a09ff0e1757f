//! The answer to a call: pure.

use pathbench_host::seccomp::SystemCall;
use serde::{Deserialize, Serialize};

/// The calling thread's network namespace, compared with the supervisor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Same,
    Other,
    /// This user may not examine the process, or it has ended.
    Unknown,
}

/// The caller as far as the answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub namespace: Namespace,
    /// It, or an ancestor from which it may have inherited this, has called `landlock_restrict_self`.
    pub is_confined: bool,
}

/// Why a TCP socket was left to the kernel.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::EnumIter,
)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOnTcp {
    OtherNetworkNamespace,
    /// `/proc/PID/ns/net` is not readable: a process that is not dumpable, or of another user.
    UnknownNetworkNamespace,
    /// Landlock restricts TCP and ignores MPTCP: an MPTCP socket would bypass the program's own restriction.
    Landlock,
    /// This host refused an MPTCP socket.
    MptcpRefused,
    /// Unknown flags in the socket's type.
    UnknownFlags,
}

impl LeftOnTcp {
    pub const fn words(self) -> &'static str {
        match self {
            Self::OtherNetworkNamespace => {
                "the process is in another network namespace, for which no socket can be created here"
            }
            Self::UnknownNetworkNamespace => {
                "the network namespace of the process is not readable (it is not dumpable, or belongs to another user)"
            }
            Self::Landlock => "the process restricts itself by Landlock, which an MPTCP socket would bypass",
            Self::MptcpRefused => "the kernel refused an MPTCP socket",
            Self::UnknownFlags => "the socket's type has flags that this version does not know",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Create an MPTCP socket of this family (`AF_*`).
    Create {
        family: i32,
        nonblocking: bool,
        close_on_exec: bool,
    },
    Leave(LeftOnTcp),
    /// None of the calls that create TCP sockets.
    Pass,
}

/// The answer to `call`. `examine` is called only for calls that create TCP sockets.
pub(crate) fn decide(call: &SystemCall, examine: impl FnOnce() -> Caller) -> Decision {
    let SystemCall::Socket { family, kind, flags, protocol } = *call else { return Decision::Pass };
    let is_ip = [libc::AF_INET, libc::AF_INET6].contains(&family);
    let is_tcp = [0, libc::IPPROTO_TCP, libc::IPPROTO_MPTCP].contains(&protocol);
    if !is_ip || kind != libc::SOCK_STREAM || !is_tcp {
        return Decision::Pass;
    }
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Decision::Leave(LeftOnTcp::UnknownFlags);
    }
    let caller = examine();
    match caller.namespace {
        Namespace::Other => return Decision::Leave(LeftOnTcp::OtherNetworkNamespace),
        Namespace::Unknown => return Decision::Leave(LeftOnTcp::UnknownNetworkNamespace),
        Namespace::Same if caller.is_confined => return Decision::Leave(LeftOnTcp::Landlock),
        Namespace::Same => {}
    }
    Decision::Create {
        family,
        nonblocking: flags & libc::SOCK_NONBLOCK != 0,
        close_on_exec: flags & libc::SOCK_CLOEXEC != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Namespace::{Other, Same, Unknown};
    use pathbench_host::seccomp::OptionName;

    #[test]
    fn a_socket_is_created_only_where_it_does_what_the_program_asked_for() {
        let (v4, v6) = (libc::AF_INET, libc::AF_INET6);
        let create =
            |family, nonblocking, close_on_exec| Decision::Create { family, nonblocking, close_on_exec };
        let free = Caller { namespace: Same, is_confined: false };
        let socket =
            |family, flags, protocol| SystemCall::Socket { family, kind: libc::SOCK_STREAM, flags, protocol };
        for (name, call, caller, expected) in [
            ("tcp", socket(v4, 0, 0), free, create(v4, false, false)),
            ("tcp by number", socket(v6, libc::SOCK_CLOEXEC, 6), free, create(v6, false, true)),
            ("mptcp", socket(v4, libc::SOCK_NONBLOCK, 262), free, create(v4, true, false)),
            ("unknown flag", socket(v4, 0o40, 0), free, Decision::Leave(LeftOnTcp::UnknownFlags)),
            ("unix", socket(libc::AF_UNIX, 0, 0), free, Decision::Pass),
            ("sctp", socket(v4, 0, 132), free, Decision::Pass),
            (
                "udp",
                SystemCall::Socket { family: v4, kind: libc::SOCK_DGRAM, flags: 0, protocol: 0 },
                free,
                Decision::Pass,
            ),
            (
                "another namespace",
                socket(v4, 0, 0),
                Caller { namespace: Other, is_confined: false },
                Decision::Leave(LeftOnTcp::OtherNetworkNamespace),
            ),
            (
                "confined in another namespace",
                socket(v4, 0, 0),
                Caller { namespace: Other, is_confined: true },
                Decision::Leave(LeftOnTcp::OtherNetworkNamespace),
            ),
            (
                "not to be examined",
                socket(v4, 0, 0),
                Caller { namespace: Unknown, is_confined: false },
                Decision::Leave(LeftOnTcp::UnknownNetworkNamespace),
            ),
            (
                "confined",
                socket(v6, 0, 6),
                Caller { namespace: Same, is_confined: true },
                Decision::Leave(LeftOnTcp::Landlock),
            ),
            ("landlock", SystemCall::RestrictSelf, free, Decision::Pass),
            ("io_uring", SystemCall::IoUring, free, Decision::Pass),
            (
                "option",
                SystemCall::SetOption { descriptor: 3, option: OptionName { level: 6, name: 12 } },
                free,
                Decision::Pass,
            ),
            ("another call", SystemCall::Other, free, Decision::Pass),
        ] {
            assert_eq!(decide(&call, || caller), expected, "{name}");
        }
    }

    #[test]
    fn calls_that_create_no_tcp_socket_are_not_examined() {
        for call in [SystemCall::RestrictSelf, SystemCall::IoUring, SystemCall::Other] {
            assert_eq!(decide(&call, || unreachable!()), Decision::Pass);
        }
    }
}
