//! One connection: the library's state machine, its paths and its streams. No threads, locks, sockets or clock.

mod datagrams;
mod state;
mod streams;
mod turn;

pub use self::datagrams::{DatagramArrival, DatagramDeparture, DatagramUnsent};
pub use self::state::{Core, LINGER, StreamEnd};
pub use self::streams::Read;
