//! The driver of a connection: its sockets, the shared endpoint, and the events that the driver reports.

use crate::options::LocalInterface;
use crate::time::Epoch;
use noq_proto::{ConnectionEvent, EndpointEvent, StreamId, Transmit};
use pathbench_record::time::Timestamp;
use std::net::{IpAddr, SocketAddr};

/// The input and output of a [`Core`](crate::Core): its sockets, and the endpoint that all connections of a host share.
pub trait Driver {
    fn send(&mut self, socket: SocketId, transmit: &Transmit, contents: &[u8]);

    /// Opens a socket on the interface, bound to `local` and connected to `remote`. Called only in [`Turn::Whole`]: a
    /// socket belongs to the network namespace of the thread that opens it.
    ///
    /// # Errors
    /// The step that failed, and the kernel's error.
    fn open_socket(
        &mut self,
        interface: &str,
        local: IpAddr,
        remote: SocketAddr,
    ) -> Result<LocalSocket, String>;

    fn close_socket(&mut self, socket: SocketId);

    /// Passes an event to the library's endpoint, and returns the endpoint's answer.
    fn on_endpoint_event(&mut self, event: EndpointEvent) -> Option<ConnectionEvent>;
}

/// The number that the [`Driver`] gave a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketId(pub u32);

/// A socket and the address it is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalSocket {
    pub id: SocketId,
    pub address: SocketAddr,
}

/// The scope of a turn of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// All due work, after all received packets were processed.
    Whole,
    /// All due work but decisions about paths; done by the thread that uses a stream.
    Sending,
}

/// A waiting thread to wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    Reader(StreamId),
    Writer(StreamId),
    /// A thread that waits for the connection itself.
    Connection,
}

/// One of this host's interfaces after a change, and what changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceChange {
    pub interface: LocalInterface,
    pub description: String,
}

/// How a connection begins.
#[derive(Debug, Clone)]
pub struct Start {
    pub now: Timestamp,
    pub epoch: Epoch,
    pub remote: SocketAddr,
    /// The socket of the first path.
    pub socket: LocalSocket,
    /// At a client: the index of the configured path that carries the handshake.
    pub first_path: usize,
    /// The present state of the interfaces.
    pub interfaces: Vec<LocalInterface>,
    /// At a server: whether the client's address is validated (RFC 9000, section 8.1).
    pub is_address_validated: bool,
}
