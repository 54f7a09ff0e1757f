//! TLS from certificate files.

use pathbench_program::exit::Failure;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
    fn unusable<'a, E: Display + 'a>(path: &'a Path) -> impl FnOnce(E) -> Failure + 'a {
        move |error| Failure::bad_input(format!("{}: {error}", path.display()))
    }
    let chain = CertificateDer::pem_file_iter(certificate).map_err(unusable(certificate))?;
    let chain: Vec<CertificateDer<'static>> =
        chain.collect::<Result<_, _>>().map_err(unusable(certificate))?;
    if chain.is_empty() {
        return Err(unusable(certificate)("it has no certificate"));
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(unusable(key))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Failure::failed)?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(unusable(certificate))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
