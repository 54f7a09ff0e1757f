//! Multipath QUIC without input and output: a [`Core`] is one connection, with the library's state machine (`noq-proto`),
//! path manager, heartbeats, schedulers and meters.
//!
//! Time is passed in; datagrams leave and sockets are opened through a [`Driver`]. This crate never starts a thread, opens
//! a socket, reads a clock or looks at an interface. `tests/simulation/` runs two cores over simulated links.

mod closed_paths;
mod configuration;
mod core;
mod figures;
mod heartbeat;
mod library;
mod options;
mod path_event;
mod path_manager;
mod paths;
mod peer_paths;
#[cfg(feature = "qlog")]
mod qlog;
mod scheduler;
mod send_buffer;
mod stream_frames;
mod stream_meter;
mod time;

pub use closed_paths::{ClosedPaths, KEPT_CLOSED_PATHS};
pub use configuration::{
    CONNECTION_WINDOW_BYTES, ConnectionSettings, FIRST_WINDOW_BYTES, IDLE_TIMEOUT, Instruments, PATHS,
    endpoint_config,
};
pub use core::{
    Core, Driver, InterfaceChange, LINGER, LocalSocket, Read, SocketId, Start, StreamEnd, Turn, Wakeup,
};
pub use options::{LocalPath, QuicOptions};
pub use path_event::{FIRST_EVENTS, MAX_EVENTS};
pub use path_manager::PathInput;
pub use paths::{FIRST_PATHS_BYTES, PATHS_BYTES};
pub use scheduler::CongestionControl;
pub use send_buffer::{FIRST_HELD_BYTES, MOST_HELD_BYTES};
pub use time::Epoch;

#[cfg(test)]
pathbench_kerneltest::unprivileged_too!();
