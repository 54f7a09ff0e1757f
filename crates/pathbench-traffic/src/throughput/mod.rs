//! The `throughput` pattern: bulk data up, down or both ways at once, on parallel streams, by time or by bytes.
//!
//! Pure: a [`SendCore`] says what to write next or until when to wait, a [`ReceiveCore`] turns received
//! bytes into deliveries. The shells that own sockets and threads are in [`crate::client`] and
//! [`crate::server`].

mod block;
mod receive;
mod schedule;
mod send;

pub use block::{Block, payload_bytes_per_block};
pub use receive::{ReceiveCore, ReceiveFault, Taken};
pub use schedule::{MAX_CATCH_UP, RateSchedule};
pub use send::{SendCore, SendPlan, Step};
