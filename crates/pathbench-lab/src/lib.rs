//! The lab: reads a scenario file and executes its runs in network namespaces with emulated links and timed events.
//!
//! This crate reads scenario files, builds the network of a scenario from unnamed namespaces, measures its links, runs
//! traffic between its hosts through their agents, carries out events at their times, and assembles the record of each
//! run. It never depends on the wire format of a protocol.

pub mod addressing;
pub mod agent;
pub mod calibration;
pub mod channel;
pub mod environment;
pub mod kernel_watch;
pub mod scenario;
pub mod study;
