//! Running processes, from `/proc` (proc(5)).
//!
//! A process that has joined another PID namespace without mounting its `/proc`, as in a lab, finds other numbers there
//! than system calls report. [`Numbering`] translates; all other functions take numbers of `/proc`.

pub use crate::syscall::{close_inherited_descriptors, send_signal};

use pathbench_record::file;
use rustix::fs::{Mode, OFlags, open, readlinkat_raw};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A namespace by the device and inode of its file.
pub type NamespaceId = (u64, u64);

/// The thread's number in `/proc`, for one from a system call.
#[derive(Debug, Clone, Copy)]
pub struct Numbering {
    is_same: bool,
}

impl Numbering {
    pub fn read() -> Self {
        let own = fs::read_link("/proc/self").ok().and_then(|own| own.to_str()?.parse::<i32>().ok());
        Self { is_same: own == Some(getpid().as_raw_nonzero().get()) }
    }

    /// `None` once the thread has ended, if it is not visible there, and before Linux 6.9 for all but the first thread of
    /// a process if the numbers differ.
    pub fn in_proc(self, thread: u32) -> Option<u32> {
        if self.is_same {
            return Some(thread).filter(|thread| *thread != 0);
        }
        // `fdinfo` of a pidfd has the number in the PID namespace of this `/proc` (`pidfd_show_fdinfo`, fs/pidfs.c).
        let id = Pid::from_raw(i32::try_from(thread).ok()?)?;
        let of_thread = PidfdFlags::from_bits_retain(libc::PIDFD_THREAD);
        let descriptor = pidfd_open(id, of_thread).or_else(|_| pidfd_open(id, PidfdFlags::empty())).ok()?;
        let about = read_text(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd())).ok()?;
        let number: i32 = field(&about, "Pid:")?.parse().ok()?;
        u32::try_from(number).ok().filter(|number| *number != 0)
    }
}

/// The network namespace of a thread.
/// Errors: `NotFound` once it has ended, `PermissionDenied` for a process that this user may not examine (another user's,
/// or one that is not dumpable).
pub fn network_namespace(thread: u32) -> io::Result<NamespaceId> {
    identity(format!("/proc/{thread}/ns/net"))
}

pub fn own_network_namespace() -> io::Result<NamespaceId> {
    identity("/proc/thread-self/ns/net")
}

fn identity(file: impl AsRef<Path>) -> io::Result<NamespaceId> {
    fs::metadata(file).map(|file| (file.dev(), file.ino()))
}

/// The namespaces of one thread. The directory belongs to the thread and not to its number: once the thread has ended, no
/// namespace can be read from it, also if another thread has the number.
#[derive(Debug)]
pub struct NamespaceDirectory {
    directory: OwnedFd,
}

impl NamespaceDirectory {
    /// `thread` is a number of `/proc`.
    pub fn open(thread: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: open(format!("/proc/{thread}/ns"), flags, Mode::empty())? })
    }

    pub fn own() -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: open("/proc/thread-self/ns", flags, Mode::empty())? })
    }

    /// The inode of the network namespace, from the link's text: looking up the namespace's file costs twice the time.
    /// Errors: `EACCES` once the thread has ended, and for a process that this user may not examine.
    pub fn network(&self) -> Result<u64, Errno> {
        let mut buffer = [0; 64];
        let length = readlinkat_raw(&self.directory, "net", &mut buffer[..])?;
        let text = buffer.get(..length).and_then(|text| std::str::from_utf8(text).ok());
        let inode = text.and_then(|text| text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
        inode.ok_or(Errno::INVAL)
    }
}

/// A process's id and its parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancestry {
    pub process: u32,
    /// 0 without a parent in this PID namespace.
    pub parent: u32,
}

/// The process of a thread, and its parent; `None` once it has ended.
pub fn ancestry(thread: u32) -> Option<Ancestry> {
    Status::read(&thread.to_string()).map(|status| status.ancestry)
}

struct Status {
    ancestry: Ancestry,
    /// The ids in nested PID namespaces, from that of `/proc` inwards.
    ids: Vec<i32>,
}

impl Status {
    fn read(process: &str) -> Option<Self> {
        let status = read_text(format!("/proc/{process}/status")).ok()?;
        let number = |name| field(&status, name)?.parse().ok();
        let ids = field(&status, "NSpid:")?.split_ascii_whitespace();
        Some(Self {
            ancestry: Ancestry { process: number("Tgid:")?, parent: number("PPid:")? },
            ids: ids.filter_map(|id| id.parse().ok()).collect(),
        })
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The name of a thread's program, at most 15 bytes (`/proc/PID/comm`); `None` once it has ended.
pub fn program_name(thread: u32) -> Option<String> {
    let name = read_text(format!("/proc/{thread}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The processes of a program, by ids of `/proc`, in ascending order: those that execute `file`, and those with its name,
/// such as scripts and processes whose executable this user may not examine.
pub fn processes_of(file: &Path) -> Vec<u32> {
    let wanted = identity(file).ok();
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_wanted = |process: u32| {
        let executed = identity(executable(process)).ok();
        let has_name = || program_name(process).is_some_and(|found| !found.is_empty() && found == cut(&name));
        (wanted.is_some() && executed == wanted) || has_name()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> = ids.filter(|process| is_wanted(*process)).collect();
    found.sort_unstable();
    found
}

/// The part of a program's name that `/proc/PID/comm` contains (`TASK_COMM_LEN` without the terminator).
fn cut(name: &str) -> &str {
    let end = (0..=name.len().min(15)).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}

/// All descendants of this process, by ids for system calls.
pub fn descendants() -> Vec<Pid> {
    let Some(own) = Status::read("self") else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<Status> = entries
        .filter_map(|entry| Status::read(entry.file_name().to_str().filter(|name| is_id(name))?))
        .collect();
    let mut found = vec![own.ancestry.process];
    let mut ids = Vec::new();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        for child in all.iter().filter(|one| one.ancestry.parent == parent) {
            found.push(child.ancestry.process);
            ids.extend(child.ids.get(own.ids.len().saturating_sub(1)).and_then(|id| Pid::from_raw(*id)));
        }
        at += 1;
    }
    ids
}

fn is_id(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Adopts orphaned descendants of this process (`PR_SET_CHILD_SUBREAPER`), so that it can find and reap them.
pub fn adopt_orphans() -> Result<(), Errno> {
    rustix::process::set_child_subreaper(Some(getpid()))
}

pub fn control_group(process: u32) -> Option<String> {
    read_text(format!("/proc/{process}/cgroup")).ok()
}

/// A file of /proc.
fn read_text(path: String) -> io::Result<String> {
    file::read_text(path, file::SMALL_FILE_BYTES)
}

/// The begin of the section `.go.buildinfo` (Go's debug/buildinfo).
const GO_BUILD_INFORMATION: &[u8] = b"\xff Go buildinf:";
const MOST_SEARCHED_BYTES: u64 = 256 << 20;

pub fn executable(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/exe"))
}

/// Whether an executable is a Go program, as far as it is readable.
pub fn is_go_program(executable: &Path) -> bool {
    let Ok(file) = file::open_named(executable) else { return false };
    let mut file = file.take(MOST_SEARCHED_BYTES);
    let mut window = Vec::new();
    loop {
        let kept = window.len().min(GO_BUILD_INFORMATION.len() - 1);
        window.drain(..window.len() - kept);
        match file.by_ref().take(1 << 20).read_to_end(&mut window) {
            Ok(0) | Err(_) => return false,
            Ok(_) if window.windows(GO_BUILD_INFORMATION.len()).any(|part| part == GO_BUILD_INFORMATION) => {
                return true;
            }
            Ok(_) => {}
        }
    }
}
