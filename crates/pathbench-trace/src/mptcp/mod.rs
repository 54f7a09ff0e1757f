//! Multipath TCP: options, keys and the data level of a connection (RFC 8684; version 0: RFC 6824).

pub mod checksum;
pub mod data;
pub mod keys;
pub mod mapping;
pub mod options;
pub mod signal;
