//! The library's configurations: TLS 1.3 (RFC 8446) and nothing older, cryptography by `ring`.

use super::identity::{certificates_in, fingerprint_of};
use super::{CertificateFingerprint, ServerIdentity, Trust};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime, pem};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// What client and server agree to speak (RFC 7301); the version of the test protocol is in HELLO.
pub const ALPN: &[u8] = b"pathbench/1";

/// Why a client cannot be set up to believe a server.
#[derive(Debug, Error)]
pub enum TrustError {
    #[error("{}: {source}; give the authorities' certificates in PEM", .file.display())]
    Authorities { file: PathBuf, source: pem::Error },
    #[error("`{name}` is neither a DNS name nor an address: {source}")]
    Name { name: String, source: InvalidDnsNameError },
    #[error("setting up TLS: {0}")]
    Library(#[from] rustls::Error),
    #[error("setting up the authorities: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

impl Trust {
    /// The name that the server is to prove, and that is sent to it (RFC 6066) when it is a DNS name. A pinned
    /// certificate proves itself, whatever name it carries: then it is the server's address.
    pub fn server_name(&self, remote: IpAddr) -> Result<ServerName<'static>, TrustError> {
        match self {
            Self::Fingerprint(_) => Ok(ServerName::IpAddress(remote.into())),
            Self::Authorities { name, .. } | Self::Public { name } => ServerName::try_from(name.clone())
                .map_err(|source| TrustError::Name { name: name.clone(), source }),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A server's side, with one ALPN protocol, without client certificates, session tickets kept by the client only.
///
/// # Errors
/// When the key does not fit the certificate, or is of a kind that the library does not know.
pub fn server_config(identity: &ServerIdentity, alpn: &[u8]) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.key())?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// A client's side, with one ALPN protocol. Certificates' dates are checked with the system's clock, unless the
/// certificate is pinned.
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
    Ok(config)
}

/// In words, why a server is not the one that was meant, when that is what is wrong.
pub(crate) fn distrust(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            Some("its certificate is not the one with the fingerprint that was given".to_owned())
        }
        rustls::Error::InvalidCertificate(wrong) => Some(wrong.to_string()),
        _ => None,
    }
}

/// Believes one certificate, whatever name and dates it carries; that the server has its key is proved by the
/// signature of the handshake (RFC 8446, 4.4.3), as always.
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
