//! System calls without a safe wrapper: their results, and socket options as kernel structures.

#![allow(unsafe_code, reason = "calls, signals and socket options that no library has")]

use rustix::io::Errno;
use rustix::process::Pid;
use std::os::fd::{AsFd, AsRawFd as _};

/// The error number of a call that returned a negative value.
pub(crate) fn outcome(answer: libc::c_int) -> Result<(), Errno> {
    if answer >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Sends a signal, also one of real time, to a process. Errors: it has ended, or is another user's.
pub fn send_signal(process: Pid, signal: i32) -> Result<(), Errno> {
    // SAFETY: kill(2) takes integers only.
    outcome(unsafe { libc::kill(process.as_raw_pid(), signal) })
}

/// Closes all descriptors of this process but the standard ones, which its ancestors may have left open: pipes and sockets
/// would stay open as long as this process lives. To be called before any other is opened.
pub fn close_inherited_descriptors() {
    // SAFETY: no object of this process owns one of these descriptors yet. Before Linux 5.9 the call fails, and they stay
    // open.
    let _older = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
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
