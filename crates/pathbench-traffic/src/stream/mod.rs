//! One connection of a test after its handshake, for either end: data in one or both directions or messages, the
//! confirmation of the received bytes, and this end's record.

mod channel;
mod datagram_work;
mod datagrams;
mod dialogue;
mod error;
mod exchange;
mod group;
mod load;
mod load_work;
mod paced;
mod plan;
pub(crate) mod processor;
mod state;
mod transfer;
mod update;
mod work;

pub(crate) use channel::{StreamChannel, TICK};
pub(crate) use datagram_work::DatagramCarrier;
pub(crate) use error::StreamError;
pub(crate) use group::{GroupMember, StreamGroup};
pub(crate) use plan::{MAX_SERVER_BLOCKS_BYTES, MAX_SERVER_FIGURES, TestPlan};
pub(crate) use state::{RECORD_TIME, TestStream};
pub(crate) use update::Cursor;
pub use update::Update;
