//! Computes a run's result from the records of both ends and the kernels: metrics, the multipath verdict, diagnoses.
//!
//! Pure: records in, results out. It never opens a socket or reads a clock.

pub mod assembly;
pub mod attribution;
pub mod binning;
pub mod comparison;
pub mod diagnosis;
pub mod limits;
pub mod line;
pub mod metrics;
pub mod mptcp_setup;
pub mod path_mtu;
pub mod reachability;
pub mod verdict;
pub mod wifi;
