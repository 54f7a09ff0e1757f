//! The calls for which no safe wrapper exists: socket options whose answers vary in length.
#![allow(unsafe_code, reason = "getsockopt and setsockopt with the kernel's own structures")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `IPPROTO_MPTCP` (linux/in.h).
pub(crate) const IPPROTO_MPTCP: i32 = 262;
/// `SOL_MPTCP` (linux/socket.h).
pub(crate) const SOL_MPTCP: i32 = 284;
/// `MPTCP_INFO` (linux/mptcp.h), 5.16.
pub(crate) const MPTCP_INFO: i32 = 1;
/// `MPTCP_TCPINFO` (linux/mptcp.h), 5.16.
pub(crate) const MPTCP_TCPINFO: i32 = 2;
/// `MPTCP_SUBFLOW_ADDRS` (linux/mptcp.h), 5.16.
pub(crate) const MPTCP_SUBFLOW_ADDRS: i32 = 3;
/// `MPTCP_FULL_INFO` (linux/mptcp.h), 6.5.
pub(crate) const MPTCP_FULL_INFO: i32 = 4;

/// Reads a socket option into `buffer`, which may already hold input, and returns the length the kernel reports.
pub(crate) fn option_bytes(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(buffer.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: pointer and length describe `buffer`, which outlives the call; the descriptor is borrowed.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, buffer.as_mut_ptr().cast(), &raw mut length) };
    if result == 0 { Ok((length as usize).min(buffer.len())) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn option_int(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut bytes = [0_u8; size_of::<i32>()];
    option_bytes(fd, level, name, &mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// Sets an `int` socket option.
pub fn set_option_int(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to a live `i32` and the length is its size; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads `MPTCP_FULL_INFO`. `header` is `struct mptcp_full_info` as bytes with its input fields set, except for
/// the two addresses, which are filled in here at `subflow_pointer_at` and `tcp_pointer_at`.
pub(crate) fn full_info(
    fd: BorrowedFd<'_>,
    header: &mut [u8],
    (subflow_pointer_at, subflows): (usize, &mut [u8]),
    (tcp_pointer_at, tcp_infos): (usize, &mut [u8]),
    (count, subflow_size, tcp_size): (usize, usize, usize),
) -> io::Result<usize> {
    // The kernel writes through these pointers as far as the header's sizes say: they must be the buffers'.
    if subflows.len() < count * subflow_size || tcp_infos.len() < count * tcp_size {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let subflow_address = subflows.as_mut_ptr().expose_provenance() as u64;
    let tcp_address = tcp_infos.as_mut_ptr().expose_provenance() as u64;
    for (at, address) in [(subflow_pointer_at, subflow_address), (tcp_pointer_at, tcp_address)] {
        let field = header.get_mut(at..at + 8).ok_or(io::ErrorKind::InvalidInput)?;
        field.copy_from_slice(&address.to_ne_bytes());
    }
    // Both buffers stay mutably borrowed until here returns, so nothing else sees the kernel's writes half done.
    let length = option_bytes(fd, SOL_MPTCP, MPTCP_FULL_INFO, header)?;
    std::hint::black_box((subflows, tcp_infos));
    Ok(length)
}
