//! The bodies of the fuzz targets. The ordinary tests run it, too, over the seeds and generated inputs
//! (`tests/sockets/fuzz_bodies.rs`).

#![allow(dead_code, reason = "each target uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a finding panics and says why"
)]

pub(crate) mod conversation;
pub(crate) mod honest;
mod input;
pub(crate) mod payloads;
mod peer;
pub(crate) mod wire;
