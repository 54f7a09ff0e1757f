//! The lab: reads a scenario file and executes its runs in network namespaces with emulated links and timed events.
//!
//! This crate reads scenario files, builds the network of a scenario from unnamed namespaces, measures its links, runs
//! traffic between its hosts through their agents, carries out events at their times, and assembles the record of each
//! run. It never depends on the wire format of a protocol.
//!
//! # Modules
//! - [`addressing`]: the addresses, routes and rules of each node
//! - [`agent`]: the process that acts inside a host's namespaces
//! - [`calibration`]: the measurement of links before a run
//! - [`channel`]: the messages between orchestrator and agent
//! - [`environment`]: the running lab
//! - [`kernel_watch`]: the events of the hosts' kernels
//! - [`scenario`]: the scenario language
//! - [`study`]: the execution of all runs

pub mod addressing;
pub mod agent;
pub mod calibration;
pub mod channel;
pub mod environment;
pub mod kernel_watch;
pub mod scenario;
pub mod study;
