//! Connections of MPTCP.

use crate::wire::{
    ACK, CLIENT, CLIENT_KEY, Capture, FIN, RST, SECOND, SERVER_KEY, Subflow, dss, initial_data,
};
use pathbench_record::trace::HandshakeEvidence;
use pathbench_trace::mptcp::keys;

fn two_subflows(capture: &mut Capture) -> [Subflow; 2] {
    let first = Subflow::new(CLIENT, [1_000, 0xffff_fff0]);
    let second = Subflow::new(SECOND, [0xffff_ff00, 5_000]);
    first.handshake(capture);
    second.join(capture);
    [first, second]
}

#[test]
fn a_join_belongs_to_the_connection_of_its_token() {
    let mut capture = Capture::new();
    let [first, second] = two_subflows(&mut capture);
    capture.segment(&first.upload(1, 1, 1_000));
    // Across the wrap of the 32-bit sequence numbers.
    capture.segment(&second.upload(1, 1_001, 500));
    capture.wait(20.0).segment(&first.acknowledge(1_001, 1_501)).segment(&second.acknowledge(501, 1_501));
    let connection = capture.connection();
    assert_eq!((connection.transport.as_str(), connection.version.as_deref()), ("mptcp", Some("1")));
    assert_eq!(connection.handshake, HandshakeEvidence::Captured);
    assert_eq!(connection.server_token, Some(format!("{:#010x}", keys::token(1, SERVER_KEY))));
    assert_eq!(connection.client_token, Some(format!("{:#010x}", keys::token(1, CLIENT_KEY))));
    assert_eq!(connection.upload.data_bytes, 1_500);
    assert_eq!(connection.upload.acknowledged_bytes, Some(1_500));
    assert_eq!(connection.upload.reinjected_bytes, Some(0));
    let [first, second] = connection.subflows.as_slice() else { panic!("{connection:#?}") };
    assert_eq!((first.kind.as_str(), second.kind.as_str()), ("initial", "join"));
    assert_eq!(second.authenticated, Some(true));
    assert_eq!((second.client_address_id, second.server_address_id), (Some(2), Some(0)));
    assert_eq!((first.client_mss, first.server_mss), (Some(1_460), Some(1_380)));
    assert!((first.handshake_rtt_ms.unwrap() - 20.0).abs() < 0.1);
    assert_eq!([first.upload.payload_bytes, second.upload.payload_bytes], [1_000, 500]);
    assert_eq!(second.upload.acknowledged_bytes, 500);
    assert!((first.upload_rtt_ms.as_ref().unwrap().median - 20.0).abs() < 0.3);
    assert_eq!(first.upload.goodput.bytes.iter().sum::<u64>(), 1_000);
}

#[test]
fn a_wrong_hmac_is_found() {
    let mut capture = Capture::new();
    let first = Subflow::new(CLIENT, [0, 0]);
    first.handshake(&mut capture);
    let before = capture.clone().into_bytes().len();
    Subflow::new(SECOND, [0, 0]).join(&mut capture);
    let mut bytes = capture.into_bytes();
    // The last byte of the join's third segment is the last of its HMAC.
    assert!(bytes.len() > before);
    *bytes.last_mut().unwrap() ^= 1;
    let document = crate::wire::document(&[&bytes], 10);
    assert_eq!(document.connections[0].subflows[1].authenticated, Some(false));
    assert!(document.findings.iter().any(|finding| finding.id == "join-hmac"));
}

#[test]
fn data_that_another_subflow_carries_again_are_reinjected() {
    // Whether the first copy was acknowledged on its subflow before the data were decides whether the second was needed.
    for needed in [false, true] {
        let mut capture = Capture::new();
        let [first, second] = two_subflows(&mut capture);
        capture.segment(&first.upload(1, 1, 1_000));
        capture.wait(300.0).segment(&second.upload(1, 1, 1_000)).wait(20.0);
        if !needed {
            capture.segment(&first.acknowledge(1_001, 1));
        }
        capture.segment(&second.acknowledge(1_001, 1_001));
        let connection = capture.connection();
        assert_eq!(connection.upload.data_bytes, 1_000);
        assert_eq!(connection.upload.payload_bytes, 2_000);
        assert_eq!(connection.upload.reinjected_bytes, Some(1_000));
        assert_eq!(connection.upload.reinjected_same_subflow_bytes, Some(0));
        assert_eq!(connection.upload.reinjected_needed_bytes, Some(if needed { 1_000 } else { 0 }));
        assert_eq!(connection.subflows[1].upload.reinjected_bytes, Some(1_000));
        assert_eq!(connection.subflows[1].upload.goodput.bytes.iter().sum::<u64>(), 0);
    }
}

#[test]
fn a_reinjection_on_the_same_subflow_is_no_retransmission() {
    let mut capture = Capture::new();
    let [first, _] = two_subflows(&mut capture);
    capture.segment(&first.upload(1, 1, 1_000));
    capture.segment(&first.upload(1, 1, 1_000));
    capture.segment(&first.upload(1_001, 1, 700));
    let connection = capture.connection();
    assert_eq!(connection.subflows[0].upload.retransmitted_bytes, 1_000);
    assert_eq!(connection.upload.reinjected_bytes, Some(700));
    assert_eq!(connection.upload.reinjected_same_subflow_bytes, Some(700));
}

#[test]
fn copies_that_overlap_are_counted_once() {
    let mut capture = Capture::new();
    let [first, _] = two_subflows(&mut capture);
    capture.segment(&first.upload(1, 1, 1_000)).segment(&first.upload(1_001, 1, 1_000));
    // Both copies have the first half of it.
    capture.segment(&first.upload(2_001, 501, 1_000));
    let connection = capture.connection();
    assert_eq!(connection.upload.data_bytes, 1_500);
    assert_eq!(connection.upload.reinjected_bytes, Some(1_500));
    assert_eq!(connection.upload.reinjected_same_subflow_bytes, Some(1_500));
}

#[test]
fn payload_before_its_mapping_is_resolved_when_the_mapping_comes() {
    let mut capture = Capture::new();
    let [first, second] = two_subflows(&mut capture);
    capture.segment(&first.upload(1, 1, 100));
    // The mapping's first packet is lost: the second has payload only.
    capture.segment(&second.from(0, ACK, 501, 1).payload(500));
    let mapping = (initial_data(CLIENT_KEY).wrapping_add(101), 1, 1_000);
    let option = dss(initial_data(SERVER_KEY).wrapping_add(1), Some(mapping), false);
    capture.wait(50.0).segment(&second.from(0, ACK, 1, 1).option(&option).payload(500));
    // And payload that never gets one.
    capture.segment(&second.from(0, ACK, 1_001, 1).payload(50));
    let connection = capture.connection();
    assert_eq!(connection.upload.data_bytes, 1_100);
    assert_eq!(connection.subflows[1].upload.unmapped_bytes, Some(50));
    assert_eq!(connection.subflows[1].upload.goodput.bytes.iter().sum::<u64>(), 1_000);
}

#[test]
fn a_mapping_far_from_all_data_maps_nothing() {
    let mut capture = Capture::new();
    let [first, _] = two_subflows(&mut capture);
    for distance in [u64::MAX, 1 << 40, (1 << 63) - 7] {
        let mapping = (initial_data(CLIENT_KEY).wrapping_add(distance), 1, 1_000);
        let option = dss(initial_data(SERVER_KEY).wrapping_add(distance), Some(mapping), true);
        capture.segment(&first.from(0, ACK, 1, 1).option(&option).payload(999));
    }
    capture.segment(&first.upload(1_000, 1, 500)).segment(&first.acknowledge(1_500, 501));
    let connection = capture.connection();
    assert_eq!((connection.upload.data_bytes, connection.upload.acknowledged_bytes), (500, Some(500)));
    assert_eq!(connection.subflows[0].upload.unmapped_bytes, Some(999));
    assert_eq!(connection.download.acknowledged_bytes, Some(0));
}

#[test]
fn data_out_of_order_wait_for_those_before_them() {
    let mut capture = Capture::new();
    let [first, second] = two_subflows(&mut capture);
    capture.segment(&second.upload(1, 1_001, 500)).wait(80.0).segment(&first.upload(1, 1, 1_000));
    let delay = capture.connection().upload.out_of_order_delay_ms.unwrap();
    assert_eq!(delay.count, 1);
    assert!((delay.max - 80.0).abs() < 1.0, "{delay:?}");
}

#[test]
fn a_data_fin_is_no_data() {
    let mut capture = Capture::new();
    let [first, _] = two_subflows(&mut capture);
    let mapping = (initial_data(CLIENT_KEY).wrapping_add(1), 1, 301);
    let option = dss(initial_data(SERVER_KEY).wrapping_add(1), Some(mapping), true);
    capture.segment(&first.from(0, ACK, 1, 1).option(&option).payload(300));
    capture.segment(&first.acknowledge(301, 302));
    let alone = (initial_data(SERVER_KEY).wrapping_add(1), 0, 1);
    let option = dss(initial_data(CLIENT_KEY).wrapping_add(302), Some(alone), true);
    capture.segment(&first.from(1, ACK, 1, 301).option(&option));
    capture.segment(&first.from(0, FIN | ACK, 301, 1)).segment(&first.from(1, FIN | ACK, 1, 302));
    let connection = capture.connection();
    assert_eq!((connection.upload.data_bytes, connection.upload.acknowledged_bytes), (300, Some(300)));
    assert_eq!((connection.download.data_bytes, connection.download.acknowledged_bytes), (0, Some(0)));
    assert_eq!(connection.subflows[0].end, "fin");
    assert_eq!(connection.subflows[0].upload.acknowledged_bytes, 300);
    assert_eq!(connection.subflows[0].upload.missing_bytes, 0);
}

#[test]
fn signals_are_listed_once() {
    let mut capture = Capture::new();
    let [first, second] = two_subflows(&mut capture);
    let add = [30, 16, 0x30, 3, 198, 51, 100, 7, 1, 2, 3, 4, 5, 6, 7, 8];
    let remove = [30, 4, 0x40, 2];
    let priority = [30, 3, 0x51];
    for _ in 0..2 {
        capture.segment(&first.from(1, ACK, 1, 1).option(&add));
    }
    capture.segment(&first.from(0, ACK, 1, 1).option(&remove));
    capture.segment(&second.from(0, ACK, 1, 1).option(&priority));
    capture.segment(&second.from(0, RST, 1, 1).option(&[30, 4, 0x80, 2]));
    let connection = capture.connection();
    let found: Vec<_> = connection
        .signals
        .iter()
        .map(|signal| (signal.kind.as_str(), signal.sender.as_str(), signal.subflow))
        .collect();
    let expected = [
        ("add-addr", "server", 0),
        ("remove-addr", "client", 0),
        ("mp-prio", "client", 1),
        ("mp-tcprst", "client", 1),
    ];
    assert_eq!(found, expected);
    assert_eq!(connection.signals[0].address.as_deref(), Some("198.51.100.7"));
    assert_eq!(connection.subflows[1].backup, Some(true));
    assert_eq!(connection.subflows[1].reset_reason.as_deref(), Some("lack of resources"));
    assert_eq!(connection.subflows[1].end, "reset");
}

#[test]
fn a_join_without_the_first_handshake_is_grouped_by_its_token() {
    let mut capture = Capture::new();
    let (second, third) = (Subflow::new(SECOND, [0, 0]), Subflow::new(([10, 0, 0, 1], 40_002), [50, 60]));
    second.join(&mut capture);
    third.join(&mut capture);
    let connection = capture.connection();
    assert_eq!(connection.handshake, HandshakeEvidence::Token);
    assert_eq!(connection.subflows.len(), 2);
    assert_eq!(connection.subflows[0].authenticated, None);
}

#[test]
fn subflows_without_handshakes_are_grouped_by_their_data() {
    for join_captured in [false, true] {
        let mut capture = Capture::new();
        let (first, second) = (Subflow::new(CLIENT, [1_000, 2_000]), Subflow::new(SECOND, [30_000, 4_000]));
        // Both have carried data before the capture begins.
        capture.segment(&first.upload(70_001, 100_001, 1_000));
        if join_captured {
            second.join(&mut capture);
        }
        let begin = if join_captured { 1 } else { 8_001 };
        capture.segment(&second.upload(begin, 101_001, 500)).segment(&second.upload(
            begin + 500,
            101_501,
            500,
        ));
        capture.segment(&first.upload(71_001, 101_501, 500));
        let connection = capture.connection();
        let expected = if join_captured { HandshakeEvidence::Token } else { HandshakeEvidence::Guessed };
        assert_eq!(connection.handshake, expected);
        assert_eq!(connection.subflows.len(), 2);
        assert_eq!(connection.upload.data_bytes, 2_000);
        assert_eq!(connection.upload.reinjected_bytes, Some(500));
    }
}
