//! The emulator: the model of a link and the data plane that applies it to packets.
//!
//! This crate models one direction of a link as a [`pipe`]: the input is a packet and its arrival time, the output a
//! packet and its departure time, or a drop and its cause. It reads traces of real links, computes the fading of a
//! radio link, and moves the packets of TUN devices through pipes in one thread. It never depends on scenarios, hosts
//! or runs, and reads only the clock passed in.

pub mod fading;
pub mod packet;
pub mod pipe;
pub mod plane;
mod queue;
pub mod segmentation;
pub mod trace;
