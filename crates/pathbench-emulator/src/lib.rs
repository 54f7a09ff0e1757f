//! The emulator: what a link does to packets, and the data plane that does it.
//!
//! This crate models one direction of a link as a [`pipe`]: packet and time go in, packet and time, or drop and cause,
//! come out. It reads traces of real links, computes how a radio fades, and moves the packets of TUN devices through
//! pipes in one thread. It never knows about scenarios, hosts or runs, and reads no clock but the one passed in.

pub mod capture;
mod chance;
pub mod fading;
pub mod packet;
pub mod pipe;
pub mod plane;
mod queue;
pub mod segmentation;
pub mod trace;

#[cfg(test)]
pathbench_kerneltest::unprivileged_too!();
