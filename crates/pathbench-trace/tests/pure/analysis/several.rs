//! Several captures.

use crate::wire::{ACK, CLIENT, Capture, SECOND, SYN, Subflow, document};

#[test]
fn subflows_in_captures_of_their_own_are_one_connection() {
    let mut first_capture = Capture::new();
    let (first, second) = (Subflow::new(CLIENT, [0, 0]), Subflow::new(SECOND, [0, 0]));
    first.handshake(&mut first_capture);
    let mut second_capture = Capture::new();
    second_capture.wait(50.0);
    second.join(&mut second_capture);
    second_capture.segment(&second.upload(1, 101, 50));
    first_capture.wait(100.0).segment(&first.upload(1, 1, 100));
    for order in [[&second_capture, &first_capture], [&first_capture, &second_capture]] {
        let captures = order.map(|capture| capture.clone().into_bytes());
        let document = document(&captures.each_ref().map(Vec::as_slice), 10);
        let [connection] = document.connections.as_slice() else { panic!("{document:#?}") };
        assert_eq!(connection.subflows.len(), 2);
        assert_eq!(connection.upload.data_bytes, 150);
    }
}

#[test]
fn the_next_file_of_a_point_of_capture_continues_its_flows() {
    let mut whole = Capture::new();
    let flow = Subflow::new(CLIENT, [0, 0]);
    whole.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
    whole.segment(&flow.from(0, ACK, 1, 1).payload(100));
    let mut next = Capture::new();
    next.now_ms = whole.now_ms + 5.0;
    next.segment(&flow.from(0, ACK, 101, 1).payload(70));
    let captures = [whole.into_bytes(), next.into_bytes()];
    let document = document(&captures.each_ref().map(Vec::as_slice), 10);
    assert_eq!(document.connections.len(), 1);
    assert_eq!(document.connections[0].upload.data_bytes, 170);
    assert_eq!(document.captures.iter().map(|capture| capture.packets).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn a_second_point_of_capture_doubles_nothing() {
    let mut client = Capture::new();
    let flow = Subflow::new(CLIENT, [0, 0]);
    client.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
    client.segment(&flow.from(0, ACK, 1, 1).payload(100));
    // Both captures run at the same time.
    client.wait(100.0).segment(&flow.from(1, ACK, 1, 101));
    let mut server = Capture::new();
    server.now_ms += 3.0;
    server.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
    server.segment(&flow.from(0, ACK, 1, 1).payload(100)).wait(90.0).segment(&flow.from(1, ACK, 1, 101));
    let captures = [client.into_bytes(), server.into_bytes()];
    let document = document(&captures.each_ref().map(Vec::as_slice), 10);
    assert_eq!(document.connections.len(), 1);
    let sent = &document.connections[0].subflows[0].upload;
    assert_eq!((sent.payload_bytes, sent.retransmitted_bytes, sent.packets), (100, 0, 2));
}

#[test]
fn a_truncated_capture_gives_all_before_the_damage_and_its_place() {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [0, 0]);
    capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(0, ACK, 1, 1).payload(100));
    let whole = capture.clone().into_bytes();
    capture.segment(&flow.from(0, ACK, 101, 1).payload(100));
    let mut cut = capture.into_bytes();
    cut.truncate(cut.len() - 1);
    let document = document(&[&cut], 10);
    assert_eq!(document.connections[0].upload.data_bytes, 100);
    let damage = document.captures[0].damage.as_deref().unwrap();
    assert!(damage.contains(&whole.len().to_string()), "{damage}");
}

#[test]
fn figures_of_a_sender_come_from_the_capture_nearer_to_it() {
    let flow = Subflow::new(CLIENT, [0, 0]);
    // The path has 5 ms each way; the first copy of the server's data is lost on it.
    let at = |delay_ms: f64, server: bool| {
        let mut capture = Capture::new();
        let begin = capture.now_ms;
        let mut segment = |ms: f64, segment: &crate::wire::Segment| {
            capture.now_ms = begin + ms;
            capture.segment(segment);
        };
        let data = flow.from(1, ACK, 1, 1).payload(1_000);
        segment(delay_ms, &flow.from(0, SYN, 0, 0));
        segment(10.0 - delay_ms, &flow.from(1, SYN | ACK, 0, 1));
        segment(10.0 + delay_ms, &flow.from(0, ACK, 1, 1));
        if server {
            segment(20.0, &data);
        }
        segment(225.0 - delay_ms, &data);
        segment(225.0 + delay_ms, &flow.from(0, ACK, 1, 1_001));
        segment(235.0 - delay_ms, &flow.from(1, ACK, 1_001, 1).payload(500));
        segment(235.0 + delay_ms, &flow.from(0, ACK, 1, 1_501));
        capture.into_bytes()
    };
    let captures = [at(0.0, false), at(5.0, true)];
    let document = document(&captures.each_ref().map(Vec::as_slice), 10);
    let subflow = &document.connections[0].subflows[0];
    assert_eq!((subflow.download.payload_bytes, subflow.download.retransmitted_bytes), (2_500, 1_000));
    assert!((subflow.download_rtt_ms.as_ref().unwrap().median - 10.0).abs() < 0.5, "{subflow:#?}");
    let compared = &subflow.comparison.as_ref().unwrap();
    assert_eq!((compared.client_capture, compared.download.lost_bytes), (0, 1_000));
}

#[test]
fn a_quic_connection_at_two_points_is_counted_once() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/mpquic.pcap");
    let bytes = std::fs::read(recorded).unwrap();
    let (once, twice) = (document(&[&bytes], 10), document(&[&bytes, &bytes], 10));
    assert_eq!(once.totals.quic_connections, 1);
    assert_eq!(twice.totals, once.totals);
    assert_eq!(twice.connections[0].upload.payload_bytes, once.connections[0].upload.payload_bytes);
}
