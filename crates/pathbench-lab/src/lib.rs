//! The lab: from a scenario file to namespaces, links, events on time and runs.
//!
//! This room reads scenario files, builds the network that one describes out of nameless namespaces, measures
//! its links, runs traffic between its hosts through their agents, carries out events at their time, and puts
//! the evidence of each run together into its record. It never knows a protocol's wire format: what is sent
//! between hosts is the traffic room's business.

mod addressing;
pub mod agent;
mod calibration;
pub mod channel;
pub mod environment;
mod kernel_watch;
pub mod order;
pub mod scenario;
pub mod study;

#[cfg(test)]
pathbench_kerneltest::unprivileged_too!();
