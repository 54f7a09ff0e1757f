//! What this machine and its kernel are, and what they can do for multipath.

use crate::namespace::{IsolationError, try_user_namespace};
use crate::sysctl::{self, SysctlError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use std::fmt;

/// The version of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// As `uname -r` prints it.
    pub text: String,
    pub major: u32,
    pub minor: u32,
    /// Third number; 0 when there is none.
    pub patch: u32,
}

impl Release {
    /// Reads `6.18.44-generic` and the like; numbers that are not there count as 0.
    pub fn parse(text: &str) -> Self {
        let mut numbers = text.splitn(3, '.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
        });
        let mut next = || numbers.next().unwrap_or(0);
        Self { text: text.to_owned(), major: next(), minor: next(), patch: next() }
    }

    /// Whether it is `major.minor` or later.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

pub fn release() -> Release {
    Release::parse(&rustix::system::uname().release().to_string_lossy())
}

/// Number of processors that this process may use; 1 when the kernel does not tell.
pub fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The kernel's fields are machine words.
    #[allow(clippy::useless_conversion, reason = "32 bits wide on 32-bit machines")]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit))
}

/// Whether MPTCP sockets can be made in the calling thread's network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MptcpSupport {
    Available,
    /// `net.mptcp.enabled` is 0.
    Disabled,
    NotBuilt,
    /// The kernel is older than 5.6.
    TooOld,
    /// Refused for a reason that has nothing to do with MPTCP (seccomp, an LSM, no descriptor left).
    Refused(Errno),
}

impl fmt::Display for MptcpSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Available => f.write_str("MPTCP is available"),
            Self::Disabled => {
                f.write_str("MPTCP is switched off: switch it on with: sysctl -w net.mptcp.enabled=1")
            }
            Self::NotBuilt => {
                f.write_str("this kernel was built without MPTCP (CONFIG_MPTCP): use a distribution kernel")
            }
            Self::TooOld => f.write_str("this kernel is older than 5.6 and has no MPTCP: use a newer one"),
            Self::Refused(errno) => write!(f, "an MPTCP socket was refused: {errno}"),
        }
    }
}

/// Tries whether an MPTCP socket can be made in the calling thread's network namespace.
pub fn mptcp_support() -> MptcpSupport {
    let made = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        Some(ipproto::MPTCP),
    );
    match made.map(drop) {
        Ok(()) => MptcpSupport::Available,
        // inet_create looks the protocol up by number; before 5.6 IPPROTO_MPTCP is beyond IPPROTO_MAX.
        Err(Errno::INVAL) => MptcpSupport::TooOld,
        Err(Errno::PROTONOSUPPORT) => MptcpSupport::NotBuilt,
        Err(Errno::NOPROTOOPT) => MptcpSupport::Disabled,
        Err(errno) => MptcpSupport::Refused(errno),
    }
}

/// The congestion control that sockets get when they ask for none, in the calling thread's namespace.
pub fn default_congestion_control() -> Result<String, SysctlError> {
    sysctl::read("net.ipv4.tcp_congestion_control")
}

/// Whether a rootless lab can be made here; found out by making its namespaces in a child process.
pub fn user_namespaces() -> Result<(), IsolationError> {
    try_user_namespace()
}
