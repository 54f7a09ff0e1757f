//! TLS from certificate files, which are read again when they are renewed.

use crate::log::Log;
use data_encoding::HEXLOWER;
use pathbench_program::exit::Failure;
use pathbench_program::renewal::FileWatch;
use pathbench_record::time::SharedClock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::json;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// Interval of the checks for SIGHUP.
const TICK: Duration = Duration::from_millis(200);

/// The certificate of the next handshake, and its files.
#[derive(Debug)]
pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    watch: FileWatch,
    current: Arc<CurrentKey>,
}

#[derive(Debug)]
struct CurrentKey(Mutex<Arc<CertifiedKey>>);

impl CurrentKey {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for CurrentKey {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl CertificateFiles {
    pub(super) fn open(certificate: &Path, key: &Path) -> Result<Self, Failure> {
        let watch = FileWatch::new(vec![certificate.to_owned(), key.to_owned()]);
        let current = Arc::new(CurrentKey(Mutex::new(Arc::new(read(certificate, key)?))));
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), watch, current })
    }

    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, Failure> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Failure::failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<CurrentKey>::clone(&self.current));
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// SHA-256 of the certificate, for `--collector-fingerprint`.
    pub(super) fn fingerprint(&self) -> String {
        let current = self.current.get();
        let own = current.cert.first().map(AsRef::as_ref).unwrap_or_default();
        HEXLOWER.encode(::ring::digest::digest(&::ring::digest::SHA256, own).as_ref())
    }

    /// Reads the files again when they have changed, and when `reload` is set. A broken certificate is logged once, and
    /// the present one stays.
    pub(super) async fn follow(mut self, reload: Arc<AtomicBool>, clock: SharedClock, log: Log) {
        loop {
            tokio::time::sleep(TICK).await;
            if self.watch.is_due(reload.swap(false, Ordering::Relaxed), clock.now()) {
                self.renew(&log);
            }
        }
    }

    fn renew(&self, log: &Log) {
        let before = self.fingerprint();
        match read(&self.certificate, &self.key) {
            Ok(renewed) => {
                *self.current.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed);
                let fingerprint = self.fingerprint();
                let is_other = fingerprint != before;
                log.info("certificate", json!({ "fingerprint": fingerprint, "changed": is_other }));
            }
            Err(failure) => log.error("certificate", json!({ "error": failure.message, "used": before })),
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, Failure> {
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
    CertifiedKey::from_der(chain, key_der, &ring::default_provider()).map_err(unusable(certificate))
}
