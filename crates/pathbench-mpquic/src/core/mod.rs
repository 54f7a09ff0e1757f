//! One connection: the library's state machine, its paths and its streams. No threads, locks, sockets or clock.

mod datagram_queues;
mod datagrams;
mod send_waits;
mod state;
mod streams;
mod turn;

pub use self::datagram_queues::{DatagramArrival, DatagramDeparture};
pub use self::datagrams::DatagramUnsent;
pub use self::state::{Core, LINGER, StreamEnd};
pub use self::streams::Read;
