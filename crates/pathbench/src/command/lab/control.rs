//! Messages on the socket of a running lab. The socket is abstract (unix(7)), so any user of the machine can connect
//! to it or bind its name first. Each end therefore checks the peer's user, and limits time and length.

use pathbench_host::namespace::peer_uid;
use pathbench_record::time::{Timestamp, WallClock};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub(crate) const MESSAGE_BYTES: u32 = 64 * 1024;

const DESCRIPTORS: usize = 3;

/// Checks that the peer is this user or root. In the lab's user namespace, the machine's root cannot be distinguished
/// from other users.
pub(crate) fn check_peer(connection: &UnixStream) -> Result<(), OtherUser> {
    match peer_uid(connection) {
        Ok(uid) if uid == 0 || uid == rustix::process::geteuid().as_raw() => Ok(()),
        Ok(uid) => Err(OtherUser(format!("a process of user {uid}"))),
        Err(errno) => Err(OtherUser(format!("a process of an unknown user ({errno})"))),
    }
}

/// The peer's user, in words.
#[derive(Debug)]
pub(crate) struct OtherUser(pub(crate) String);

/// A connection with a deadline that a slow peer cannot extend.
#[derive(Debug)]
pub(crate) struct Timed<'a> {
    connection: &'a UnixStream,
    clock: &'a dyn WallClock,
    until: Timestamp,
}

impl<'a> Timed<'a> {
    pub(crate) fn new(connection: &'a UnixStream, clock: &'a dyn WallClock, time: Duration) -> Self {
        Self { connection, clock, until: clock.now() + time }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.duration_since(self.clock.now());
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

pub(crate) fn send_descriptors(connection: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    sendmsg(connection, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

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
    descriptors.try_into().map_err(|_| io::Error::other("the other end sent no file descriptors"))
}
