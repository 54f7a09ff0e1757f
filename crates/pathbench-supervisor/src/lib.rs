//! Runs any program with its TCP sockets created as MPTCP (seccomp user notification), and follows each connection by
//! `sock_diag`: multipath used or not, and bytes by path.
//!
//! The crate never opens a connection itself, never reads a clock, and never keeps a descriptor of the program.
//!
//! # Modules
//! - `activity`: the calls so far
//! - `answering`: the thread that answers calls
//! - `confinement`: the processes that restrict themselves
//! - `decision`: the answer to a call
//! - `following`: the thread that follows connections
//! - `ledger`: the connections of the program
//! - [`listing`]: the sockets of a running process
//! - [`options`]: the socket options that MPTCP refuses
//! - `report`: the report of a connection, and the summary

mod activity;
mod answering;
mod confinement;
mod decision;
mod following;
mod ledger;
pub mod listing;
pub mod options;
mod report;

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
