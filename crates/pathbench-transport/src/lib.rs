//! Transports behind one interface, and what each of their paths is doing.
//!
//! This room opens and accepts byte streams over `tcp`, `mptcp`, `quic` and `mpquic`, moves bytes through them
//! with blocking calls, reads back what was made of the options, takes the figures of every path, the kernel's
//! or QUIC's own ([`Telemetry`], [`Sampler`]), and manages the paths of QUIC. It never decides what to send, never changes the host (no
//! endpoints, routes or sysctls), and never infers multipath from the option that asked for it.

mod connect;
mod connected_socket;
mod connection;
mod containment;
mod kernel;
mod ledger;
mod listener;
mod listening_socket;
mod mptcp_info;
mod options;
mod quic;
#[cfg(test)]
mod recorded;
mod sampler;
mod session;
mod socket_telemetry;
mod tcp_info;
mod telemetry;
mod tls;

/// Whether this build writes qlog files (feature `qlog`).
pub const QLOG_AVAILABLE: bool = cfg!(feature = "qlog");

pub use connect::{ConnectError, ConnectOptions, MptcpUnavailable, mptcp_available};
pub use connection::{Connection, ReceiveError, SendError};
pub use containment::{contain_panic, panic_message};
pub use kernel::set_option_int;
pub use ledger::{ObservedSubflow, SubflowLedger};
pub use listener::{AcceptError, BindError, DatagramService, ListenOptions, Listener};
pub use options::{CongestionError, SocketOptions};
pub use pathbench_mpquic::{LocalPath, QuicOptions};
pub use quic::{
    QUIC_CONNECTION_BYTES, QUIC_LISTENER_BYTES, QUIC_STREAM_BYTES, QUIC_TEST_BYTES,
    QUIC_UNTRUSTED_SEND_BYTES, QuicCapacity, QuicLimits,
};
pub use sampler::{SampledConnection, Sampler, SamplerError};
pub use session::Session;
pub use telemetry::{ConnectionSnapshot, Telemetry, TelemetryError, TelemetrySource};
pub use tls::{
    ALPN, CertificateFingerprint, IdentityError, InvalidFingerprint, Security, ServerIdentity, Trust,
    TrustError, client_config, server_config,
};

#[cfg(test)]
pathbench_kerneltest::unprivileged_too!();
