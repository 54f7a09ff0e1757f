//! The pattern `responsiveness`: one connection that is idle and then loaded in each direction, and probes all the time.
//!
//! Pure: a [`LoadCore`] decides which bytes one end of a stream writes now or how long it waits, and turns received bytes
//! into deliveries, answers and the results of `self` probes. The client's threads for `foreign` and `path` probes are in
//! [`crate::client`].

mod core;
mod probes;

pub use core::{LoadCore, LoadPlan, LoadStep};
