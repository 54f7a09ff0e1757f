//! The errors of sockets, connections and listeners.

use crate::tls::TrustError;
use pathbench_record::text::duration;
use pathbench_record::transport::Transport;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// The reason why this host cannot open MPTCP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MptcpUnavailable {
    #[error("this kernel does not support MPTCP: it requires Linux 5.6 or newer")]
    KernelTooOld,
    /// `EPROTONOSUPPORT`: the kernel was built without it.
    #[error("this kernel was built without MPTCP (CONFIG_MPTCP); use a kernel with CONFIG_MPTCP=y")]
    NotBuilt,
    #[error("MPTCP is switched off in this network namespace; as root: sysctl net.mptcp.enabled=1")]
    Disabled,
}

/// The requested congestion control is not available.
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
    /// Available, but not to this user.
    #[error(
        "congestion control `{name}` is not allowed for this user; allowed: {allowed}. As root on the machine: \
         sysctl net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\""
    )]
    NotAllowed {
        name: String,
        /// `/proc/sys/net/ipv4/tcp_allowed_congestion_control`.
        allowed: String,
    },
    /// The kernel accepted the option, but another congestion control is in force.
    #[error("congestion control `{name}` was accepted by the kernel, but `{in_force}` is in force")]
    NotInForce {
        name: String,
        /// The congestion control that the socket reports.
        in_force: String,
    },
    #[error("setting congestion control `{name}`: {message}")]
    Failed { name: String, message: String },
}

/// A socket with the requested options could not be created.
#[derive(Debug)]
pub(crate) enum SetupError {
    Mptcp(MptcpUnavailable),
    Congestion(CongestionError),
    Failed { doing: &'static str, source: io::Error },
}

impl SetupError {
    /// The same error of a connection or listener, which `failed` makes of a failure of the system.
    pub(crate) fn convert<E>(self, failed: impl FnOnce(&'static str, io::Error) -> E) -> E
    where
        E: From<MptcpUnavailable> + From<CongestionError>,
    {
        match self {
            Self::Mptcp(error) => error.into(),
            Self::Congestion(error) => error.into(),
            Self::Failed { doing, source } => failed(doing, source),
        }
    }
}

/// A connection could not be opened.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("{transport} to {remote} requires the fingerprint or the CA of the server's certificate")]
    NoTrust { transport: Transport, remote: SocketAddr },
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The server's certificate does not match the fingerprint or the CA.
    #[error(
        "{remote} is not the expected server: {message}. Give --fingerprint as `pathbench serve` prints it there; a \
         self-signed certificate is generated anew at each start"
    )]
    Untrusted {
        remote: SocketAddr,
        /// The reason why the certificate is rejected.
        message: String,
    },
    #[error("no encrypted connection to {remote}: {message}")]
    NotEncrypted { remote: SocketAddr, message: String },
    #[error(transparent)]
    Mptcp(#[from] MptcpUnavailable),
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    #[error("no interface `{interface}` in this network namespace")]
    NoSuchInterface { interface: String },
    #[error("{local} is not an address of this host; `ip address` shows which are")]
    NotALocalAddress { local: IpAddr },
    #[error("cannot reach {remote} from {local}: one is IPv4 and the other IPv6")]
    FamilyMismatch { local: IpAddr, remote: SocketAddr },
    #[error("{remote} refused the connection: nothing listens on that port there (or a firewall rejects it)")]
    Refused { remote: SocketAddr },
    #[error("no route to {remote}{}: {message}", from_address(.local.as_ref()))]
    Unreachable {
        remote: SocketAddr,
        /// The local address, if one was requested.
        local: Option<IpAddr>,
        message: String,
    },
    #[error("no answer from {remote}{} within {}: packets are dropped on the path or in the reverse direction, or the host is down",
        from_address(.local.as_ref()), duration(*.after))]
    TimedOut {
        remote: SocketAddr,
        /// The local address, if one was requested.
        local: Option<IpAddr>,
        after: Duration,
    },
    #[error("{doing} for a connection to {remote}: {source}")]
    Failed { remote: SocketAddr, doing: &'static str, source: io::Error },
}

fn from_address(local: Option<&IpAddr>) -> String {
    local.map(|local| format!(" from {local}")).unwrap_or_default()
}

/// A listener could not be opened.
#[derive(Debug, Error)]
pub enum BindError {
    #[error(transparent)]
    Mptcp(#[from] MptcpUnavailable),
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    #[error("{address} is in use: another program listens on that port (`ss -ltnp` shows which)")]
    InUse { address: SocketAddr },
    #[error("{address} is not an address of this host; `ip address` shows which are")]
    NotALocalAddress { address: SocketAddr },
    /// A privileged port without `CAP_NET_BIND_SERVICE`.
    #[error("this user may not listen on {address}: ports below 1024 require root or CAP_NET_BIND_SERVICE")]
    Denied { address: SocketAddr },
    /// quic or mpquic without a certificate.
    #[error("{transport} on {address} requires a certificate: QUIC always encrypts")]
    NoIdentity { transport: Transport, address: SocketAddr },
    #[error("{doing} to listen on {address}: {source}")]
    Failed { address: SocketAddr, doing: &'static str, source: io::Error },
}

impl BindError {
    /// Classifies the kernel's refusal to bind `address`.
    pub(crate) fn classify(address: SocketAddr, doing: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::AddrNotAvailable => Self::NotALocalAddress { address },
            io::ErrorKind::PermissionDenied => Self::Denied { address },
            _ => Self::Failed { address, doing, source },
        }
    }
}

#[derive(Debug, Error)]
pub enum AcceptError {
    /// [`crate::Listener::close`] was called.
    #[error("the listener on {local} was closed")]
    Closed { local: SocketAddr },
    #[error("the QUIC driver of {local} panicked: {message}")]
    Dead { local: SocketAddr, message: String },
    #[error("no resources for another connection on {local}: {source}")]
    Exhausted { local: SocketAddr, source: io::Error },
    #[error("accepting on {local}: {source}")]
    Failed { local: SocketAddr, source: io::Error },
}

/// Why an established connection does not carry data.
pub(crate) enum Failure {
    TimedOut,
    Reset,
    Dead(String),
    Failed(io::Error),
}

impl Failure {
    /// `timeout` is the time limit of the call.
    pub(crate) fn on_receive(self, peer: SocketAddr, timeout: Option<Duration>) -> ReceiveError {
        match self {
            Self::TimedOut => ReceiveError::TimedOut { peer, after: timeout.unwrap_or_default() },
            Self::Reset => ReceiveError::Reset { peer },
            Self::Dead(message) => ReceiveError::Dead { peer, message },
            Self::Failed(source) => ReceiveError::Failed { peer, source },
        }
    }

    pub(crate) fn on_send(self, peer: SocketAddr, timeout: Option<Duration>) -> SendError {
        match self {
            Self::TimedOut => SendError::TimedOut { peer, after: timeout.unwrap_or_default() },
            Self::Reset => SendError::Reset { peer },
            Self::Dead(message) => SendError::Dead { peer, message },
            Self::Failed(source) => SendError::Failed { peer, source },
        }
    }
}

#[derive(Debug, Error)]
pub enum ReceiveError {
    #[error("nothing received from {peer} for {} s", duration(*.after))]
    TimedOut { peer: SocketAddr, after: Duration },
    #[error("{peer} reset the connection")]
    Reset { peer: SocketAddr },
    #[error("the connection to {peer} is dead: {message}")]
    Dead { peer: SocketAddr, message: String },
    /// [`crate::Connection::abort`] was called at this end.
    #[error("the connection to {peer} was aborted at this end")]
    Aborted { peer: SocketAddr },
    #[error("receiving from {peer}: {source}")]
    Failed { peer: SocketAddr, source: io::Error },
}

/// No data was sent.
#[derive(Debug, Error)]
pub enum SendError {
    #[error("nothing could be sent to {peer} for {} s", duration(*.after))]
    TimedOut { peer: SocketAddr, after: Duration },
    #[error("{peer} closed the connection")]
    Reset { peer: SocketAddr },
    #[error("the connection to {peer} is dead: {message}")]
    Dead { peer: SocketAddr, message: String },
    /// [`crate::Connection::abort`] was called at this end.
    #[error("the connection to {peer} was aborted at this end")]
    Aborted { peer: SocketAddr },
    #[error("sending to {peer}: {source}")]
    Failed { peer: SocketAddr, source: io::Error },
}
