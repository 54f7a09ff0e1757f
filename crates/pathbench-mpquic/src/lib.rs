//! Multipath QUIC without input and output: a [`Core`] is one connection, with the library's state machine
//! (`noq-proto`), path manager, heartbeats, schedulers and meters.
//!
//! The caller passes the time in. A [`Driver`] sends datagrams and opens sockets. This crate never starts a thread, opens
//! a socket, or reads a clock or an interface. `tests/pure/` runs two cores over simulated links.

mod closed_paths;
mod configuration;
mod core;
mod driver;
mod library;
mod options;
mod path_event;
mod paths;
#[cfg(feature = "qlog")]
mod qlog;
mod time;

pub use closed_paths::{ClosedPaths, KEPT_CLOSED_PATHS};
pub use configuration::{
    CONNECTION_WINDOW_BYTES, ConnectionSettings, FIRST_WINDOW_BYTES, IDLE_TIMEOUT, Instruments, PATHS,
    endpoint_config,
};
pub use core::{Core, DatagramArrival, DatagramDeparture, DatagramUnsent, LINGER, Read, StreamEnd};
pub use driver::{Driver, InterfaceChange, LocalSocket, SocketId, Start, Turn, Wakeup};
pub use library::scheduler::CongestionControl;
pub use library::send_buffer::{FIRST_HELD_BYTES, MOST_HELD_BYTES};
pub use library::{DATAGRAM_PREFIX_BYTES, DatagramPrefix};
pub use options::{LocalInterface, LocalPath, QuicOptions};
pub use path_event::{FIRST_EVENTS, MAX_EVENTS};
pub use paths::{FIRST_PATHS_BYTES, PATHS_BYTES};
pub use time::Epoch;
