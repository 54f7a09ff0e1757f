//! TLS between an application and a blocking socket, for a thread that sends and another that receives.
//!
//! The protocol's state is locked only while it computes, never while a thread waits for the socket.

use crate::connected_socket::ConnectedSocket;
use crate::connection::{ReceiveError, SendError};
use pathbench_record::time::Clock;
use std::io::{self, Read as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Ciphertext that one call takes from the socket: four records of the largest size (RFC 8446, 5.2).
const INBOX_BYTES: usize = 64 * 1024;

/// How long what is left may take to go out before the sending direction is closed.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// One end of a TLS connection. Locks are taken in the order inbox, outbox, session.
#[derive(Debug)]
pub(super) struct Layer {
    session: Mutex<rustls::Connection>,
    /// Held by whoever sends, so that records leave in their order.
    outbox: Mutex<Outbox>,
    inbox: Mutex<Inbox>,
}

#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Layer {
    pub(super) fn new(session: impl Into<rustls::Connection>, bytes: &[u8]) -> Self {
        let inbox = Inbox { bytes: bytes.to_vec(), start: 0, end: bytes.len() };
        Self { session: Mutex::new(session.into()), outbox: Mutex::default(), inbox: Mutex::new(inbox) }
    }

    /// What it is encrypted with, once both ends have agreed.
    pub(super) fn encryption(&self) -> Option<String> {
        let session = lock(&self.session);
        if session.is_handshaking() {
            return None;
        }
        let version = match session.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_3 => "TLS 1.3".to_owned(),
            other => format!("{other:?}"),
        };
        Some(format!("{version} {:?}", session.negotiated_cipher_suite()?.suite()))
    }

    /// A client's part of the handshake, up to the point from which data may flow.
    pub(super) fn shake_hands(
        &self,
        socket: &ConnectedSocket,
        clock: &dyn Clock,
        timeout: Duration,
    ) -> Result<(), ReceiveError> {
        let deadline = clock.now() + timeout;
        let mut inbox = lock(&self.inbox);
        loop {
            let opened = self.open(socket, &mut inbox, &mut []);
            let left = deadline.since(clock.now());
            self.flush(socket, &mut lock(&self.outbox), Some(left)).map_err(|error| lost(socket, &error))?;
            opened?;
            if !lock(&self.session).is_handshaking() {
                return Ok(());
            }
            let left = deadline.since(clock.now());
            if left.is_zero() {
                return Err(ReceiveError::TimedOut { peer: socket.peer_addr(), after: timeout });
            }
            if inbox.refill(socket, Some(left))? == 0 {
                return Err(ReceiveError::Reset { peer: socket.peer_addr() });
            }
        }
    }

    /// [`crate::Connection::receive`]. The end of the connection without a `close_notify` counts as the end, too:
    /// the test protocol has an end of its own.
    pub(super) fn receive(
        &self,
        socket: &ConnectedSocket,
        clock: &dyn Clock,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        let deadline = timeout.map(|timeout| clock.now() + timeout);
        let mut inbox = lock(&self.inbox);
        let mut looked = false;
        loop {
            let opened = self.open(socket, &mut inbox, buffer);
            self.flush_if_nobody_sends(socket);
            if let Some(count) = opened? {
                return Ok(count);
            }
            // A peer that sends a record byte by byte does not prolong the time.
            if let Some(deadline) = deadline.filter(|_| looked)
                && clock.now() >= deadline
            {
                let after = timeout.unwrap_or_default();
                return Err(ReceiveError::TimedOut { peer: socket.peer_addr(), after });
            }
            if inbox.refill(socket, timeout)? == 0 {
                return Ok(0);
            }
            looked = true;
        }
    }

    /// [`crate::Connection::send`]. What was taken may still wait here, encrypted, when the time ran out: the next
    /// call in either direction sends it on.
    pub(super) fn send(
        &self,
        socket: &ConnectedSocket,
        clock: &dyn Clock,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, SendError> {
        let deadline = timeout.map(|timeout| clock.now() + timeout);
        let mut outbox = lock(&self.outbox);
        let mut taken = 0;
        loop {
            let flushed = self.flush(socket, &mut outbox, timeout)?;
            // A peer that takes one record after the other does not prolong the time.
            if !flushed || (taken > 0 && deadline.is_some_and(|deadline| clock.now() >= deadline)) {
                let after = timeout.unwrap_or_default();
                let nothing = SendError::TimedOut { peer: socket.peer_addr(), after };
                return if taken > 0 { Ok(taken) } else { Err(nothing) };
            }
            let rest = bytes.get(taken..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(taken);
            }
            // The session takes up to its own bound, 64 KiB.
            let written = lock(&self.session).writer().write(rest);
            taken += written.map_err(|source| SendError::Failed { peer: socket.peer_addr(), source })?;
        }
    }

    pub(super) fn finish_sending(&self, socket: &ConnectedSocket) {
        let mut outbox = lock(&self.outbox);
        lock(&self.session).send_close_notify();
        // A peer that takes nothing more is not told.
        let _ = self.flush(socket, &mut outbox, Some(CLOSING_TIME));
    }

    /// The same without waiting, for a connection that is being dropped.
    pub(super) fn leave(&self, socket: &ConnectedSocket) {
        lock(&self.session).send_close_notify();
        self.flush_if_nobody_sends(socket);
    }

    /// Decrypts into `buffer` as much as there is; `None` when that is nothing, `Some(0)` at the end.
    fn open(
        &self,
        socket: &ConnectedSocket,
        inbox: &mut Inbox,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, ReceiveError> {
        let peer = socket.peer_addr();
        let failed = |source| ReceiveError::Failed { peer, source };
        let mut session = lock(&self.session);
        let process = |session: &mut rustls::Connection| {
            let broken = |error| failed(io::Error::new(io::ErrorKind::InvalidData, error));
            session.process_new_packets().map(drop).map_err(broken)
        };
        // Fails again when it has failed before.
        process(&mut session)?;
        let mut count = 0;
        loop {
            let room = buffer.get_mut(count..).unwrap_or_default();
            if !room.is_empty() {
                match session.reader().read(room) {
                    Ok(0) => return Ok(Some(count)),
                    Ok(read) => count += read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            let mut unread = inbox.unread();
            if unread.is_empty() || (count > 0 && count == buffer.len()) {
                return Ok((count > 0).then_some(count));
            }
            let taken = session.read_tls(&mut unread).map_err(failed)?;
            inbox.consume(taken);
            process(&mut session)?;
        }
    }

    /// Hands what is encrypted to the socket; whether that was all of it.
    fn flush(
        &self,
        socket: &ConnectedSocket,
        outbox: &mut Outbox,
        timeout: Option<Duration>,
    ) -> Result<bool, SendError> {
        loop {
            if outbox.sent == outbox.bytes.len() {
                outbox.bytes.clear();
                outbox.sent = 0;
                let mut session = lock(&self.session);
                while session.wants_write() {
                    // Writing to memory does not fail.
                    if session.write_tls(&mut outbox.bytes).is_err() {
                        break;
                    }
                }
            }
            let rest = outbox.bytes.get(outbox.sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(true);
            }
            match socket.send(rest, timeout) {
                Ok(count) => outbox.sent += count,
                Err(SendError::TimedOut { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            if outbox.sent < outbox.bytes.len() {
                return Ok(false);
            }
        }
    }

    /// Answers of the protocol itself, and what an earlier call had to leave.
    fn flush_if_nobody_sends(&self, socket: &ConnectedSocket) {
        if let Ok(mut outbox) = self.outbox.try_lock() {
            // A socket that is broken says so to whoever sends or receives next.
            let _ = self.flush(socket, &mut outbox, Some(Duration::ZERO));
        }
    }
}

impl Inbox {
    fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    fn refill(&mut self, socket: &ConnectedSocket, timeout: Option<Duration>) -> Result<usize, ReceiveError> {
        self.bytes.resize(INBOX_BYTES, 0);
        let count = socket.receive(&mut self.bytes, timeout)?;
        (self.start, self.end) = (0, count);
        Ok(count)
    }
}

fn lost(socket: &ConnectedSocket, error: &SendError) -> ReceiveError {
    let peer = socket.peer_addr();
    match error {
        SendError::Reset { .. } => ReceiveError::Reset { peer },
        other => ReceiveError::Dead { peer, message: other.to_string() },
    }
}

/// A panic of another thread leaves the session as it was after its last call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
