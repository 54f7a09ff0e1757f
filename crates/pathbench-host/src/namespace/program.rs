//! The surroundings of a program that runs in a lab's host: `/sys` of the network namespace, and one user.

use super::lab::unshare;
use crate::seccomp::SeccompFilter;
use crate::syscall::outcome;
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Calls that change the user or group of a process or file, on all processors.
const IDENTITY_CALLS: [libc::c_long; 9] = [
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_fchown,
    libc::SYS_fchownat,
];
/// Those that newer processors do without.
#[cfg(target_arch = "x86_64")]
const OLD_IDENTITY_CALLS: [libc::c_long; 2] = [libc::SYS_chown, libc::SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const OLD_IDENTITY_CALLS: [libc::c_long; 0] = [];

/// Mounts a sysfs of the process's network namespace on `/sys`, in a mount namespace of the process's own: an instance
/// of sysfs shows the interfaces of the namespace in which it was mounted (`ip netns exec` does the same). The process
/// must be single-threaded.
///
/// # Errors
/// `EPERM` where a container hides parts of `/sys`.
pub fn mount_own_sysfs() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWNS)?;
    let nothing = std::ptr::null();
    // SAFETY: the kernel reads the strings, which are constants; it copies the other arguments.
    outcome(unsafe {
        libc::mount(nothing, c"/".as_ptr(), nothing, libc::MS_REC | libc::MS_SLAVE, nothing.cast())
    })?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (name, target) = (c"sysfs".as_ptr(), c"/sys".as_ptr());
    // SAFETY: as above.
    outcome(unsafe { libc::mount(name, target, name, flags, nothing.cast()) })
}

/// Lets calls of this process and its descendants that change users and groups do nothing and report success. A rootless
/// user namespace has one user and one group (`user_namespaces(7)`), so that such a call changes nothing or fails, and
/// programs that give up root, as `tcpdump` does, end. The process needs `CAP_SYS_ADMIN` in its user namespace.
///
/// # Errors
/// `ENOSYS` on a processor without a known `AUDIT_ARCH_*`.
pub fn keep_one_user() -> Result<(), Errno> {
    let calls = [&IDENTITY_CALLS[..], &OLD_IDENTITY_CALLS[..]].concat();
    let filter = SeccompFilter::succeeding(&calls).ok_or(Errno::NOSYS)?;
    let program = libc::sock_fprog {
        len: u16::try_from(filter.0.len()).map_err(|_| Errno::INVAL)?,
        filter: filter.0.as_ptr().cast_mut(),
    };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel copies the program, which lives until the call returns.
    let installed = unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) };
    outcome(if installed < 0 { -1 } else { 0 })
}
