//! The pattern `datagrams` without input and output: the schedule and the log of the sender, the log of the receiver.

mod receiver;
mod sender;

pub use receiver::{FlowReceiver, ReceiverPlan};
pub use sender::{FlowSender, FlowStep, LONGEST_LAG};
