//! Socket options that take a number and have no safe wrapper.
#![allow(unsafe_code, reason = "setsockopt for options that no safe wrapper knows")]

use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd as _;

/// Sets an option whose value is an `int` (setsockopt(2)).
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn set_option(socket: &Socket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option value is a live i32 and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
