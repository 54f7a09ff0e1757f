//! The patterns of messages: `ping`, small requests one after the other, and `interactive`, requests at fixed intervals
//! that the other end acknowledges and answers.
//!
//! Pure: [`PingCore`] and [`InteractiveCore`] decide which bytes to write now or how long to wait, and record when each
//! request was sent and answered; a [`MessageResponder`] turns requests into replies. The code that owns sockets and threads
//! is in [`crate::client`] and [`crate::server`].

mod requester;
mod responder;
mod template;

pub use requester::{InteractiveCore, PingCore, RequesterStep};
pub use responder::{MessageResponder, Reply, RequestArrival, ResponderPlan};
pub use template::MessageFault;
pub(crate) use template::{Template, in_turn};
