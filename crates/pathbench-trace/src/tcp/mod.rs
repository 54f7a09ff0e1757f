//! One TCP flow at one point of capture: sequence numbers, acknowledgments, retransmissions, round-trip times.

mod black_hole;
mod copies;
mod direction;
mod flow;
mod handshake;
mod position;
mod sizes;
mod window;

pub use direction::{Arrival, FlowDirection};
pub use flow::{Flow, FlowEnd, Receipt, TooBig};
pub use handshake::{Handshake, Opening};
pub use position::nearest_position;
pub use sizes::Sizes;

/// FIN (RFC 9293, section 3.1).
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
