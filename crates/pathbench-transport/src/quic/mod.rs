//! QUIC (RFC 9000) and its multipath extension (draft-ietf-quic-multipath).
//!
//! Each connection is a [`pathbench_mpquic::Core`]. This module adds a socket for each local interface, a thread for each
//! endpoint that receives and sends, and streams with blocking calls. Callers send while that thread sleeps.

pub(crate) mod capacity;
pub(crate) mod client;
mod connection;
pub(crate) mod datagrams;
mod driver;
mod endpoint;
mod interfaces;
mod link_watch;
pub(crate) mod listener;
#[cfg(test)]
mod panics;
mod server;
mod socket;
pub(crate) mod stream;

use crate::error::CongestionError;
use crate::options::SocketOptions;
use pathbench_mpquic::{CongestionControl, ConnectionSettings, QuicOptions};

/// Errors: QUIC lacks the requested congestion control.
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
