//! Socket options as asked for and as in force.

use crate::kernel;
use pathbench_record::connection::InForce;
use pathbench_record::transport::Transport;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs, io};
use thiserror::Error;

/// What to set on a socket before it connects or listens; absent fields leave the kernel's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketOptions {
    /// Congestion control, of every subflow (`TCP_CONGESTION`).
    pub congestion: Option<String>,
    /// Send buffer (`SO_SNDBUF`); ends the kernel's autotuning. The kernel doubles it for its own bookkeeping and,
    /// without `CAP_NET_ADMIN`, caps it at `net.core.wmem_max`: see [`InForce`].
    pub send_buffer_bytes: Option<u64>,
    /// Receive buffer (`SO_RCVBUF`), as above with `net.core.rmem_max`.
    pub receive_buffer_bytes: Option<u64>,
    /// Send small segments at once (`TCP_NODELAY`).
    pub no_delay: bool,
}

/// The congestion control asked for cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CongestionError {
    #[error(
        "no congestion control `{name}` here; available: {available}. Another may exist as a module: \
         `modprobe tcp_{name}` on the machine, then try again"
    )]
    Unknown {
        name: String,
        /// `/proc/sys/net/ipv4/tcp_available_congestion_control`.
        available: String,
    },
    /// It exists, but not for this user.
    #[error(
        "congestion control `{name}` is not allowed for this user; allowed: {allowed}. As root on the machine: \
         sysctl net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\""
    )]
    NotAllowed {
        name: String,
        /// `/proc/sys/net/ipv4/tcp_allowed_congestion_control`.
        allowed: String,
    },
    /// The kernel took the option but another one is in force.
    #[error("congestion control `{name}` was accepted by the kernel, but `{in_force}` is in force")]
    NotInForce {
        name: String,
        /// What the socket says.
        in_force: String,
    },
    #[error("setting congestion control `{name}`: {message}")]
    Failed { name: String, message: String },
}

#[derive(Debug)]
pub(crate) enum ApplyError {
    Congestion(CongestionError),
    Option { option: &'static str, source: io::Error },
}

impl SocketOptions {
    /// Sets everything on a socket that is not yet connected or listening.
    pub(crate) fn apply(&self, socket: &Socket, domain: Domain) -> Result<(), ApplyError> {
        if let Some(bytes) = self.send_buffer_bytes {
            set_buffer(socket.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
                .map_err(|source| ApplyError::Option { option: "send buffer (SO_SNDBUF)", source })?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            set_buffer(socket.as_fd(), libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
                .map_err(|source| ApplyError::Option { option: "receive buffer (SO_RCVBUF)", source })?;
        }
        if let Some(name) = &self.congestion {
            set_congestion(socket, domain, name).map_err(ApplyError::Congestion)?;
        }
        if self.no_delay {
            socket
                .set_tcp_nodelay(true)
                .map_err(|source| ApplyError::Option { option: "TCP_NODELAY", source })?;
        }
        Ok(())
    }

    /// Sets both buffers of a socket, as far as this user may.
    pub(crate) fn set_buffers(fd: BorrowedFd<'_>, send: u64, receive: u64) -> io::Result<()> {
        set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send)?;
        set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive)
    }

    /// Checks on a connected socket what cannot be checked before (an unconnected mptcp socket takes any name).
    pub(crate) fn verify(&self, in_force: &InForce) -> Result<(), CongestionError> {
        match &self.congestion {
            Some(name) if *name != in_force.congestion => {
                Err(CongestionError::NotInForce { name: name.clone(), in_force: in_force.congestion.clone() })
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn read_in_force(fd: BorrowedFd<'_>) -> io::Result<InForce> {
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

/// Whether the socket's protocol is MPTCP (it may have fallen back all the same). An mptcp listener returns
/// plain TCP sockets for peers that asked for plain TCP.
pub(crate) fn is_mptcp_socket(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(kernel::option_int(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)? == kernel::IPPROTO_MPTCP)
}

fn set_buffer(fd: BorrowedFd<'_>, forced: i32, plain: i32, bytes: u64) -> io::Result<()> {
    // The kernel doubles the value in an `int`.
    let value = i32::try_from(bytes).unwrap_or(i32::MAX).min(i32::MAX / 2);
    kernel::set_option_int(fd, libc::SOL_SOCKET, forced, value)
        .or_else(|_| kernel::set_option_int(fd, libc::SOL_SOCKET, plain, value))
}

fn set_congestion(socket: &Socket, domain: Domain, name: &str) -> Result<(), CongestionError> {
    // An unconnected mptcp socket has no subflow that could refuse the name, so a plain TCP one is asked first.
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
    fs::read_to_string(&path).map_or_else(|error| format!("{path}: {error}"), |text| text.trim().to_owned())
}
