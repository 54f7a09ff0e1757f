//! Runs any program with its TCP sockets created as MPTCP (seccomp user notification), and follows each connection by
//! `sock_diag`: multipath used or not, and bytes by path.
//!
//! The crate never opens a connection itself, never reads a clock, and never keeps a descriptor of the program.

mod activity;
mod answering;
mod confinement;
mod decision;
mod following;
mod ledger;
pub mod listing;
pub mod options;
mod report;
pub mod service;
mod totals;

pub use activity::SocketActivity;
pub use answering::Answering;
pub use decision::LeftOnTcp;
pub use following::{Following, FollowingProgress};
pub use ledger::{
    ConnectionLedger, ConnectionRole, ObservedConnection, SubflowRecord, TransportProtocol, UnseenAccepted,
};
pub use report::{
    ConnectionGroup, ConnectionReport, ConnectionState, FallbackEvidence, PathReport, ProgramSummary,
};
pub use totals::ByteTotal;
