//! QUIC (RFC 9000) and its multipath extension (draft-ietf-quic-multipath).

mod options;

pub use options::{LocalPath, QuicOptions, Scheduler};
