//! Tests that judge what was measured while a program changed the network.

pub(crate) mod roam;
