//! System calls without a safe wrapper: their results, and socket options as kernel structures.

#![allow(unsafe_code, reason = "getsockopt(2) and setsockopt(2) of options that no library has")]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd as _};

/// The error number of a call that returned a negative value.
pub(crate) fn outcome(answer: libc::c_int) -> Result<(), Errno> {
    if answer >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Reads a socket option. `T` is a structure of integers, for which all bytes are valid.
pub(crate) fn option<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    mut value: T,
) -> Result<T, Errno> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has that many and lives past the call.
    outcome(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) })?;
    if length as usize == size_of::<T>() { Ok(value) } else { Err(Errno::IO) }
}

/// Sets a socket option. Memory that `value` points to must outlive the call.
pub(crate) fn set_option<T>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let (pointer, length) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of the value, which lives until the call returns.
    outcome(unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, pointer, length) })
}
