//! The UDP datagrams other than QUIC: one format, one cookie, one budget, one responder.
//!
//! [`DatagramMessage`] is the format. A server's [`DatagramResponder`] answers at the UDP ports where it serves QUIC. A
//! [`DatagramClient`] sends the requests: a prober ([`crate::probe`]) or a search for a path MTU ([`crate::path_mtu`]).
//! All are sans-IO; a `PathSocket` connects a client to the network. A calibration ([`crate::calibration`]) uses only
//! the format and the socket: the lab commands both ends.

mod admission;
mod client;
mod flow_client;
mod flow_table;
mod message;
mod responder;
mod socket;

pub(crate) use admission::{COOKIE_RENEWAL, COOKIE_VALIDITY, random_bytes, random_session};
pub use admission::{Cookies, Cost, DatagramBudget};
pub(crate) use client::{BUFFER_BYTES, STALE, TICK, turn, wait};
pub use client::{DatagramClient, Outgoing};
pub(crate) use flow_client::{FlowArrival, UdpFlows};
pub use flow_client::{FlowError, PathJoin};
pub(crate) use flow_table::{FlowSlot, FlowTable, LONGEST_DEBT};
pub use message::{DatagramKind, DatagramMessage, HEADER_BYTES, MAGIC, MAX_TEXT_BYTES};
pub(crate) use message::{HELLO_BYTES, MOST_PACKET_BYTES, floor_bytes, tiny_bytes};
pub use responder::DatagramResponder;
pub(crate) use responder::ResponderService;
pub use socket::{DatagramError, UdpPath, Unsent};
pub(crate) use socket::{DatagramSocket, ReceivedDatagram, check_token};
