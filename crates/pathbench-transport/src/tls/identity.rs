//! Who a server is: its certificates and the key that goes with them.

use super::CertificateFingerprint;
use ring::digest;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A server's certificate chain and private key.
pub struct ServerIdentity {
    /// The server's own certificate first. Never empty.
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerIdentity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("{}: {source}; give the server's certificate chain in PEM, its own certificate first", .file.display())]
    Certificate { file: PathBuf, source: pem::Error },
    #[error("{}: {source}; give the certificate's private key in PEM (PKCS #8, PKCS #1 or SEC 1), not encrypted",
        .file.display())]
    Key { file: PathBuf, source: pem::Error },
    /// Both can be read, but a server cannot use them.
    #[error("{} and {} cannot be used together: {source}; is the key that of the first certificate?",
        .certificate.display(), .key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("making a certificate for {names}: {source}")]
    Making {
        names: String,
        /// What the library says.
        source: rcgen::Error,
    },
}

impl ServerIdentity {
    /// Reads a chain, the server's own certificate first, and its key from PEM files.
    ///
    /// # Errors
    /// See [`IdentityError`]; key and certificate are checked to belong together.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let chain = certificates_in(certificate)
            .map_err(|source| IdentityError::Certificate { file: certificate.to_owned(), source })?;
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|source| IdentityError::Key { file: key.to_owned(), source })?;
        let identity = Self { chain, key: private };
        super::server_config(&identity, super::ALPN).map_err(|source| IdentityError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })?;
        Ok(identity)
    }

    /// A fresh key (ECDSA on P-256) with a certificate for these DNS names and addresses that it has signed itself.
    /// Nobody but who knows its fingerprint can tell it from anybody else's.
    ///
    /// # Errors
    /// [`IdentityError::Making`], for a name that no certificate can carry.
    pub fn self_made(names: &[String]) -> Result<Self, IdentityError> {
        let (certificate, key) = make(names)?;
        Ok(Self {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// The same as PEM files: the certificate, and the private key (PKCS #8), to be read by
    /// [`ServerIdentity::from_pem_files`] again and again.
    ///
    /// # Errors
    /// [`IdentityError::Making`], for a name that no certificate can carry.
    pub fn self_made_pem(names: &[String]) -> Result<(String, String), IdentityError> {
        let (certificate, key) = make(names)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// What a client can pin.
    pub fn fingerprint(&self) -> CertificateFingerprint {
        self.chain.first().map_or(CertificateFingerprint([0; 32]), |own| fingerprint_of(own))
    }

    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    pub(super) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

fn make(names: &[String]) -> Result<(rcgen::Certificate, rcgen::KeyPair), IdentityError> {
    let making = |source| IdentityError::Making { names: names.join(", "), source };
    let key = rcgen::KeyPair::generate().map_err(making)?;
    let mut parameters = rcgen::CertificateParams::new(names).map_err(making)?;
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "Pathbench test server");
    let certificate = parameters.self_signed(&key).map_err(making)?;
    Ok((certificate, key))
}

/// SHA-256 of a certificate.
pub(super) fn fingerprint_of(certificate: &CertificateDer<'_>) -> CertificateFingerprint {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    CertificateFingerprint(bytes)
}

/// All certificates of a PEM file; at least one.
pub(super) fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)?.collect::<Result<_, _>>()?;
    if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) }
}
