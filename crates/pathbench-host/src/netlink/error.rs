//! What can go wrong between a request and the kernel's answer.

use rustix::io::Errno;

/// A netlink request that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket could not be opened or set up.
    #[error("cannot open a {protocol} netlink socket: {source}")]
    Open {
        /// `route`, `generic`, `sock_diag` or `netfilter`.
        protocol: &'static str,
        /// What the system call said.
        source: std::io::Error,
    },
    /// The request could not be sent or its answer not be received.
    #[error("cannot {request}: talking to the kernel failed: {source}")]
    Exchange {
        /// What was asked, in words.
        request: String,
        /// What the system call said.
        source: std::io::Error,
    },
    /// The kernel understood and refused.
    #[error("cannot {request}: {errno}{}{}", said(kernel_message.as_ref()), remedy(*errno))]
    Refused {
        /// What was asked, in words.
        request: String,
        /// The error number of the kernel's answer.
        errno: Errno,
        /// The kernel's explanation, where it gave one (extended acknowledgement).
        kernel_message: Option<String>,
    },
    /// The answer was not what this request's answer looks like.
    #[error("cannot {request}: the kernel's answer makes no sense: {detail}")]
    Malformed {
        /// What was asked, in words.
        request: String,
        /// What is wrong with the answer.
        detail: &'static str,
    },
    /// The table changed under every attempt to read it.
    #[error("cannot {request}: it changed while it was read, {attempts} times in a row")]
    Unstable {
        /// What was asked, in words.
        request: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// No interface of this name or index is in the socket's namespace.
    #[error("there is no interface {interface} in this network namespace")]
    NoSuchInterface {
        /// Its name or index.
        interface: String,
    },
    /// The text cannot name an interface.
    #[error("{name:?} cannot name an interface: a name has 1 to 15 bytes and no slash, colon or white space")]
    InvalidName {
        /// The text.
        name: String,
    },
    /// The socket for a namespace has to be made by a thread inside it, and that failed.
    #[error(transparent)]
    Namespace(#[from] crate::namespace::NamespaceError),
}

impl NetlinkError {
    /// The kernel's error number when the kernel refused the request.
    pub const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the kernel refused because it is there already.
    pub fn is_already_there(&self) -> bool {
        self.errno() == Some(Errno::EXIST)
    }

    /// Whether the kernel refused because there is no such thing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NoSuchInterface { .. })
            || matches!(self.errno(), Some(Errno::NOENT | Errno::SRCH | Errno::ADDRNOTAVAIL | Errno::NODEV))
    }
}

fn said(message: Option<&String>) -> String {
    message.map(|message| format!(", the kernel says {message:?}")).unwrap_or_default()
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM | Errno::ACCESS => "; this needs CAP_NET_ADMIN in the network namespace: run as root",
        Errno::OPNOTSUPP => "; this kernel was built without it",
        _ => "",
    }
}
