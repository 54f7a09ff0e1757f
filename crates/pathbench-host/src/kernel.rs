//! The kernel version, the processors and the MPTCP support of this machine.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

/// The version of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The output of `uname -r`.
    pub text: String,
    pub major: u32,
    pub minor: u32,
    /// Third number; 0 if absent.
    pub patch: u32,
}

impl Release {
    /// Parses `6.18.44-generic` and similar releases; missing numbers are 0.
    pub fn parse(text: &str) -> Self {
        let mut numbers = text.splitn(3, '.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
        });
        let mut next = || numbers.next().unwrap_or(0);
        Self { text: text.to_owned(), major: next(), minor: next(), patch: next() }
    }

    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

pub fn release() -> Release {
    Release::parse(&rustix::system::uname().release().to_string_lossy())
}

/// Number of processors available to this process; 1 when the kernel does not report it.
pub fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The kernel's fields have the size of `long`.
    #[allow(clippy::useless_conversion, reason = "32 bits wide on 32-bit machines")]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit))
}

/// Whether MPTCP sockets can be created in the calling thread's network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MptcpSupport {
    #[error("MPTCP is available")]
    Available,
    #[error("MPTCP is switched off: switch it on with: sysctl -w net.mptcp.enabled=1")]
    Disabled,
    #[error("this kernel was built without MPTCP (CONFIG_MPTCP): use a distribution kernel")]
    NotBuilt,
    #[error("this kernel is older than 5.6 and has no MPTCP: use a newer one")]
    TooOld,
    /// A reason unrelated to MPTCP (seccomp, an LSM, no free descriptor).
    #[error("an MPTCP socket was refused: {0}")]
    Refused(Errno),
}

/// Attempts to create an MPTCP socket in the calling thread's network namespace.
pub fn mptcp_support() -> MptcpSupport {
    let made = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        Some(ipproto::MPTCP),
    );
    match made.map(drop) {
        Ok(()) => MptcpSupport::Available,
        // inet_create looks up the protocol by number; before 5.6, IPPROTO_MPTCP exceeds IPPROTO_MAX.
        Err(Errno::INVAL) => MptcpSupport::TooOld,
        Err(Errno::PROTONOSUPPORT) => MptcpSupport::NotBuilt,
        Err(Errno::NOPROTOOPT) => MptcpSupport::Disabled,
        Err(errno) => MptcpSupport::Refused(errno),
    }
}

/// Whether UDP sockets segment messages (`UDP_SEGMENT`, Linux 4.18).
pub fn udp_segmentation() -> bool {
    const UDP_SEGMENT: libc::c_int = 103;
    let segment_bytes: libc::c_int = 1_200;
    std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).is_ok_and(|socket| {
        crate::syscall::set_option(socket, libc::SOL_UDP, UDP_SEGMENT, &segment_bytes).is_ok()
    })
}
