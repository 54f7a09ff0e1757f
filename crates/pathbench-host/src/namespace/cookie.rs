//! A network namespace's number that no other ever has.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use std::os::fd::AsRawFd as _;

/// `SO_NETNS_COOKIE` of `asm-generic/socket.h`, since Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The number of the calling thread's network namespace, which the kernel gives to no other one until it is booted
/// anew. Inodes of namespaces, on the other hand, are given again as soon as the namespace is gone.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.14.
pub fn current_cookie() -> Result<u64, Errno> {
    // Of whatever family: every socket belongs to its creator's network namespace.
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, which has that many and lives past the call.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if answer == 0 {
        Ok(cookie)
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}
