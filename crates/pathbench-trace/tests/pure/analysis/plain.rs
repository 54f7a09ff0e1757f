//! TCP without MPTCP, and the analysis as a whole.

use crate::wire::{ACK, CLIENT, Capture, FIN, RST, SERVER, SYN, Segment, Subflow, document};

fn begun(capture: &mut Capture) -> Subflow {
    let flow = Subflow::new(CLIENT, [77, 0xffff_ffff]);
    capture
        .segment(&flow.from(0, SYN, 0, 0))
        .segment(&flow.from(1, SYN | ACK, 0, 1))
        .segment(&flow.from(0, ACK, 1, 1));
    flow
}

#[test]
fn retransmissions_and_reordering_are_told_apart() {
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    let data = |sequence: u32, bytes| flow.from(1, ACK, sequence, 1).payload(bytes);
    // 1..1001, 2001..3001, then the gap, then all of it again, half of it with new data.
    capture.segment(&data(1, 1_000)).segment(&data(2_001, 1_000)).segment(&data(1_001, 1_000));
    capture.segment(&data(2_001, 1_000)).segment(&data(2_501, 1_000));
    capture
        .segment(&flow.from(0, ACK, 1, 1_001))
        .segment(&flow.from(0, ACK, 1, 1_001))
        .segment(&flow.from(0, ACK, 1, 3_501));
    let connection = capture.connection();
    assert_eq!(connection.transport, "tcp");
    let sent = &connection.subflows[0].download;
    assert_eq!((sent.payload_bytes, sent.packets), (5_000, 6));
    assert_eq!((sent.retransmitted_bytes, sent.retransmitted_packets), (1_500, 2));
    assert_eq!(sent.out_of_order_bytes, 1_000);
    assert_eq!(sent.acknowledged_bytes, 3_500);
    assert_eq!(connection.download.data_bytes, 3_500);
    assert_eq!(connection.subflows[0].upload.duplicate_acks, 1);
    assert_eq!(sent.segment_sizes.len(), 1);
    assert_eq!((sent.segment_sizes[0].bytes, sent.segment_sizes[0].packets), (1_000, 5));
}

#[test]
fn acknowledged_bytes_that_were_not_captured_are_missing() {
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    capture.segment(&flow.from(0, ACK, 1_001, 1).payload(100)).segment(&flow.from(1, ACK, 1, 1_101));
    let document = capture.document();
    assert_eq!(document.connections[0].subflows[0].upload.missing_bytes, 1_000);
    assert!(document.findings.iter().any(|finding| finding.id == "missing"));
}

#[test]
fn a_router_reports_a_packet_of_a_subflow() {
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    let data = flow.from(1, ACK, 1, 1).payload(1_400);
    capture.segment(&data);
    let quote = |segment: &Segment| {
        let quoted = segment.packet();
        let mut packet = vec![0x45, 0, 0, 56, 0, 0, 0x40, 0, 64, 1, 0, 0, 192, 0, 2, 254];
        packet.extend(SERVER.0);
        packet.extend([3, 4, 0, 0, 0, 0, 5, 0]);
        packet.extend(&quoted[..28]);
        packet
    };
    capture.packet(&quote(&data));
    // Another flow's, and a sequence number that was not sent.
    capture.packet(&quote(&Segment::new(SERVER, ([9, 9, 9, 9], 9), ACK, 1, 1)));
    capture.packet(&quote(&flow.from(1, ACK, 90_000, 1)));
    let document = capture.document();
    let [message] = document.connections[0].subflows[0].too_big.as_slice() else { panic!("{document:#?}") };
    assert_eq!((message.mtu, message.packet_bytes, message.direction.as_str()), (1_280, 1_440, "download"));
    assert!(document.findings.iter().any(|finding| finding.id == "too-big"));
}

#[test]
fn packets_above_a_size_that_never_arrive_are_suspected_of_a_black_hole() {
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    let send = |capture: &mut Capture, sequence: u32, bytes: usize| {
        capture.segment(&flow.from(1, ACK, sequence, 1).payload(bytes)).wait(200.0);
    };
    send(&mut capture, 1, 500);
    capture.segment(&flow.from(0, ACK, 1, 501));
    for _ in 0..6 {
        send(&mut capture, 501, 1_400);
    }
    let stuck = capture.connection();
    assert_eq!(stuck.subflows[0].black_hole_above_bytes, Some(1_439));
    // The sender lowers its packets, which arrive.
    send(&mut capture, 501, 1_000);
    send(&mut capture, 1_501, 400);
    capture.segment(&flow.from(0, ACK, 1, 1_901));
    let connection = capture.connection();
    assert_eq!(connection.subflows[0].black_hole_above_bytes, Some(1_439));
    // A loss alone is none.
    let mut capture = Capture::new();
    begun(&mut capture);
    send(&mut capture, 1, 1_400);
    send(&mut capture, 1, 1_400);
    capture.segment(&flow.from(0, ACK, 1, 1_401));
    assert_eq!(capture.connection().subflows[0].black_hole_above_bytes, None);
}

#[test]
fn a_new_connection_of_the_same_ends_is_another_one() {
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    capture.segment(&flow.from(0, ACK, 1, 1).payload(10)).segment(&flow.from(0, RST, 11, 1)).wait(1.0);
    let again = Subflow::new(CLIENT, [99, 5]);
    capture.segment(&again.from(0, SYN, 0, 0)).segment(&again.from(0, SYN, 0, 0)).segment(&again.from(
        1,
        SYN | ACK,
        0,
        1,
    ));
    capture.segment(&again.from(0, ACK, 1, 1).payload(20));
    let document = capture.document();
    assert_eq!(document.totals.tcp_connections, 2);
    let sent: Vec<_> = document.connections.iter().map(|connection| connection.upload.data_bytes).collect();
    assert_eq!(sent, [10, 20]);
    assert_eq!(document.connections[0].subflows[0].end, "reset");
}

#[test]
fn only_the_largest_connections_have_details_and_all_are_counted() {
    let mut capture = Capture::new();
    for number in 0..300_u16 {
        let flow = Subflow::new((CLIENT.0, 1_000 + number), [0, 0]);
        capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
        capture.segment(&flow.from(0, ACK, 1, 1).payload(usize::from(number % 100) + 1));
        capture.segment(&flow.from(0, ACK | FIN, 2 + u32::from(number % 100), 1)).segment(&flow.from(
            1,
            ACK | FIN,
            1,
            3,
        ));
        capture.wait(100.0);
    }
    let document = document(&[&capture.into_bytes()], 3);
    assert_eq!(document.totals.tcp_connections, 300);
    let kept: Vec<_> =
        document.connections.iter().map(|connection| (connection.id, connection.upload.data_bytes)).collect();
    assert_eq!(kept, [(99, 100), (199, 100), (299, 100)]);
}
