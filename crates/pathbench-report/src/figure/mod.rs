//! Builds charts from results: goodput by path over time, delay over time and as a distribution, comparisons of all
//! repetitions, emulated links, packet sizes.

mod comparison;
mod goodput;
mod link;
mod matrix;
mod messages;
mod mobility;
mod mtu;
mod packet_sizes;
mod response;
mod selection;
mod sequence;
mod set;
mod spread;
pub(crate) mod trace;

pub(crate) use selection::Selection;
pub(crate) use set::of_views;
pub use set::{Figure, figures};
