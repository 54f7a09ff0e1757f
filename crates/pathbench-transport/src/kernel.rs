//! Socket options without a safe wrapper, because their length varies.
#![allow(unsafe_code, reason = "getsockopt and setsockopt with the kernel's own structures")]

use crate::kernel_answers::{
    FULL_MPTCP_INFO, FULL_SUBFLOW_POINTER, FULL_TCP_POINTER, MPTCP_INFO_CAPACITY, SUBFLOW_INFO_SIZE,
    TCP_INFO_CAPACITY,
};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

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
    // SAFETY: pointer and length describe `buffer`, which outlives the call; the descriptor is borrowed. Only
    // `full_info` passes addresses inside `buffer`, and those of live buffers of the sizes given with them.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, buffer.as_mut_ptr().cast(), &raw mut length) };
    if result == 0 { Ok((length as usize).min(buffer.len())) } else { Err(io::Error::last_os_error()) }
}

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

/// Takes up to `most` bytes from a connected tcp or mptcp socket and copies none of them (`MSG_TRUNC`, tcp(7)).
pub(crate) fn discard(fd: BorrowedFd<'_>, most: usize, flags: RecvFlags) -> rustix::io::Result<usize> {
    let flags = flags.bits() as i32 | libc::MSG_TRUNC;
    // SAFETY: the kernel writes nothing with MSG_TRUNC to a stream socket; if it did, a null pointer would give EFAULT.
    let count = unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), most, flags) };
    usize::try_from(count)
        .map_err(|_negative| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Reads `MPTCP_FULL_INFO` into `header`, a `struct mptcp_full_info`, and into buffers for `capacity` elements of
/// `struct mptcp_subflow_info` and `tcp_info`; returns the header's length.
pub(crate) fn full_info(
    fd: BorrowedFd<'_>,
    header: &mut [u8; FULL_MPTCP_INFO + MPTCP_INFO_CAPACITY],
    (subflows, tcp_infos): (&mut [u8], &mut [u8]),
    capacity: usize,
) -> io::Result<usize> {
    // The kernel writes through these pointers up to the sizes in the header, so the buffers must have these sizes.
    if subflows.len() < capacity * SUBFLOW_INFO_SIZE || tcp_infos.len() < capacity * TCP_INFO_CAPACITY {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    header.fill(0);
    // size_tcpinfo_user, size_sfinfo_user, size_arrays_user
    for (at, value) in [(4, TCP_INFO_CAPACITY), (12, SUBFLOW_INFO_SIZE), (20, capacity)] {
        header[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes());
    }
    let subflow_address = subflows.as_mut_ptr().expose_provenance() as u64;
    let tcp_address = tcp_infos.as_mut_ptr().expose_provenance() as u64;
    for (at, address) in [(FULL_SUBFLOW_POINTER, subflow_address), (FULL_TCP_POINTER, tcp_address)] {
        header[at..at + 8].copy_from_slice(&address.to_ne_bytes());
    }
    // Both buffers stay mutably borrowed until the function returns, so no other code reads a partial write.
    let length = option_bytes(fd, SOL_MPTCP, MPTCP_FULL_INFO, header)?;
    std::hint::black_box((subflows, tcp_infos));
    Ok(length)
}
