//! The kernel's sockets of tcp and mptcp: opening, options, sending and receiving.

use crate::error::{CongestionError, Failure, MptcpUnavailable, ReceiveError, SendError, SetupError};
use crate::kernel;
use crate::options::SocketOptions;
use crate::sealed::SealedBytes;
use pathbench_record::connection::InForce;
use pathbench_record::file;
use pathbench_record::network::canonical;
use pathbench_record::transport::Transport;
use rustix::net::{RecvFlags, SendFlags, ipproto, recv, send};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Creates a tcp or mptcp socket with `options`. The buffer sizes must be set before listening or connecting: the
/// handshake negotiates the window scale.
pub(crate) fn open_socket(
    transport: Transport,
    domain: Domain,
    options: &SocketOptions,
) -> Result<Socket, SetupError> {
    let mptcp = transport == Transport::Mptcp;
    let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(domain, Type::STREAM, Some(protocol)).map_err(|source| {
        match source.raw_os_error().filter(|_| mptcp) {
            Some(libc::EINVAL) => SetupError::Mptcp(MptcpUnavailable::KernelTooOld),
            Some(libc::EPROTONOSUPPORT) => SetupError::Mptcp(MptcpUnavailable::NotBuilt),
            Some(libc::ENOPROTOOPT) => SetupError::Mptcp(MptcpUnavailable::Disabled),
            _ => SetupError::Failed { doing: "opening a socket", source },
        }
    })?;
    let failed = |doing| move |source| SetupError::Failed { doing, source };
    if let Some(bytes) = options.send_buffer_bytes {
        set_send_buffer(socket.as_fd(), bytes).map_err(failed("setting SO_SNDBUF"))?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        set_receive_buffer(socket.as_fd(), bytes).map_err(failed("setting SO_RCVBUF"))?;
    }
    if let Some(name) = &options.congestion {
        set_congestion(&socket, domain, name).map_err(SetupError::Congestion)?;
    }
    if options.no_delay {
        socket.set_tcp_nodelay(true).map_err(failed("setting TCP_NODELAY"))?;
    }
    Ok(socket)
}

/// Sets `SO_SNDBUF`, with `CAP_NET_ADMIN` also above `net.core.wmem_max`.
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
}

/// Sets `SO_RCVBUF`, with `CAP_NET_ADMIN` also above `net.core.rmem_max`.
pub(crate) fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
}

fn set_buffer(fd: BorrowedFd<'_>, forced: i32, plain: i32, bytes: u64) -> io::Result<()> {
    // The kernel doubles the value in an `int`.
    let value = i32::try_from(bytes).unwrap_or(i32::MAX).min(i32::MAX / 2);
    kernel::set_option_int(fd, libc::SOL_SOCKET, forced, value)
        .or_else(|_| kernel::set_option_int(fd, libc::SOL_SOCKET, plain, value))
}

fn set_congestion(socket: &Socket, domain: Domain, name: &str) -> Result<(), CongestionError> {
    // An unconnected mptcp socket has no subflow that could reject the name, so a plain TCP socket checks it first.
    Socket::new(domain, Type::STREAM, Some(Protocol::TCP))
        .and_then(|probe| probe.set_tcp_congestion(name.as_bytes()))
        .and_then(|()| socket.set_tcp_congestion(name.as_bytes()))
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => CongestionError::Unknown {
                name: name.to_owned(),
                available: congestion_list("tcp_available_congestion_control"),
            },
            Some(libc::EPERM) => CongestionError::NotAllowed {
                name: name.to_owned(),
                allowed: congestion_list("tcp_allowed_congestion_control"),
            },
            _ => CongestionError::Failed { name: name.to_owned(), message: error.to_string() },
        })
}

fn congestion_list(file: &str) -> String {
    let path = format!("/proc/sys/net/ipv4/{file}");
    file::read_text(&path, file::SMALL_FILE_BYTES)
        .map_or_else(|error| format!("{path}: {error}"), |text| text.trim().to_owned())
}

fn read_in_force(fd: BorrowedFd<'_>) -> io::Result<InForce> {
    let socket = SockRef::from(&fd);
    let congestion = socket.tcp_congestion()?;
    let congestion = congestion.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(InForce {
        protocol: if is_mptcp_socket(fd)? { Transport::Mptcp } else { Transport::Tcp }.name().to_owned(),
        congestion: String::from_utf8_lossy(congestion).into_owned(),
        send_buffer_bytes: socket.send_buffer_size()? as u64,
        receive_buffer_bytes: socket.recv_buffer_size()? as u64,
        no_delay: socket.tcp_nodelay()?,
        encryption: None,
    })
}

/// Whether the socket's protocol is MPTCP, which includes a connection that fell back. An mptcp listener returns plain
/// TCP sockets for plain TCP peers.
pub(crate) fn is_mptcp_socket(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_protocol(fd)? == Some(ipproto::MPTCP))
}

/// A connected blocking socket with the methods of [`crate::Connection`].
#[derive(Debug)]
pub(crate) struct ConnectedSocket {
    socket: Socket,
    pub(crate) transport: Transport,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) in_force: InForce,
    aborted: AtomicBool,
    /// Current socket timeouts in microseconds, 0 for none: setting one costs a system call.
    receive_timeout: AtomicU64,
    send_timeout: AtomicU64,
}

impl ConnectedSocket {
    pub(crate) fn from_established(socket: Socket, transport: Transport) -> io::Result<Self> {
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

    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        self.take_bytes(timeout, |socket, flags| recv(socket, &mut *buffer, flags).map(|(count, _)| count))
    }

    /// Discards up to `most` received bytes in the kernel, without copying them.
    pub(crate) fn discard(&self, most: usize, timeout: Option<Duration>) -> Result<usize, ReceiveError> {
        self.take_bytes(timeout, |socket, flags| kernel::discard(socket.as_fd(), most, flags))
    }

    fn take_bytes(
        &self,
        timeout: Option<Duration>,
        mut take: impl FnMut(&Socket, RecvFlags) -> rustix::io::Result<usize>,
    ) -> Result<usize, ReceiveError> {
        let peer = self.peer;
        let flags = if timeout == Some(Duration::ZERO) {
            RecvFlags::DONTWAIT
        } else {
            self.set_timeout(&self.receive_timeout, timeout, Socket::set_read_timeout)
                .map_err(|source| ReceiveError::Failed { peer, source })?;
            RecvFlags::empty()
        };
        let result = retry(|| take(&self.socket, flags));
        if self.aborted.load(Ordering::Acquire) && !matches!(result, Ok(1..)) {
            return Err(ReceiveError::Aborted { peer });
        }
        result.map_err(|error| failure(error).on_receive(peer, timeout))
    }

    pub(crate) fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        if timeout == Some(Duration::ZERO) {
            return self
                .sent(timeout, || send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
        }
        self.set_send_timeout(timeout)?;
        self.sent(timeout, || send(&self.socket, bytes, SendFlags::NOSIGNAL))
    }

    /// As [`ConnectedSocket::send`], without a copy; with a timeout of zero as with one of a microsecond.
    pub(crate) fn send_sealed(
        &self,
        bytes: &SealedBytes,
        range: &Range<usize>,
        timeout: Option<Duration>,
    ) -> Result<usize, SendError> {
        self.set_send_timeout(timeout)?;
        self.sent(timeout, || bytes.send(&self.socket, range))
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.set_timeout(&self.send_timeout, timeout, Socket::set_write_timeout)
            .map_err(|source| SendError::Failed { peer: self.peer, source })
    }

    fn sent(
        &self,
        timeout: Option<Duration>,
        call: impl FnMut() -> rustix::io::Result<usize>,
    ) -> Result<usize, SendError> {
        let peer = self.peer;
        retry(call).map_err(|error| {
            if self.aborted.load(Ordering::Acquire) {
                return SendError::Aborted { peer };
            }
            failure(error).on_send(peer, timeout)
        })
    }

    pub(crate) fn send_at_once(&self) -> io::Result<()> {
        self.socket.set_tcp_nodelay(true)
    }

    pub(crate) fn finish_sending(&self) {
        // The only failure is ENOTCONN: the connection has ended already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        // Both fail only on a closed socket, which is the intended result.
        let _ = self.socket.set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// A duplicate descriptor, which keeps the socket open.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    fn set_timeout(
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
        // A telemetry handle may keep the socket open; the peer must still see the end of the stream.
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
