//! The body of the fuzz target. The ordinary tests run it, too (`tests/fuzz_bodies.rs`).

pub(crate) mod file;
