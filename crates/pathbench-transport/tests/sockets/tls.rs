//! Server authentication and the negotiated protocol, in memory.

use pathbench_transport::{ALPN, IdentityError, ServerIdentity, Trust, client_config, server_config};
use rustls::{ClientConnection, ProtocolVersion, ServerConnection};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

const ANYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Exchanges messages until both ends are idle; returns the client's result.
fn exchange(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), rustls::Error> {
    let mut wire = Vec::new();
    while client.wants_write() || server.wants_write() {
        wire.clear();
        client.write_tls(&mut wire).unwrap();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
        }
        // The server's error reaches the client in its answer.
        let _ = server.process_new_packets();
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
        }
        client.process_new_packets()?;
    }
    Ok(())
}

fn handshake(identity: &ServerIdentity, trust: &Trust) -> Result<ClientConnection, rustls::Error> {
    let name = trust.server_name(ANYWHERE).unwrap();
    let client = client_config(trust, ALPN).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server_config(identity, ALPN).unwrap())).unwrap();
    exchange(&mut client, &mut server).map(|()| client)
}

fn self_signed() -> ServerIdentity {
    ServerIdentity::self_signed(&["server.test".to_owned(), "192.0.2.7".to_owned(), "2001:db8::7".to_owned()])
        .unwrap()
}

#[test]
fn only_the_pinned_certificate_is_trusted_irrespective_of_its_name() {
    let identity = self_signed();
    let client = handshake(&identity, &Trust::Fingerprint(identity.fingerprint())).unwrap();
    assert!(!client.is_handshaking());
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(client.alpn_protocol(), Some(ALPN));
    let other = self_signed();
    assert_ne!(identity.fingerprint(), other.fingerprint());
    assert!(handshake(&other, &Trust::Fingerprint(identity.fingerprint())).is_err());
}

#[test]
fn public_cas_do_not_verify_a_self_signed_certificate() {
    let error = handshake(&self_signed(), &Trust::Public { name: "server.test".to_owned() }).unwrap_err();
    assert!(matches!(error, rustls::Error::InvalidCertificate(_)), "{error}");
}

/// A directory with a CA's `ca.pem`, and `chain.pem` and `key.pem` of a server certified by it.
fn certified(name: &str) -> tempfile::TempDir {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let directory = tempfile::tempdir().unwrap();
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key).unwrap();
    std::fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    std::fs::write(directory.path().join("chain.pem"), own.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    directory
}

#[test]
fn a_ca_certifies_only_the_name_in_the_certificate() {
    let files = certified("server.test");
    let file = |name: &str| files.path().join(name);
    let identity = ServerIdentity::from_pem_files(&file("chain.pem"), &file("key.pem")).unwrap();
    let by = |name: &str| Trust::Authorities { file: file("ca.pem"), name: name.to_owned() };
    handshake(&identity, &by("server.test")).unwrap();
    let error = handshake(&identity, &by("other.test")).unwrap_err();
    assert!(error.to_string().contains("other.test"), "{error}");
    // Another key and certificate for the same name.
    let elsewhere = certified("server.test");
    let foreign =
        Trust::Authorities { file: elsewhere.path().join("ca.pem"), name: "server.test".to_owned() };
    assert!(handshake(&identity, &foreign).is_err());
}

#[test]
fn a_file_error_names_the_file() {
    let files = certified("server.test");
    let others = certified("server.test");
    let (chain, key) = (files.path().join("chain.pem"), files.path().join("key.pem"));
    let absent = PathBuf::from("/nonexistent/chain.pem");
    let error = ServerIdentity::from_pem_files(&absent, &key).unwrap_err();
    assert!(matches!(error, IdentityError::Certificate { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent/chain.pem"), "{error}");
    let error = ServerIdentity::from_pem_files(&chain, &chain).unwrap_err();
    assert!(matches!(error, IdentityError::Key { .. }), "{error}");
    let error = ServerIdentity::from_pem_files(&chain, &others.path().join("key.pem")).unwrap_err();
    assert!(matches!(error, IdentityError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("is the key that of"), "{error}");
    assert!(client_config(&Trust::Authorities { file: key, name: "x".to_owned() }, ALPN).is_err());
    assert!(Trust::Public { name: "no name".to_owned() }.server_name(ANYWHERE).is_err());
}

#[test]
fn a_server_with_another_alpn_protocol_is_rejected() {
    let identity = self_signed();
    let trust = Trust::Fingerprint(identity.fingerprint());
    let client = client_config(&trust, b"h2").unwrap();
    let name = trust.server_name(ANYWHERE).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server_config(&identity, ALPN).unwrap())).unwrap();
    assert!(exchange(&mut client, &mut server).is_err());
}
