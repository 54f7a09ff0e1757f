//! The UDP datagrams beside QUIC: one format, one cookie, one budget, one responder.
//!
//! [`Message`] is the format. A server's [`Responder`] answers at the UDP ports where it serves QUIC; what asks it is a
//! [`DatagramClient`]: a prober ([`crate::probe`]) or a search for a path MTU ([`crate::path_mtu`]). All of these are
//! sans-IO; a `PathSocket` connects a client to the network. A calibration ([`crate::calibration`]) uses the format
//! only, for its two ends are arranged by other means.

mod budget;
mod cookie;
mod message;
mod responder;
mod shell;
mod socket;

pub(crate) use cookie::random_session;
pub use message::{Family, HEADER_BYTES, Kind, MAGIC, MAX_TEXT_BYTES, Message};
pub(crate) use message::{HELLO_BYTES, MOST_PACKET_BYTES};
pub use responder::Responder;
pub(crate) use responder::ResponderService;
pub(crate) use shell::{BUFFER_BYTES, TICK, turn, wait};
pub use shell::{DatagramClient, Outgoing, Unsent};
pub use socket::DatagramError;
pub(crate) use socket::{PathSocket, check_token, ignore_cached_mtu};
