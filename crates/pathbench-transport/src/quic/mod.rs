//! QUIC (RFC 9000) and its multipath extension (draft-ietf-quic-multipath).
//!
//! Each connection is a [`pathbench_mpquic::Core`]. Around it: sockets, one for each local interface; a thread for each
//! endpoint that takes what arrives and sends what is due; streams with blocking calls, whose callers send themselves
//! while that thread sleeps.

mod capacity;
mod client;
mod connection;
mod driver;
mod endpoint;
mod interfaces;
mod link_watch;
mod listener;
#[cfg(test)]
mod panics;
mod server;
mod socket;
mod stream;
mod telemetry;

pub use capacity::{
    QUIC_CONNECTION_BYTES, QUIC_LISTENER_BYTES, QUIC_STREAM_BYTES, QUIC_TEST_BYTES,
    QUIC_UNTRUSTED_SEND_BYTES, QuicCapacity, QuicLimits,
};
pub(crate) use client::QuicClient;
pub(crate) use listener::QuicListener;
pub(crate) use stream::QuicStream;
pub(crate) use telemetry::QuicTelemetry;

use crate::options::{CongestionError, SocketOptions};
use pathbench_mpquic::{CongestionControl, ConnectionSettings, QuicOptions};

/// The settings of connections, once the congestion control's name is known to be one.
fn settings(
    socket: &SocketOptions,
    quic: &QuicOptions,
    multipath: bool,
    mtu_bytes: u32,
    receive_window_bytes: u32,
) -> Result<ConnectionSettings, CongestionError> {
    let name = socket.congestion.as_deref().unwrap_or(CongestionControl::default().name());
    let control = CongestionControl::by_name(name).ok_or_else(|| CongestionError::Unknown {
        name: name.to_owned(),
        available: CongestionControl::ALL.map(CongestionControl::name).join(" "),
    })?;
    Ok(ConnectionSettings {
        quic: quic.clone(),
        control,
        multipath,
        mtu_bytes,
        send_buffer_bytes: socket.send_buffer_bytes,
        receive_window_bytes,
    })
}
