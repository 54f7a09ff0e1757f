//! A connection: bytes in, bytes out, from as many threads as it takes.

use crate::connected_socket::ConnectedSocket;
use crate::quic::QuicStream;
use crate::telemetry::Telemetry;
use crate::tls::TlsSocket;
use pathbench_record::connection::{InForce, PathEvent};
use pathbench_record::transport::Transport;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// An open connection over any transport.
///
/// All methods take `&self`; one thread may receive while another sends and a third aborts. Two threads
/// *receiving* (or two sending) at once must use the same timeout. Dropping it ends the sending direction in
/// good order; a kernel socket lives on until the last [`Telemetry`] of it is dropped, too.
///
/// Over quic and mpquic a connection in this sense is one bidirectional stream of a QUIC connection.
#[derive(Debug)]
pub struct Connection {
    carrier: Carrier,
}

#[derive(Debug)]
enum Carrier {
    Socket(ConnectedSocket),
    /// tcp and mptcp, encrypted, or at a server that takes both.
    Tls(Box<TlsSocket>),
    Stream(QuicStream),
}

impl From<ConnectedSocket> for Connection {
    fn from(socket: ConnectedSocket) -> Self {
        Self { carrier: Carrier::Socket(socket) }
    }
}

impl From<TlsSocket> for Connection {
    fn from(socket: TlsSocket) -> Self {
        Self { carrier: Carrier::Tls(Box::new(socket)) }
    }
}

/// Why nothing was received.
#[derive(Debug, Error)]
pub enum ReceiveError {
    #[error("nothing received from {peer} for {} s", .after.as_secs_f64())]
    TimedOut { peer: SocketAddr, after: Duration },
    #[error("{peer} reset the connection")]
    Reset { peer: SocketAddr },
    #[error("the connection to {peer} is dead: {message}")]
    Dead { peer: SocketAddr, message: String },
    /// [`Connection::abort`] was called at this end.
    #[error("the connection to {peer} was aborted at this end")]
    Aborted { peer: SocketAddr },
    #[error("receiving from {peer}: {source}")]
    Failed { peer: SocketAddr, source: io::Error },
}

/// Why nothing was sent.
#[derive(Debug, Error)]
pub enum SendError {
    #[error("nothing could be sent to {peer} for {} s", .after.as_secs_f64())]
    TimedOut { peer: SocketAddr, after: Duration },
    #[error("{peer} closed the connection")]
    Reset { peer: SocketAddr },
    #[error("the connection to {peer} is dead: {message}")]
    Dead { peer: SocketAddr, message: String },
    /// [`Connection::abort`] was called at this end.
    #[error("the connection to {peer} was aborted at this end")]
    Aborted { peer: SocketAddr },
    #[error("sending to {peer}: {source}")]
    Failed { peer: SocketAddr, source: io::Error },
}

impl From<QuicStream> for Connection {
    fn from(stream: QuicStream) -> Self {
        Self { carrier: Carrier::Stream(stream) }
    }
}

impl Connection {
    /// Receives up to `buffer.len()` bytes, waiting for the first of them up to `timeout` (`None`: for ever; zero:
    /// not at all). `Ok(0)` is the end: the peer has finished sending.
    ///
    /// # Errors
    /// See [`ReceiveError`]; after `TimedOut` the connection can be used on.
    pub fn receive(&self, buffer: &mut [u8], timeout: Option<Duration>) -> Result<usize, ReceiveError> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.receive(buffer, timeout),
            Carrier::Tls(tls) => tls.receive(buffer, timeout),
            Carrier::Stream(stream) => stream.receive(buffer, timeout),
        }
    }

    /// At a server: lets the peer send as much as a test takes. Until then it may have 256 KiB under way in all streams
    /// of its QUIC connection, so that connections without an admitted test hold little. Waits at most `limit` for
    /// earlier connections of tests to end; whether they did. Of tcp and mptcp the kernel takes care.
    pub fn begin_test(&self, limit: Duration) -> bool {
        match &self.carrier {
            Carrier::Socket(_) | Carrier::Tls(_) => true,
            Carrier::Stream(stream) => stream.begin_test(limit),
        }
    }

    /// Hands `bytes` to the transport, blocking up to `timeout` while its buffer is full (`None`: for ever; zero: not
    /// at all), and returns how many were taken: all of them, or fewer when the time ran out.
    ///
    /// # Errors
    /// See [`SendError`]; after `TimedOut` (nothing was taken) the connection can be used on.
    pub fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.send(bytes, timeout),
            Carrier::Tls(tls) => tls.send(bytes, timeout),
            Carrier::Stream(stream) => stream.send(bytes, timeout),
        }
    }

    /// Says that nothing more will be sent: the peer receives the end after all bytes sent so far. Receiving
    /// goes on. Harmless when the connection is already closed.
    pub fn finish_sending(&self) {
        match &self.carrier {
            Carrier::Socket(socket) => socket.finish_sending(),
            Carrier::Tls(tls) => tls.finish_sending(),
            Carrier::Stream(stream) => stream.finish_sending(),
        }
    }

    /// Sends small segments at once from now on, as [`crate::SocketOptions::no_delay`] does from the start
    /// (`TCP_NODELAY`); QUIC always does.
    ///
    /// # Errors
    /// When the kernel refuses, which it does only on a connection that is over.
    pub fn send_at_once(&self) -> io::Result<()> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.send_at_once(),
            Carrier::Tls(tls) => tls.socket().send_at_once(),
            Carrier::Stream(_) => Ok(()),
        }
    }

    /// Ends the connection without regard for bytes still under way. Calls blocked in other threads return
    /// with `Aborted`, and so do later ones. What the kernel still holds is thrown away and the peer gets a
    /// reset when the last handle of the socket ([`Telemetry`] included) is dropped.
    ///
    /// Over quic and mpquic the stream is reset and stopped (RFC 9000 section 3); the QUIC connection, when this
    /// was its last stream, is closed once nobody holds it any more.
    pub fn abort(&self) {
        match &self.carrier {
            Carrier::Socket(socket) => socket.abort(),
            Carrier::Tls(tls) => tls.socket().abort(),
            Carrier::Stream(stream) => stream.abort(),
        }
    }

    /// Whether [`Connection::abort`] was called at this end.
    pub fn is_aborted(&self) -> bool {
        match &self.carrier {
            Carrier::Socket(socket) => socket.is_aborted(),
            Carrier::Tls(tls) => tls.socket().is_aborted(),
            Carrier::Stream(stream) => stream.is_aborted(),
        }
    }

    /// The local address; of the initial subflow for mptcp.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.carrier {
            Carrier::Socket(socket) => socket.local_addr(),
            Carrier::Tls(tls) => tls.socket().local_addr(),
            Carrier::Stream(stream) => stream.local_addr(),
        }
    }

    /// The peer's address; of the initial subflow for mptcp.
    pub fn peer_addr(&self) -> SocketAddr {
        match &self.carrier {
            Carrier::Socket(socket) => socket.peer_addr(),
            Carrier::Tls(tls) => tls.socket().peer_addr(),
            Carrier::Stream(stream) => stream.peer_addr(),
        }
    }

    pub fn transport(&self) -> Transport {
        match &self.carrier {
            Carrier::Socket(socket) => socket.transport(),
            Carrier::Tls(tls) => tls.socket().transport(),
            Carrier::Stream(stream) => stream.transport(),
        }
    }

    /// Socket options as in force right after the connection was established.
    pub fn in_force(&self) -> &InForce {
        match &self.carrier {
            Carrier::Socket(socket) => socket.in_force(),
            Carrier::Tls(tls) => tls.in_force(),
            Carrier::Stream(stream) => stream.in_force(),
        }
    }

    /// What happened to the paths of a quic or mpquic connection so far, in order; empty for tcp and mptcp, whose
    /// paths are the kernel's.
    pub fn path_events(&self) -> Vec<PathEvent> {
        match &self.carrier {
            Carrier::Socket(_) | Carrier::Tls(_) => Vec::new(),
            Carrier::Stream(stream) => stream.path_events(),
        }
    }

    /// A handle that reads the kernel's figures; it outlives the connection and can move to another thread.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn telemetry(&self) -> io::Result<Telemetry> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.telemetry(),
            Carrier::Tls(tls) => tls.socket().telemetry(),
            Carrier::Stream(stream) => Ok(stream.telemetry().into()),
        }
    }
}
