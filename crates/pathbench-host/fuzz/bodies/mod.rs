//! The bodies of the fuzz targets. The ordinary tests run them, too (`tests/pure/fuzz_bodies.rs`).

pub(crate) mod journal;
pub(crate) mod netlink;
