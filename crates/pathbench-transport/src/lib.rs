//! One interface to all transports, with figures for each of their paths.
//!
//! This crate opens and accepts byte streams over `tcp`, `mptcp`, `quic` and `mpquic`, transfers bytes with blocking
//! calls, reads back the options in force, reads the figures of every path from the kernel or from QUIC ([`Telemetry`],
//! [`Sampler`]), and manages the paths of QUIC. It never decides what to send, never changes the host (no endpoints,
//! routes or sysctls), and reports multipath only as negotiated, never as requested.

mod connect;
mod connection;
mod containment;
mod error;
mod kernel;
pub mod kernel_answers;
mod ledger;
mod listener;
mod options;
mod quic;
pub mod resource;
mod sampler;
mod sealed;
mod socket;
mod telemetry;
mod tls;

/// Whether this build writes qlog files (feature `qlog`).
pub const QLOG_AVAILABLE: bool = cfg!(feature = "qlog");

pub use connect::{Session, mptcp_available};
pub use connection::{Connection, Telemetry};
pub use containment::{contain_panic, lock, panic_message};
pub use error::{
    AcceptError, BindError, CongestionError, ConnectError, MptcpUnavailable, ReceiveError, SendError,
};
pub use kernel::set_option_int;
pub use ledger::{ObservedSubflow, SubflowLedger};
pub use listener::Listener;
pub use options::{ConnectOptions, DatagramPort, DatagramService, ListenOptions, SocketOptions};
pub use pathbench_mpquic::{
    DatagramArrival, DatagramDeparture, DatagramPrefix, DatagramUnsent, LocalPath, QuicOptions,
};
pub use quic::capacity::{
    QUIC_CONNECTION_BYTES, QUIC_HANDSHAKE_BYTES, QUIC_HANDSHAKES, QUIC_HANDSHAKES_PER_CLIENT,
    QUIC_LISTENER_BYTES, QUIC_STREAM_BYTES, QUIC_TEST_BYTES, QUIC_UNTRUSTED_SEND_BYTES, QuicCapacity,
    QuicLimits, QuicSlot, QuicSlots, most_per_network,
};
pub use quic::datagrams::QuicDatagrams;
pub use sampler::{SampleSeries, SampledConnection, Sampler, SamplerError, next_due};
pub use sealed::SealedBytes;
pub use telemetry::{ConnectionSnapshot, TelemetryError, TelemetrySource};
pub use tls::{
    ALPN, CertificateFingerprint, IdentityError, InvalidFingerprint, Security, ServerIdentity, Trust,
    TrustError, client_config, server_config,
};
