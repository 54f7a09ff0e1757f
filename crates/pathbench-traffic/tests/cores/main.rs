//! Sans-IO cores of the server, its datagrams, and measurements of paths and links.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod bounds;
mod calibration;
mod datagram;
mod probability;

pathbench_kerneltest::privilege_independent!();
