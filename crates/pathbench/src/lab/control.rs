//! Talking over the socket of a lab that stays. Its name is abstract, so any user of the machine can connect to it, or
//! listen under it first: each end looks whom it talks to, and waits neither long nor for much.

use crate::clock::MonotonicClock;
use pathbench_host::namespace::peer_uid;
use pathbench_record::time::{Clock as _, Timestamp};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest question or answer.
pub(crate) const MESSAGE_BYTES: u32 = 64 * 1024;

/// Most descriptors sent at a time.
const DESCRIPTORS: usize = 3;

/// Whether the other end is this user, or root. At a lab's own end, in its user namespace, root of the machine
/// cannot be distinguished from other users.
///
/// # Errors
/// The user that it is.
pub(crate) fn check_peer(connection: &UnixStream) -> Result<(), OtherUser> {
    let uid = peer_uid(connection).map_err(OtherUser::Unknown)?;
    if uid == 0 || uid == rustix::process::geteuid().as_raw() { Ok(()) } else { Err(OtherUser::User(uid)) }
}

/// The other end is somebody else.
#[derive(Debug)]
pub(crate) enum OtherUser {
    /// This user.
    User(u32),
    /// The kernel does not say who.
    Unknown(Errno),
}

impl std::fmt::Display for OtherUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(uid) => write!(f, "a process of user {uid}"),
            Self::Unknown(errno) => write!(f, "a process of an unknown user ({errno})"),
        }
    }
}

/// A connection with a deadline, which a peer that dribbles cannot extend.
#[derive(Debug)]
pub(crate) struct Timed<'a> {
    connection: &'a UnixStream,
    until: Timestamp,
}

impl<'a> Timed<'a> {
    pub(crate) fn new(connection: &'a UnixStream, time: Duration) -> Self {
        Self { connection, until: MonotonicClock.now() + time }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.since(MonotonicClock.now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for &Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.connection.set_read_timeout(self.left()?)?;
        let mut connection = self.connection;
        connection.read(buffer)
    }
}

impl Write for &Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.set_write_timeout(self.left()?)?;
        let mut connection = self.connection;
        connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends file descriptors, at most three.
pub(crate) fn send_descriptors(connection: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    sendmsg(connection, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives exactly so many file descriptors.
pub(crate) fn receive_descriptors<const N: usize>(connection: &UnixStream) -> io::Result<[OwnedFd; N]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    recvmsg(connection, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    descriptors.try_into().map_err(|_| io::Error::other("the other end handed over no descriptors"))
}
