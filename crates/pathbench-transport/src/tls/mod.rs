//! Who a server is, and how a client knows it: TLS 1.3 for quic and mpquic always, for tcp and mptcp on request.

mod configuration;
mod identity;
mod layer;
mod socket;
mod trust;

pub(crate) use configuration::distrust;
pub use configuration::{ALPN, TrustError, client_config, server_config};
pub use identity::{IdentityError, ServerIdentity};
pub(crate) use socket::{ClientSetup, HandshakeError, TlsAcceptor, TlsSocket};
pub use trust::{CertificateFingerprint, InvalidFingerprint, Security, Trust};
