//! A collector as a service: TLS, and a graceful end.

use crate::support::process::{Collector, line, pathbench, submission};
use crate::support::within;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn tls_with_certificate_files_serves_clients_that_trust_them_only() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let collector = Collector::start(&["--open", "--cert", &path("cert.pem"), "--key", &path("key.pem")]);
    assert!(collector.url.starts_with("https://"), "{}", collector.url);
    let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden/v1");
    let submit = |options: &[&str]| {
        let arguments =
            ["submit", golden.to_str().unwrap(), "--collector", &collector.url, "--consent", "public"];
        pathbench(place.path(), &[&arguments, options].concat())
    };
    let distrusted = submit(&[]);
    assert!(!distrusted.status.success(), "{}", String::from_utf8_lossy(&distrusted.stderr));
    let trusted = submit(&["--collector-ca", &path("cert.pem")]);
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
    // Plain HTTP gets no answer, and other clients are served.
    let mut plain = TcpStream::connect(collector.address()).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    assert!(submit(&["--collector-ca", &path("cert.pem")]).status.success());
}

#[test]
fn a_request_in_progress_is_finished_at_the_end() {
    let collector = Collector::start(&["--open"]);
    let body = line(&submission());
    let mut stream = TcpStream::connect(collector.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "POST /v1/results HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    let (first, rest) = body.split_at(100);
    stream.write_all(first.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let address = collector.address();
    let ended = std::thread::spawn(move || collector.stop());
    // New connections are refused while the old one is served.
    assert!(within(PATIENCE, || TcpStream::connect(&address).is_err().then_some(())).is_some());
    stream.write_all(rest.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(ended.join().unwrap(), Some(0));
}

/// The usual certificate of `openssl req -x509`: it is that of a CA, and names no host.
fn write_certificate_of_openssl(certificate: &str, key: &str) -> String {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "collector");
    let pair = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&pair).unwrap();
    std::fs::write(certificate, made.pem()).unwrap();
    std::fs::write(key, pair.serialize_pem()).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, made.der());
    data_encoding::HEXLOWER.encode(digest.as_ref())
}

/// Regression: a certificate without a name of the host could not be trusted, a renewed one needed a restart, and SIGHUP
/// ended the collector.
#[test]
fn a_certificate_of_openssl_is_trusted_by_its_fingerprint_and_renewed_at_sighup() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let former = write_certificate_of_openssl(&certificate, &key);
    let collector = Collector::start(&["--open", "--cert", &certificate, "--key", &key]);
    let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden/v1");
    let submit = |options: &[&str]| {
        let arguments =
            ["submit", golden.to_str().unwrap(), "--collector", &collector.url, "--consent", "public"];
        let output = pathbench(place.path(), &[&arguments, options].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let hang_up = || {
        let pid = rustix::process::Pid::from_raw(collector.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    let pinned = |fingerprint: &str| submit(&["--collector-fingerprint", fingerprint]);
    let (code, message) = pinned(&"0".repeat(64));
    assert!(code == Some(3) && message.contains("cannot reach the collector"), "{message}");
    assert_eq!(pinned(&former).0, Some(0));
    std::fs::write(&certificate, "broken").unwrap();
    hang_up();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(pinned(&former).0, Some(0), "the present certificate stays");
    let renewed = write_certificate_of_openssl(&certificate, &key);
    hang_up();
    assert!(within(PATIENCE, || (pinned(&renewed).0 == Some(0)).then_some(())).is_some());
    assert_eq!(pinned(&former).0, Some(3), "the former fingerprint is that of another collector");
    assert_eq!(collector.stop(), Some(0));
}
