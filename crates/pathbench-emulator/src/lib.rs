//! The emulator: the data plane that applies the link model to the packets of TUN devices.
//!
//! One thread moves the packets of all links through the [`pipe`](pathbench_link::pipe)s of [`pathbench_link`], cuts GSO
//! packets where the model needs single ones, and records captures. It never depends on scenarios, hosts or runs, and
//! reads only the clock passed in.

pub mod flow;
pub mod plane;
pub mod segmentation;
