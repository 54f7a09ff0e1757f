//! The datagrams of a connection that wait for the next turn or for the application.

use crate::library::DatagramPrefix;
use bytes::Bytes;
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;

/// A datagram that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramArrival {
    /// The path ID.
    pub path: u32,
    /// When the kernel received its packet; if that is unknown, when this connection took it.
    pub at: Timestamp,
    pub datagram: DatagramPrefix,
}

/// A datagram that was sent: with the scheduler `redundant` one of its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramDeparture {
    /// The path ID.
    pub path: u32,
    pub at: Timestamp,
    pub datagram: DatagramPrefix,
}

#[derive(Debug, Default)]
pub(super) struct DatagramQueues {
    /// Whether the application takes arrivals and departures.
    pub(super) is_used: bool,
    pub(super) outgoing: VecDeque<Bytes>,
    pub(super) arrivals: Vec<DatagramArrival>,
    pub(super) departures: Vec<DatagramDeparture>,
    pub(super) omitted: u64,
}
