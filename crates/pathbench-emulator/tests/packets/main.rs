//! Packets as bytes: segmentation and captures.

mod captures;
mod segmentation;

pathbench_kerneltest::privilege_independent!();
