//! A connected kernel socket: what a connection over tcp and mptcp is.

use crate::connection::{ReceiveError, SendError};
use crate::options::read_in_force;
use crate::socket_telemetry::SocketTelemetry;
use crate::telemetry::Telemetry;
use pathbench_record::address::canonical;
use pathbench_record::connection::InForce;
use pathbench_record::transport::Transport;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::Socket;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A connected blocking socket. Its methods are those of [`crate::Connection`].
#[derive(Debug)]
pub(crate) struct ConnectedSocket {
    socket: Socket,
    transport: Transport,
    local: SocketAddr,
    peer: SocketAddr,
    in_force: InForce,
    aborted: AtomicBool,
    /// Timeouts last set on the socket in microseconds, 0 for none: setting one costs a system call.
    receive_timeout: AtomicU64,
    send_timeout: AtomicU64,
}

enum Failure {
    TimedOut,
    Reset,
    Dead(String),
    Failed(io::Error),
}

impl ConnectedSocket {
    pub(crate) fn established(socket: Socket, transport: Transport) -> io::Result<Self> {
        let local = canonical(inet(&socket.local_addr()?)?);
        let peer = canonical(inet(&socket.peer_addr()?)?);
        let in_force = read_in_force(socket.as_fd())?;
        Ok(Self {
            socket,
            transport,
            local,
            peer,
            in_force,
            aborted: AtomicBool::new(false),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
        })
    }

    /// Receives up to `buffer.len()` bytes, waiting for the first of them up to `timeout` (`None`: for ever; zero:
    /// not at all). `Ok(0)` is the end: the peer has finished sending.
    ///
    /// # Errors
    /// See [`ReceiveError`]; after `TimedOut` the connection can be used on.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        let peer = self.peer;
        let flags = if timeout == Some(Duration::ZERO) {
            RecvFlags::DONTWAIT
        } else {
            self.arm(&self.receive_timeout, timeout, Socket::set_read_timeout)
                .map_err(|source| ReceiveError::Failed { peer, source })?;
            RecvFlags::empty()
        };
        let result = retry(|| recv(&self.socket, &mut *buffer, flags).map(|(count, _)| count));
        if self.aborted.load(Ordering::Acquire) && !matches!(result, Ok(1..)) {
            return Err(ReceiveError::Aborted { peer });
        }
        result.map_err(|error| match failure(error) {
            Failure::TimedOut => ReceiveError::TimedOut { peer, after: timeout.unwrap_or_default() },
            Failure::Reset => ReceiveError::Reset { peer },
            Failure::Dead(message) => ReceiveError::Dead { peer, message },
            Failure::Failed(source) => ReceiveError::Failed { peer, source },
        })
    }

    /// Hands `bytes` to the transport, blocking up to `timeout` while its buffer is full (`None`: for ever; zero: not
    /// at all), and returns how many were taken: all of them, or fewer when the time ran out.
    ///
    /// # Errors
    /// See [`SendError`]; after `TimedOut` (nothing was taken) the connection can be used on.
    pub(crate) fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        let peer = self.peer;
        let flags = if timeout == Some(Duration::ZERO) {
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL
        } else {
            self.arm(&self.send_timeout, timeout, Socket::set_write_timeout)
                .map_err(|source| SendError::Failed { peer, source })?;
            SendFlags::NOSIGNAL
        };
        retry(|| send(&self.socket, bytes, flags)).map_err(|error| {
            if self.aborted.load(Ordering::Acquire) {
                return SendError::Aborted { peer };
            }
            match failure(error) {
                Failure::TimedOut => SendError::TimedOut { peer, after: timeout.unwrap_or_default() },
                Failure::Reset => SendError::Reset { peer },
                Failure::Dead(message) => SendError::Dead { peer, message },
                Failure::Failed(source) => SendError::Failed { peer, source },
            }
        })
    }

    pub(crate) fn send_at_once(&self) -> io::Result<()> {
        self.socket.set_tcp_nodelay(true)
    }

    /// Says that nothing more will be sent: the peer receives the end after all bytes sent so far. Receiving
    /// goes on. Harmless when the connection is already closed.
    pub(crate) fn finish_sending(&self) {
        // The only failure is ENOTCONN: there is nobody left to tell.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the connection without regard for bytes still under way. Calls blocked in other threads return
    /// with `Aborted`, and so do later ones. What the kernel still holds is thrown away and the peer gets a
    /// reset when the last handle of the socket ([`Telemetry`] included) is dropped.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        // Both fail only on a socket that is closed already, which is what is wanted.
        let _ = self.socket.set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Whether [`ConnectedSocket::abort`] was called.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    pub(crate) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// A handle that reads the kernel's figures; it outlives the connection and can move to another thread.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(crate) fn telemetry(&self) -> io::Result<Telemetry> {
        let handle = self.socket.as_fd().try_clone_to_owned()?;
        Ok(SocketTelemetry::new(handle, self.transport, self.local, self.peer).into())
    }

    fn arm(
        &self,
        in_force: &AtomicU64,
        timeout: Option<Duration>,
        set: impl Fn(&Socket, Option<Duration>) -> io::Result<()>,
    ) -> io::Result<()> {
        let micros =
            timeout.map_or(0, |timeout| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX).max(1));
        if in_force.load(Ordering::Relaxed) != micros {
            set(&self.socket, (micros > 0).then(|| Duration::from_micros(micros)))?;
            in_force.store(micros, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for ConnectedSocket {
    fn drop(&mut self) {
        // A telemetry handle may keep the socket open; the peer should see the end now all the same.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

pub(crate) fn inet(address: &socket2::SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| io::Error::other("the socket's address is neither IPv4 nor IPv6"))
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> Result<usize, io::Error> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock => Failure::TimedOut,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Failure::Reset
        }
        io::ErrorKind::TimedOut => {
            Failure::Dead("no answer to any retransmission until the kernel gave up (ETIMEDOUT)".to_owned())
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            Failure::Dead(error.to_string())
        }
        _ => Failure::Failed(error),
    }
}
