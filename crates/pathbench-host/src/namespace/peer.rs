//! Who is at the other end of a Unix socket.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd as _};

/// The user id of the process that connected to, or listens on, the other end of a Unix socket, as the calling
/// process's user namespace has it: one that is not mapped there is the overflow id, 65534.
///
/// # Errors
/// When it is no Unix socket, or not connected.
pub fn peer_uid(socket: impl AsFd) -> Result<u32, Errno> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `credentials`, which has that many and lives past the call;
    // any bytes are a valid `ucred`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if answer == 0 && length as usize == size_of::<libc::ucred>() {
        Ok(credentials.uid)
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_an_own_pair_is_this_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&one), Ok(rustix::process::geteuid().as_raw()));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(peer_uid(&file), Err(Errno::NOTSOCK));
    }
}
