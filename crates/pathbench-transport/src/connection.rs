//! A connection: a bidirectional byte stream that several threads can use.

use crate::error::{ReceiveError, SendError};
use crate::quic::datagrams::QuicDatagrams;
use crate::quic::stream::{QuicStream, QuicTelemetry};
use crate::resource::ThreadMeter;
use crate::sealed::SealedBytes;
use crate::socket::ConnectedSocket;
use crate::telemetry::{ConnectionSnapshot, SocketTelemetry, TelemetryError, TelemetrySource};
use crate::tls::socket::StreamSocket;
use pathbench_record::connection::{InForce, PathEvent};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// An open connection over any transport.
///
/// All methods take `&self`: one thread can receive while another sends and a third aborts. Two threads that *receive*
/// (or two that send) concurrently must use the same timeout. Dropping the connection closes the sending direction; a
/// kernel socket stays open until the last [`Telemetry`] of it is dropped.
///
/// Over quic and mpquic a connection is one bidirectional stream of a QUIC connection.
#[derive(Debug)]
pub struct Connection {
    carrier: Carrier,
}

#[derive(Debug)]
enum Carrier {
    /// tcp and mptcp.
    Socket(Box<StreamSocket>),
    Stream(QuicStream),
}

impl From<StreamSocket> for Connection {
    fn from(socket: StreamSocket) -> Self {
        Self { carrier: Carrier::Socket(Box::new(socket)) }
    }
}

impl From<QuicStream> for Connection {
    fn from(stream: QuicStream) -> Self {
        Self { carrier: Carrier::Stream(stream) }
    }
}

impl Connection {
    /// Receives up to `buffer.len()` bytes and waits up to `timeout` for the first byte (`None`: without limit; zero:
    /// non-blocking). `Ok(0)` is the end of the stream.
    /// Errors: after `TimedOut` the connection remains usable.
    pub fn receive(&self, buffer: &mut [u8], timeout: Option<Duration>) -> Result<usize, ReceiveError> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.receive(buffer, timeout),
            Carrier::Stream(stream) => stream.receive(buffer, timeout),
        }
    }

    /// At a server: raises the receive window of the QUIC connection for a test. Before that, the peer may have 128 KiB
    /// in flight over all streams, which bounds the memory of connections without an admitted test. Waits up to `limit`
    /// for the end of earlier connections' tests; returns whether a slot became free. With tcp and mptcp the kernel
    /// manages the window.
    pub fn begin_test(&self, limit: Duration) -> bool {
        match &self.carrier {
            Carrier::Socket(_) => true,
            Carrier::Stream(stream) => stream.begin_test(limit),
        }
    }

    /// Passes `bytes` to the transport, blocks up to `timeout` while its buffer is full (`None`: without limit; zero:
    /// non-blocking), and returns the number of accepted bytes: fewer than all after a timeout.
    /// Errors: after `TimedOut` (no byte accepted) the connection remains usable.
    pub fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.send(bytes, timeout),
            Carrier::Stream(stream) => stream.send(bytes, timeout),
        }
    }

    /// As [`Connection::send`], for a range of bytes that the kernel sends without copying them; tcp in clear text.
    /// Errors: `Failed` (unsupported) over other transports and with TLS.
    pub fn send_sealed(
        &self,
        bytes: &SealedBytes,
        range: &Range<usize>,
        timeout: Option<Duration>,
    ) -> Result<usize, SendError> {
        match self.clear_socket().filter(|socket| socket.in_force.protocol == Transport::Tcp.name()) {
            Some(socket) => socket.send_sealed(bytes, range, timeout),
            None => Err(SendError::Failed { peer: self.peer_addr(), source: copied("sending") }),
        }
    }

    /// As [`Connection::receive`], for up to `most` bytes that the kernel discards instead of copying them; tcp and mptcp in
    /// clear text.
    /// Errors: `Failed` (unsupported) over other transports and with TLS.
    pub fn discard(&self, most: usize, timeout: Option<Duration>) -> Result<usize, ReceiveError> {
        match self.clear_socket() {
            Some(socket) => socket.discard(most, timeout),
            None => Err(ReceiveError::Failed { peer: self.peer_addr(), source: copied("receiving") }),
        }
    }

    fn clear_socket(&self) -> Option<&ConnectedSocket> {
        match &self.carrier {
            Carrier::Socket(socket) => socket.clear(),
            Carrier::Stream(_) => None,
        }
    }

    /// Closes the sending direction: the peer receives the end of the stream after all sent bytes. Receiving continues.
    /// No effect on a closed connection.
    pub fn finish_sending(&self) {
        match &self.carrier {
            Carrier::Socket(socket) => socket.finish_sending(),
            Carrier::Stream(stream) => stream.finish_sending(),
        }
    }

    /// Disables Nagle's algorithm from now on (`TCP_NODELAY`), as [`crate::SocketOptions::no_delay`] does from the
    /// start; QUIC never delays small packets.
    /// Errors: the kernel refuses, which happens only on a closed connection.
    pub fn send_at_once(&self) -> io::Result<()> {
        match &self.carrier {
            Carrier::Socket(own) => own.socket.send_at_once(),
            Carrier::Stream(_) => Ok(()),
        }
    }

    /// Ends the connection without waiting for bytes in flight. Blocked and later calls in all threads return
    /// `Aborted`. The kernel discards its buffers, and the peer receives a reset when the last handle of the socket
    /// ([`Telemetry`] included) is dropped.
    ///
    /// Over quic and mpquic the stream is reset and stopped (RFC 9000, section 3); after its last stream, the QUIC
    /// connection closes when its last handle is dropped.
    pub fn abort(&self) {
        match &self.carrier {
            Carrier::Socket(own) => own.socket.abort(),
            Carrier::Stream(stream) => stream.abort(),
        }
    }

    /// Whether [`Connection::abort`] was called at this end.
    pub fn is_aborted(&self) -> bool {
        match &self.carrier {
            Carrier::Socket(own) => own.socket.is_aborted(),
            Carrier::Stream(stream) => stream.is_aborted(),
        }
    }

    /// The local address; of the initial subflow for mptcp.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.carrier {
            Carrier::Socket(own) => own.socket.local,
            Carrier::Stream(stream) => stream.local,
        }
    }

    /// The peer's address; of the initial subflow for mptcp.
    pub fn peer_addr(&self) -> SocketAddr {
        match &self.carrier {
            Carrier::Socket(own) => own.socket.peer,
            Carrier::Stream(stream) => stream.peer_addr(),
        }
    }

    pub fn transport(&self) -> Transport {
        match &self.carrier {
            Carrier::Socket(own) => own.socket.transport,
            Carrier::Stream(stream) => stream.transport,
        }
    }

    /// Socket options in force after the connection was established.
    pub fn in_force(&self) -> InForce {
        match &self.carrier {
            Carrier::Socket(socket) => socket.in_force(),
            Carrier::Stream(stream) => stream.in_force.clone(),
        }
    }

    /// The path events of a quic or mpquic connection so far, in order; empty for tcp and mptcp, whose paths the kernel
    /// manages.
    pub fn path_events(&self) -> Vec<PathEvent> {
        match &self.carrier {
            Carrier::Socket(_) => Vec::new(),
            Carrier::Stream(stream) => stream.path_events(),
        }
    }

    /// Begins to measure the thread that runs this QUIC connection, and at a server the other connections of its socket;
    /// `None` for tcp and mptcp, which the kernel runs.
    pub fn measure_driver(&self, now: Timestamp) -> Option<ThreadMeter> {
        match &self.carrier {
            Carrier::Socket(_) => None,
            Carrier::Stream(stream) => ThreadMeter::with_thread(stream.driver()?, now),
        }
    }

    /// The datagrams of the quic or mpquic connection (RFC 9221); `None` for tcp and mptcp.
    pub fn datagrams(&self) -> Option<QuicDatagrams> {
        match &self.carrier {
            Carrier::Socket(_) => None,
            Carrier::Stream(stream) => Some(stream.datagrams()),
        }
    }

    /// A handle for the connection's figures; it outlives the connection and can move to another thread.
    /// Errors: the process has no file descriptor left.
    pub fn telemetry(&self) -> io::Result<Telemetry> {
        match &self.carrier {
            Carrier::Socket(own) => {
                Ok(Telemetry(Source::Socket(Box::new(SocketTelemetry::new(&own.socket)?))))
            }
            Carrier::Stream(stream) => Ok(Telemetry(Source::Quic(stream.telemetry()))),
        }
    }
}

fn copied(doing: &str) -> io::Error {
    let message = format!("{doing} without a copy requires a kernel socket in clear text");
    io::Error::new(io::ErrorKind::Unsupported, message)
}

/// Reads a connection's figures. For a kernel socket it holds a duplicate descriptor, which keeps the socket open until
/// it is dropped.
#[derive(Debug)]
pub struct Telemetry(Source);

#[derive(Debug)]
enum Source {
    Socket(Box<SocketTelemetry>),
    Quic(QuicTelemetry),
}

impl Telemetry {
    /// Restricts the figures to `source`, or to the best available one (`None`), and discards the known subflows. For
    /// tests and comparisons; QUIC has one source only.
    pub fn restrict_to(&mut self, source: Option<TelemetrySource>) {
        match &mut self.0 {
            Source::Socket(socket) => socket.restrict_to(source),
            Source::Quic(_) => {}
        }
    }

    /// From now on, snapshots name the interface by which the packets of each subflow leave. The sockets of QUIC paths are
    /// bound to theirs. The calling thread must be in the network namespace of the connection.
    pub fn look_up_interfaces(&mut self) {
        match &mut self.0 {
            Source::Socket(socket) => socket.look_up_interfaces(),
            Source::Quic(_) => {}
        }
    }

    /// A snapshot of the connection, closed subflows or paths included.
    /// Errors: the known subflows are kept; a later call may succeed.
    pub fn snapshot(&mut self) -> Result<ConnectionSnapshot, TelemetryError> {
        match &mut self.0 {
            Source::Socket(socket) => socket.snapshot(),
            Source::Quic(quic) => Ok(quic.snapshot()),
        }
    }
}
