//! Server certificates, how clients authenticate them, and the rustls configurations of both ends: TLS 1.3 (RFC 8446)
//! only, with `ring`. Mandatory for quic and mpquic, optional for tcp and mptcp.

mod layer;
pub(crate) mod socket;

use crate::containment::lock;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// SHA-256 of a server's DER certificate, written as hexadecimal digits (colons are accepted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CertificateFingerprint(pub [u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{text}` is not a fingerprint: give the 64 hexadecimal digits that `pathbench serve` prints (SHA-256)"
)]
pub struct InvalidFingerprint {
    pub text: String,
}

/// The authentication of a server by a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// This certificate, irrespective of its name and dates.
    Fingerprint(CertificateFingerprint),
    /// A certificate for `name` by a CA in this PEM file.
    Authorities {
        file: PathBuf,
        /// The server's DNS name or address, as in its certificate.
        name: String,
    },
    /// A certificate for `name` by a public CA (Mozilla root store).
    Public {
        /// The server's DNS name or address, as in its certificate.
        name: String,
    },
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// Clear text; tcp and mptcp only.
    #[default]
    Clear,
    /// TLS 1.3 with a server authenticated by this.
    Tls(Trust),
}

impl Security {
    /// The authentication of the server, if the connection is encrypted.
    pub const fn trust(&self) -> Option<&Trust> {
        match self {
            Self::Clear => None,
            Self::Tls(trust) => Some(trust),
        }
    }
}

impl fmt::Display for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl FromStr for CertificateFingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidFingerprint { text: text.chars().take(100).collect() };
        let bytes = HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes()).map_err(|_| invalid())?;
        bytes.try_into().map(Self).map_err(|_| invalid())
    }
}

impl TryFrom<String> for CertificateFingerprint {
    type Error = InvalidFingerprint;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CertificateFingerprint> for String {
    fn from(fingerprint: CertificateFingerprint) -> Self {
        fingerprint.to_string()
    }
}

/// A server's certificate chain and private key. A renewed one counts for all later handshakes.
#[derive(Debug)]
pub struct ServerIdentity {
    current: Arc<CurrentKey>,
}

/// The key of the next handshake. The server's own certificate is the first of its chain, which is never empty.
#[derive(Debug)]
struct CurrentKey(Mutex<Arc<CertifiedKey>>);

impl CurrentKey {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&lock(&self.0))
    }
}

impl ResolvesServerCert for CurrentKey {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

/// An identity could not be loaded or generated.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("{}: {source}; give the server's certificate chain in PEM, its own certificate first", .file.display())]
    Certificate { file: PathBuf, source: pem::Error },
    #[error("{}: {source}; give the certificate's private key in PEM (PKCS #8, PKCS #1 or SEC 1), not encrypted",
        .file.display())]
    Key { file: PathBuf, source: pem::Error },
    /// Both files can be read, but do not form an identity.
    #[error("{} and {} cannot be used together: {source}; is the key that of the first certificate?",
        .certificate.display(), .key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("using a generated certificate: {source}")]
    Unsupported { source: rustls::Error },
    #[error("generating a certificate for {names}: {source}")]
    Generation { names: String, source: rcgen::Error },
}

impl ServerIdentity {
    /// Reads a chain, the server's own certificate first, and its key from PEM files.
    /// Errors: also if the key does not belong to the certificate.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        Ok(Self::new(certified_key_in(certificate, key)?))
    }

    fn new(key: CertifiedKey) -> Self {
        Self { current: Arc::new(CurrentKey(Mutex::new(Arc::new(key)))) }
    }

    /// Reads renewed files; whether the certificate is another one. Connections continue.
    /// Errors: as [`ServerIdentity::from_pem_files`]; the present certificate stays.
    pub fn renew(&self, certificate: &Path, key: &Path) -> Result<bool, IdentityError> {
        let renewed = certified_key_in(certificate, key)?;
        let is_other = renewed.cert != self.current.get().cert;
        *lock(&self.current.0) = Arc::new(renewed);
        Ok(is_other)
    }

    /// Generates a key (ECDSA on P-256) and a self-signed certificate for these DNS names and addresses. Clients can
    /// authenticate it by its fingerprint only.
    /// Errors: [`IdentityError::Generation`], for an invalid name.
    pub fn self_signed(names: &[String]) -> Result<Self, IdentityError> {
        let (certificate, key) = generate(names)?;
        let private = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let certified = CertifiedKey::from_der(vec![certificate.der().clone()], private, &provider())
            .map_err(|source| IdentityError::Unsupported { source })?;
        Ok(Self::new(certified))
    }

    /// Generates a self-signed certificate and its private key (PKCS #8) as PEM texts, for
    /// [`ServerIdentity::from_pem_files`].
    /// Errors: [`IdentityError::Generation`], for an invalid name.
    pub fn self_signed_pem(names: &[String]) -> Result<(String, String), IdentityError> {
        let (certificate, key) = generate(names)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// The fingerprint for clients to pin.
    pub fn fingerprint(&self) -> CertificateFingerprint {
        self.current.get().cert.first().map_or(CertificateFingerprint([0; 32]), |own| fingerprint_of(own))
    }
}

fn certified_key_in(certificate: &Path, key: &Path) -> Result<CertifiedKey, IdentityError> {
    let chain = certificates_in(certificate)
        .map_err(|source| IdentityError::Certificate { file: certificate.to_owned(), source })?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|source| IdentityError::Key { file: key.to_owned(), source })?;
    CertifiedKey::from_der(chain, private, &provider()).map_err(|source| IdentityError::Unusable {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    })
}

fn generate(names: &[String]) -> Result<(rcgen::Certificate, rcgen::KeyPair), IdentityError> {
    let failed = |source| IdentityError::Generation { names: names.join(", "), source };
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let mut parameters = rcgen::CertificateParams::new(names).map_err(failed)?;
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "Pathbench test server");
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    Ok((certificate, key))
}

fn fingerprint_of(certificate: &CertificateDer<'_>) -> CertificateFingerprint {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref());
    CertificateFingerprint(bytes)
}

/// All certificates of a PEM file; at least one.
fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)?.collect::<Result<_, _>>()?;
    if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) }
}

/// The ALPN protocol of client and server (RFC 7301); HELLO carries the version of the test protocol.
pub const ALPN: &[u8] = b"pathbench/1";

/// The client configuration for a server could not be created.
#[derive(Debug, Error)]
pub enum TrustError {
    #[error("{}: {source}; give the CA certificates in PEM", .file.display())]
    Authorities { file: PathBuf, source: pem::Error },
    #[error("`{name}` is neither a DNS name nor an address: {source}")]
    Name { name: String, source: InvalidDnsNameError },
    #[error("setting up TLS: {0}")]
    Library(#[from] rustls::Error),
    #[error("setting up the CAs: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

impl Trust {
    /// The name that the server must prove, sent as SNI (RFC 6066) when it is a DNS name. A pinned certificate needs no
    /// name: then it is the server's address.
    pub fn server_name(&self, remote: IpAddr) -> Result<ServerName<'static>, TrustError> {
        match self {
            Self::Fingerprint(_) => Ok(ServerName::IpAddress(remote.into())),
            Self::Authorities { name, .. } | Self::Public { name } => ServerName::try_from(name.clone())
                .map_err(|source| TrustError::Name { name: name.clone(), source }),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A server's configuration with one ALPN protocol, without client certificates; only clients store session tickets.
/// Errors: the library has no TLS 1.3.
pub fn server_config(identity: &ServerIdentity, alpn: &[u8]) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::<CurrentKey>::clone(&identity.current));
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// A client's configuration with one ALPN protocol. Certificate dates are checked against the system clock, unless the
/// certificate is pinned. If the environment variable `SSLKEYLOGFILE` is set, the client appends its secrets to that file
/// (RFC 9850).
pub fn client_config(trust: &Trust, alpn: &[u8]) -> Result<ClientConfig, TrustError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous();
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Fingerprint(pinned) => Arc::new(PinnedCertificate { pinned: *pinned, provider: provider() }),
        Trust::Authorities { file, .. } => {
            let mut roots = RootCertStore::empty();
            let found = certificates_in(file)
                .map_err(|source| TrustError::Authorities { file: file.clone(), source })?;
            for certificate in found {
                roots.add(certificate)?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()?
        }
        Trust::Public { .. } => {
            let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()?
        }
    };
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    if std::env::var_os("SSLKEYLOGFILE").is_some() {
        config.key_log = Arc::new(rustls::KeyLogFile::new());
    }
    Ok(config)
}

/// The reason why a server's certificate is rejected; `None` for any other error.
pub(crate) fn rejection(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            Some("its certificate is not the one with the fingerprint that was given".to_owned())
        }
        rustls::Error::InvalidCertificate(wrong) => Some(wrong.to_string()),
        _ => None,
    }
}

/// Trusts one certificate, irrespective of its name and dates; the handshake signature (RFC 8446, section 4.4.3) proves
/// possession of the key.
#[derive(Debug)]
struct PinnedCertificate {
    pinned: CertificateFingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint_of(end_entity) == self.pinned {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // TLS 1.2 is not offered.
        Err(rustls::PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
