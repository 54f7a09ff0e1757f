//! The thread that answers the program's calls: each at once, without waiting for anything.

use crate::activity::SocketActivity;
use crate::decision::{Caller, Decision, LeftOnTcp, Namespace, decide};
use pathbench_host::process::{NamespaceDirectory, Numbering, ancestry, program_name};
use pathbench_host::scheduling::shorten_slice;
use pathbench_host::seccomp::{SeccompListener, SeccompNotification, SeccompReception, SystemCall};
use pathbench_host::sockets::protocol_name;
use pathbench_transport::{contain_panic, lock};
use rustix::event::Timespec;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt::socket_cookie};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// Answers the calls of a tree of processes.
#[derive(Debug)]
pub struct Answering<'a> {
    listener: &'a SeccompListener,
    activity: &'a Mutex<SocketActivity>,
    numbering: Numbering,
    /// The first process of the tree, in `/proc`.
    root: u32,
    /// The network namespace of the sockets that this creates.
    own: Option<u64>,
}

impl<'a> Answering<'a> {
    /// `root` is the id of the tree's first process. Sockets belong to the network namespace of the calling thread.
    pub fn new(listener: &'a SeccompListener, activity: &'a Mutex<SocketActivity>, root: u32) -> Self {
        let numbering = Numbering::read();
        let own = NamespaceDirectory::own().and_then(|own| own.network()).ok();
        Self { listener, activity, numbering, root: numbering.in_proc(root).unwrap_or_default(), own }
    }

    /// Answers every call until the last process of the tree has ended, or until `until` is readable.
    /// Errors: the listener cannot be read; the calls of the remaining processes then fail with `ENOSYS`.
    pub fn run(&self, until: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        // A program waits for each answer.
        let _slice_ignored = shorten_slice();
        let mut prepared = Prepared::default();
        loop {
            let time = prepared.spare.0.is_some().then_some(&SPARE_TIME);
            let notification = match self.listener.receive(until, time)? {
                SeccompReception::Call(notification) => notification,
                SeccompReception::Quiet => {
                    prepared.spare = SpareSocket::default();
                    continue;
                }
                SeccompReception::End => return Ok(()),
            };
            // An error means that the call does not wait any more: its thread was killed or interrupted.
            let answered = contain_panic(|| self.answer(&notification, &mut prepared));
            // After a panic the call would wait for ever. If it was answered before, the kernel refuses this.
            let _gone = answered.unwrap_or_else(|_printed| self.listener.leave_to_kernel(notification.id));
        }
    }

    fn answer(&self, notification: &SeccompNotification, prepared: &mut Prepared) -> Result<(), Errno> {
        let directories = &mut prepared.directories;
        match decide(&notification.call, || self.examine(notification.thread, directories)) {
            Decision::Create { family, nonblocking, close_on_exec } => {
                let kind = SocketKind { family, nonblocking };
                let answered = self.create(notification, kind, close_on_exec, &mut prepared.spare);
                // While the program continues: programs that open one connection after the other open the same.
                prepared.spare = SpareSocket::new(kind);
                answered
            }
            Decision::Leave(reason) => self.leave(notification, reason),
            Decision::Pass => {
                self.note(&notification.call, notification.thread);
                self.listener.leave_to_kernel(notification.id)
            }
        }
    }

    fn leave(&self, notification: &SeccompNotification, reason: LeftOnTcp) -> Result<(), Errno> {
        let program = self.program(notification.thread);
        lock(self.activity).left(reason, &program);
        self.listener.leave_to_kernel(notification.id)
    }

    fn program(&self, thread: u32) -> String {
        let name = self.numbering.in_proc(thread).and_then(program_name);
        name.unwrap_or_else(|| "a process that has ended".to_owned())
    }

    fn examine(&self, thread: u32, directories: &mut NamespaceDirectories) -> Caller {
        let theirs = directories.network(thread, || self.numbering.in_proc(thread));
        let namespace = match (theirs, self.own) {
            (Some(theirs), Some(own)) if theirs == own => Namespace::Same,
            (Some(_), Some(_)) => Namespace::Other,
            _ => Namespace::Unknown,
        };
        let activity = lock(self.activity);
        let confinement = &activity.confinement;
        let is_confined = confinement.is_in_use() && {
            let thread = self.numbering.in_proc(thread).unwrap_or_default();
            confinement.includes(thread, self.root, ancestry)
        };
        Caller { namespace, is_confined }
    }

    fn note(&self, call: &SystemCall, thread: u32) {
        match *call {
            SystemCall::RestrictSelf => match self.numbering.in_proc(thread).and_then(ancestry) {
                Some(found) => lock(self.activity).confinement.add(found.process),
                // It has ended, or its number is not visible in /proc.
                None => lock(self.activity).confinement.add_unknown(),
            },
            SystemCall::IoUring => {
                let program = self.program(thread);
                lock(self.activity).used_io_uring(&program);
            }
            SystemCall::SetOption { descriptor, option } => {
                let name =
                    self.numbering.in_proc(thread).and_then(|thread| protocol_name(thread, descriptor));
                if name.is_some_and(|name| name.starts_with("MPTCP")) {
                    lock(self.activity).refused_option(option);
                }
            }
            SystemCall::Socket { .. } | SystemCall::Other => {}
        }
    }

    fn create(
        &self,
        notification: &SeccompNotification,
        kind: SocketKind,
        close_on_exec: bool,
        spare: &mut SpareSocket,
    ) -> Result<(), Errno> {
        let made = spare.take(kind).map_or_else(|| MadeSocket::new(kind), Ok);
        let Ok(MadeSocket { socket, cookie, inode }) = made else {
            return self.leave(notification, LeftOnTcp::MptcpRefused);
        };
        let answered = self.listener.answer_with(notification.id, socket.as_fd(), close_on_exec);
        // Closed before anything else: the peer would see no end of the connection while this process holds a copy.
        drop(socket);
        match answered {
            Ok(()) => {
                let mut activity = lock(self.activity);
                activity.has_ipv6 |= kind.family == libc::AF_INET6;
                activity.created(cookie, inode);
            }
            Err(Errno::NOENT) => {}
            Err(errno) => {
                lock(self.activity).refused_for_descriptors += 1;
                return self.listener.fail(notification.id, errno);
            }
        }
        Ok(())
    }
}

/// Kept from one answer to the next, because it takes time to make.
#[derive(Debug, Default)]
struct Prepared {
    spare: SpareSocket,
    directories: NamespaceDirectories,
}

/// The namespaces of the threads that called last, by the numbers of system calls; the newest last.
#[derive(Debug, Default)]
struct NamespaceDirectories(Vec<(u32, NamespaceDirectory)>);

const MOST_DIRECTORIES: usize = 16;

impl NamespaceDirectories {
    /// The inode of the thread's network namespace as it is now; `number` is the thread's in `/proc`.
    fn network(&mut self, thread: u32, number: impl FnOnce() -> Option<u32>) -> Option<u64> {
        let known = self.0.iter().position(|(of, _)| *of == thread);
        if let Some(known) = known {
            if let Ok(inode) = self.0[known].1.network() {
                return Some(inode);
            }
            // That thread has ended, and its number is another's.
            self.0.remove(known);
        }
        let directory = NamespaceDirectory::open(number()?).ok()?;
        let inode = directory.network().ok()?;
        if self.0.len() >= MOST_DIRECTORIES {
            self.0.remove(0);
        }
        self.0.push((thread, directory));
        Some(inode)
    }
}

/// A spare socket is kept for this time, so that it has the settings of the host as they are when the program calls.
const SPARE_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketKind {
    /// `AF_*`
    family: i32,
    nonblocking: bool,
}

/// A new MPTCP socket, its cookie and the inode of its file.
#[derive(Debug)]
struct MadeSocket {
    socket: OwnedFd,
    cookie: u64,
    inode: u32,
}

impl MadeSocket {
    fn new(kind: SocketKind) -> Result<Self, Errno> {
        let family = if kind.family == libc::AF_INET6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = if kind.nonblocking { SocketFlags::NONBLOCK } else { SocketFlags::empty() };
        let flags = flags | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP))?;
        let cookie = socket_cookie(&socket)?;
        // `idiag_inode` has 32 bits.
        let inode = fstat(&socket)?.st_ino as u32;
        Ok(Self { socket, cookie, inode })
    }
}

/// A socket that was made after an answer, for the next call of the same kind.
#[derive(Debug, Default)]
struct SpareSocket(Option<(SocketKind, MadeSocket)>);

impl SpareSocket {
    fn new(kind: SocketKind) -> Self {
        Self(MadeSocket::new(kind).ok().map(|made| (kind, made)))
    }

    fn take(&mut self, kind: SocketKind) -> Option<MadeSocket> {
        self.0.take().filter(|(spare, _)| *spare == kind).map(|(_, made)| made)
    }
}
