//! Whether the kernel has suspended outgoing MPTCP in this network namespace. Only the behaviour of a new connection shows
//! this: no setting does, and counters are of the past.

use pathbench_host::counters::KernelCounters;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrV4, SocketFlags, SocketType, bind, connect, getsockname, ipproto, listen,
    socket_with,
};
use std::net::Ipv4Addr;

const DETECTIONS: &str = "MPTcpExt.Blackhole";
const SUSPENDED: &str = "MPTcpExt.MPCapableSYNTXDisabled";

/// Connects over loopback if a black hole for MPTCP was detected before; `None` if none was, or without an answer.
pub(super) fn read(before: &KernelCounters) -> Option<bool> {
    before.get(DETECTIONS).filter(|count| *count > 0)?;
    attempt().ok()?;
    let after = KernelCounters::read().ok()?;
    Some(after.get(SUSPENDED)? > before.get(SUSPENDED)?)
}

/// Begins an MPTCP connection to a listening socket of its own. The kernel decides about `MP_CAPABLE` before it sends the SYN.
fn attempt() -> Result<(), Errno> {
    let make = |flags| {
        socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | flags,
            Some(ipproto::MPTCP),
        )
    };
    let listener = make(SocketFlags::empty())?;
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    listen(&listener, 1)?;
    let address = getsockname(&listener)?;
    match connect(&make(SocketFlags::NONBLOCK)?, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(errno) => Err(errno),
    }
}
