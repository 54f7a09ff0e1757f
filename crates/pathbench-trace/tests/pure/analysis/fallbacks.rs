//! Connections that became plain TCP, and why.

use crate::wire::{ACK, CLIENT, CLIENT_KEY, Capture, SERVER_KEY, SYN, Subflow, capable, dss, initial_data};

fn offered(answer: &[u8]) -> Capture {
    let mut capture = Capture::new();
    let subflow = Subflow::new(CLIENT, [0, 0]);
    capture.segment(&subflow.from(0, SYN, 0, 0).option(&capable(&[])));
    capture.segment(&subflow.from(1, SYN | ACK, 0, 1).option(answer));
    capture.segment(&subflow.from(0, ACK, 1, 1).payload(100));
    capture
}

#[track_caller]
fn assert_fallback(capture: &Capture, transport: &str, reason: &str, level: &str, words: &str) {
    let document = capture.document();
    let connection = &document.connections[0];
    assert_eq!(connection.transport, transport);
    assert_eq!(connection.fallback.as_ref().map(|fallback| fallback.reason.as_str()), Some(reason));
    let finding = document.findings.iter().find(|finding| finding.id == "fallback").expect("a finding");
    assert!(
        finding.level == level && finding.text.contains(words) && !finding.filter.is_empty(),
        "{finding:?}"
    );
    assert_eq!(connection.upload.data_bytes, 100);
}

#[test]
fn a_peer_declines() {
    assert_fallback(&offered(&[2, 4, 5, 180]), "tcp", "peer-declined", "warning", "did not answer it");
}

#[test]
fn a_middlebox_overwrites_the_option_with_nops() {
    assert_fallback(&offered(&[1; 12]), "tcp", "option-overwritten", "error", "overwrote the option");
}

#[test]
fn data_without_a_dss_after_the_handshake() {
    let mut capture = Capture::new();
    let subflow = Subflow::new(CLIENT, [0, 0]);
    subflow.handshake(&mut capture);
    capture
        .segment(&subflow.from(0, ACK, 1, 1).payload(60))
        .segment(&subflow.from(0, ACK, 61, 1).payload(40));
    assert_fallback(&capture, "mptcp", "no-dss", "error", "without a DSS");
}

#[test]
fn an_infinite_mapping_ends_multipath() {
    let mut capture = Capture::new();
    let subflow = Subflow::new(CLIENT, [0, 0]);
    subflow.handshake(&mut capture);
    capture.segment(&subflow.upload(1, 1, 60));
    let mapping = (initial_data(CLIENT_KEY).wrapping_add(61), 61, 0);
    let option = dss(initial_data(SERVER_KEY).wrapping_add(1), Some(mapping), false);
    capture.segment(&subflow.from(0, ACK, 61, 1).option(&option).payload(30));
    capture.segment(&subflow.from(0, ACK, 91, 1).payload(10));
    assert_fallback(&capture, "mptcp", "infinite-mapping", "warning", "infinite mapping");
}

#[test]
fn a_failed_checksum_on_the_only_subflow() {
    let mut capture = Capture::new();
    let subflow = Subflow::new(CLIENT, [0, 0]);
    subflow.handshake(&mut capture);
    capture.segment(&subflow.upload(1, 1, 100));
    let mut fail = vec![30, 12, 0x60, 0];
    fail.extend(initial_data(CLIENT_KEY).wrapping_add(1).to_be_bytes());
    capture.segment(&subflow.from(1, ACK, 1, 101).option(&fail));
    assert_fallback(&capture, "mptcp", "mp-fail", "error", "MP_FAIL");
    assert_eq!(capture.connection().signals[0].kind, "mp-fail");
}
