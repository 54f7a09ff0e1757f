//! What sockets report of namespaces and peers (socket(7), unix(7)).

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use std::os::fd::{AsFd, AsRawFd as _};

/// `SO_NETNS_COOKIE` of `asm-generic/socket.h`, since Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The number of the calling thread's network namespace, which the kernel gives to no other one until the next boot, while
/// it reuses inodes of namespaces as soon as one is gone (`ENOPROTOOPT` before Linux 5.14).
pub fn current_cookie() -> Result<u64, Errno> {
    // Of any family: every socket belongs to its creator's network namespace.
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    option(&socket, SO_NETNS_COOKIE, 0)
}

/// The user id of the process that connected to, or listens on, the other end of a Unix socket, in the calling
/// process's user namespace: one that is not mapped there is the overflow id, 65534.
pub fn peer_uid(socket: impl AsFd) -> Result<u32, Errno> {
    let credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    option(&socket, libc::SO_PEERCRED, credentials).map(|credentials| credentials.uid)
}

fn option<T: Copy>(socket: &impl AsFd, name: libc::c_int, mut value: T) -> Result<T, Errno> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has that many and lives past the call; any bytes
    // are valid numbers.
    let answer =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    if answer == 0 && length as usize == size_of::<T>() {
        Ok(value)
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}
