//! TLS on a blocking socket, for one sending and one receiving thread.
//!
//! The protocol state is locked only for computations, never while a thread waits for the socket.

use crate::containment::lock;
use crate::error::{Failure, ReceiveError, SendError};
use crate::socket::ConnectedSocket;
use pathbench_record::time::Clock;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ciphertext read from the socket by one call: four records of the maximum size (RFC 8446, section 5.2).
const READ_BYTES: usize = 64 * 1024;

/// Time limit for the remaining records before the sending direction closes.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// One end of a TLS connection. Lock order: received, outgoing, session.
#[derive(Debug)]
pub(super) struct TlsLayer {
    session: Mutex<rustls::Connection>,
    /// Held by the sending thread, so that records are sent in order.
    outgoing: Mutex<Outgoing>,
    received: Mutex<Received>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl TlsLayer {
    pub(super) fn new(session: impl Into<rustls::Connection>, bytes: &[u8], clock: Arc<dyn Clock>) -> Self {
        let received = Mutex::new(Received { bytes: bytes.to_vec(), start: 0, end: bytes.len() });
        Self { session: Mutex::new(session.into()), outgoing: Mutex::default(), received, clock }
    }

    /// The negotiated cipher suite, once the handshake is complete.
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

    /// The client's handshake, up to the first application data, with which its last flight travels: of two writes
    /// right after a join the server's kernel may lose the first (`pathbench-traffic`, the test protocol).
    pub(super) fn handshake(&self, socket: &ConnectedSocket, timeout: Duration) -> Result<(), ReceiveError> {
        let deadline = self.clock.now() + timeout;
        let mut received = lock(&self.received);
        loop {
            let decrypted = self.decrypt(socket, &mut received, &mut []);
            if decrypted.is_ok() && !lock(&self.session).is_handshaking() {
                return Ok(());
            }
            let left = deadline.duration_since(self.clock.now());
            self.flush(socket, &mut lock(&self.outgoing), Some(left))
                .map_err(|error| receive_error(socket, &error))?;
            decrypted?;
            let left = deadline.duration_since(self.clock.now());
            if left.is_zero() {
                return Err(ReceiveError::TimedOut { peer: socket.peer, after: timeout });
            }
            if received.refill(socket, Some(left))? == 0 {
                return Err(ReceiveError::Reset { peer: socket.peer });
            }
        }
    }

    /// See [`crate::Connection::receive`]. A connection that ends without `close_notify` counts as ended: the test
    /// protocol has its own end.
    pub(super) fn receive(
        &self,
        socket: &ConnectedSocket,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        let deadline = timeout.map(|timeout| self.clock.now() + timeout);
        let mut received = lock(&self.received);
        let mut has_read = false;
        loop {
            let decrypted = self.decrypt(socket, &mut received, buffer);
            self.try_flush(socket);
            if let Some(count) = decrypted? {
                return Ok(count);
            }
            // A peer that sends a record byte by byte does not extend the timeout.
            if let Some(deadline) = deadline.filter(|_| has_read)
                && self.clock.now() >= deadline
            {
                return Err(Failure::TimedOut.on_receive(socket.peer, timeout));
            }
            if received.refill(socket, timeout)? == 0 {
                return Ok(0);
            }
            has_read = true;
        }
    }

    /// See [`crate::Connection::send`]. After a timeout, accepted bytes may still be queued here, encrypted; the next
    /// call in either direction sends them.
    pub(super) fn send(
        &self,
        socket: &ConnectedSocket,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, SendError> {
        let deadline = timeout.map(|timeout| self.clock.now() + timeout);
        let mut outgoing = lock(&self.outgoing);
        let mut taken = 0;
        loop {
            if outgoing.sent == outgoing.bytes.len() {
                let rest = bytes.get(taken..).unwrap_or_default();
                // The session accepts up to its own limit, 64 KiB.
                let written = lock(&self.session).writer().write(rest);
                taken += written.map_err(|source| SendError::Failed { peer: socket.peer, source })?;
            }
            let flushed = self.flush(socket, &mut outgoing, timeout)?;
            if flushed && taken == bytes.len() {
                return Ok(taken);
            }
            // A peer that accepts one record after the other does not extend the timeout.
            if !flushed || (taken > 0 && deadline.is_some_and(|deadline| self.clock.now() >= deadline)) {
                let nothing = || Failure::TimedOut.on_send(socket.peer, timeout);
                return if taken > 0 { Ok(taken) } else { Err(nothing()) };
            }
        }
    }

    pub(super) fn finish_sending(&self, socket: &ConnectedSocket) {
        let mut outgoing = lock(&self.outgoing);
        lock(&self.session).send_close_notify();
        // If the peer accepts no more data, close_notify is not sent.
        let _ = self.flush(socket, &mut outgoing, Some(CLOSING_TIME));
    }

    /// Like [`TlsLayer::finish_sending`], but non-blocking, for a connection that is being dropped.
    pub(super) fn close_without_waiting(&self, socket: &ConnectedSocket) {
        lock(&self.session).send_close_notify();
        self.try_flush(socket);
    }

    /// Decrypts into `buffer`; `None` when no data is available, `Some(0)` at the end of the stream.
    fn decrypt(
        &self,
        socket: &ConnectedSocket,
        received: &mut Received,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, ReceiveError> {
        let peer = socket.peer;
        let failed = |source| ReceiveError::Failed { peer, source };
        let mut session = lock(&self.session);
        let process = |session: &mut rustls::Connection| {
            let broken = |error| failed(io::Error::new(io::ErrorKind::InvalidData, error));
            session.process_new_packets().map(drop).map_err(broken)
        };
        // Returns an earlier error again.
        process(&mut session)?;
        let mut count = 0;
        loop {
            let free = buffer.get_mut(count..).unwrap_or_default();
            if !free.is_empty() {
                match session.reader().read(free) {
                    Ok(0) => return Ok(Some(count)),
                    Ok(read) => count += read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            let mut unread = received.unread();
            if unread.is_empty() || (count > 0 && count == buffer.len()) {
                return Ok((count > 0).then_some(count));
            }
            let taken = session.read_tls(&mut unread).map_err(failed)?;
            received.consume(taken);
            process(&mut session)?;
        }
    }

    /// Sends encrypted records; returns whether all were sent.
    fn flush(
        &self,
        socket: &ConnectedSocket,
        outgoing: &mut Outgoing,
        timeout: Option<Duration>,
    ) -> Result<bool, SendError> {
        loop {
            if outgoing.sent == outgoing.bytes.len() {
                outgoing.bytes.clear();
                outgoing.sent = 0;
                let mut session = lock(&self.session);
                while session.wants_write() {
                    // Writing to memory does not fail.
                    if session.write_tls(&mut outgoing.bytes).is_err() {
                        break;
                    }
                }
            }
            let rest = outgoing.bytes.get(outgoing.sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(true);
            }
            match socket.send(rest, timeout) {
                Ok(count) => outgoing.sent += count,
                Err(SendError::TimedOut { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            if outgoing.sent < outgoing.bytes.len() {
                return Ok(false);
            }
        }
    }

    /// Sends the protocol's own answers and the records that an earlier call left.
    fn try_flush(&self, socket: &ConnectedSocket) {
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            // The next send or receive reports a socket error.
            let _ = self.flush(socket, &mut outgoing, Some(Duration::ZERO));
        }
    }
}

impl Received {
    fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    fn refill(&mut self, socket: &ConnectedSocket, timeout: Option<Duration>) -> Result<usize, ReceiveError> {
        self.bytes.resize(READ_BYTES, 0);
        let count = socket.receive(&mut self.bytes, timeout)?;
        (self.start, self.end) = (0, count);
        Ok(count)
    }
}

fn receive_error(socket: &ConnectedSocket, error: &SendError) -> ReceiveError {
    let peer = socket.peer;
    match error {
        SendError::Reset { .. } => ReceiveError::Reset { peer },
        other => ReceiveError::Dead { peer, message: other.to_string() },
    }
}
