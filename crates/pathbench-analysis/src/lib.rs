//! Computes a run's result from the records of both ends and the kernels: metrics, the multipath verdict, diagnoses.
//!
//! Pure: records in, results out. It never opens a socket or reads a clock.
//!
//! # Modules
//! - `assembly`: assembles the record of one run
//! - `binning`: bytes over time, and the bins for metrics and figures
//! - `comparison`: comparisons of repeated measurements: rank statistics with exact intervals, and the rule that
//!   turns them into a verdict
//! - `diagnosis`: why a path carried nothing, during all of a run or a part of it
//! - `metrics`: the metrics of one direction of one run: pure functions of the bytes delivered to the application
//!   and their times
//! - `mptcp_setup`: whether MPTCP can use the paths of a host, from the path manager's configuration
//! - `path_mtu`: the differences between the kernel's path-MTU state and the probes, and the advice that follows
//! - `reachability`: the attempts that show how a server can be reached, and the address and port for each
//!   transport's test
//! - `verdict`: whether multipath was used, and if not, why
//! - `wifi`: detects when a host joins, changes and loses Wi-Fi networks

pub mod assembly;
pub mod binning;
pub mod comparison;
pub mod diagnosis;
pub mod metrics;
pub mod mptcp_setup;
pub mod path_mtu;
pub mod reachability;
pub mod verdict;
pub mod wifi;
