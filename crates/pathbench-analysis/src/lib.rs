//! From what both ends and the kernels recorded of a run to its result: metrics, the multipath verdict, diagnoses.
//!
//! Pure: records in, results out. It never opens a socket or reads a clock.

pub mod assembly;
pub mod binning;
pub mod diagnosis;
pub mod metrics;
pub mod verdict;

#[cfg(test)]
pathbench_kerneltest::privilege_independent!();
