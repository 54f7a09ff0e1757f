//! One TCP flow at one point of capture: sequence numbers, acknowledgments, retransmissions, round-trip times.

mod direction;
mod flow;
mod position;
mod sizes;

pub use direction::{Arrival, FlowDirection};
pub use flow::{Flow, FlowEnd, TooBig};
pub use position::nearest_position;
pub use sizes::Sizes;

/// FIN (RFC 9293, section 3.1).
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
