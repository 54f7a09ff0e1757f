//! Who a server is, and how a client knows it: TLS 1.3 for quic and mpquic always, for tcp and mptcp on request.

mod trust;

pub use trust::{CertificateFingerprint, InvalidFingerprint, Security, Trust};
