//! QUIC (RFC 9000) and its multipath extension (draft-ietf-quic-multipath).
//!
//! The protocol is a library's, as a state machine without sockets or clock (in `core.rs`). Around it: sockets, one
//! for each local interface; a thread for each endpoint that takes what arrives and sends what is due; streams with
//! blocking calls, whose callers send themselves while that thread sleeps; and what decides about paths, pure:
//! the scheduler, the path manager, the heartbeats.

mod capacity;
mod client;
mod configuration;
mod connection;
mod core;
mod driver;
mod endpoint;
mod heartbeat;
mod interfaces;
#[cfg(test)]
mod library_client;
mod link_watch;
mod listener;
mod options;
#[cfg(test)]
mod panics;
mod path_event;
mod path_manager;
mod path_number;
mod paths;
mod peer_paths;
#[cfg(feature = "qlog")]
mod qlog;
mod scheduler;
mod send_window;
mod server;
#[cfg(test)]
mod simulated;
mod socket;
mod stream;
mod stream_frames;
mod stream_meter;
mod telemetry;
mod time;
mod unacknowledged;

pub use capacity::{
    QUIC_CONNECTION_BYTES, QUIC_LISTENER_BYTES, QUIC_STREAM_BYTES, QUIC_TEST_BYTES,
    QUIC_UNTRUSTED_SEND_BYTES, QuicCapacity, QuicLimits,
};
pub(crate) use client::QuicClient;
pub(crate) use listener::QuicListener;
pub use options::{LocalPath, QuicOptions};
pub(crate) use stream::QuicStream;
pub(crate) use telemetry::QuicTelemetry;
