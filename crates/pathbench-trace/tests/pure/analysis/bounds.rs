//! Bounds of the analysis, and what is no sign that one was reached.

use crate::wire::{ACK, CLIENT, Capture, SERVER, SERVER_KEY, SYN, Segment, Subflow};
use pathbench_trace::mptcp::keys;

/// Joins of one token beyond the most subflows of a connection are counted, and do not take its token.
#[test]
fn joins_beyond_the_most_subflows_are_counted() {
    const JOINS: u32 = 1_100;
    let mut capture = Capture::new();
    let first = Subflow::new(CLIENT, [9, 8]);
    first.handshake(&mut capture);
    for number in 0..JOINS {
        let mut option = vec![30, 12, 0x10, 2];
        option.extend(keys::token(1, SERVER_KEY).to_be_bytes());
        option.extend(number.to_be_bytes());
        let client = ([10, 1, (number >> 8) as u8, number as u8], 2_000);
        capture.segment(&Segment::new(client, SERVER, SYN, number, 0).option(&option));
    }
    let totals = capture.document().totals;
    assert_eq!((totals.mptcp_connections, totals.mptcp_subflows), (1, 1_024));
    assert_eq!(totals.discarded, 1 + u64::from(JOINS) - 1_024);
}

#[test]
fn lost_fragments_reach_no_bound() {
    let mut capture = Capture::new();
    for identification in [7_u8, 8, 9] {
        let mut fragment = vec![0x45, 0, 0, 36, 0, identification, 0x20, 0, 64, 17, 0, 0];
        fragment.extend(CLIENT.0);
        fragment.extend(SERVER.0);
        fragment.extend([0; 16]);
        capture.packet(&fragment).wait(40_000.0);
    }
    let totals = capture.document().totals;
    assert_eq!((totals.discarded, totals.incomplete_datagrams), (0, 2));
}

/// The length of the IP header counts as far as the frame has it on the wire.
#[test]
fn an_ip_length_beyond_the_frame_is_no_payload() {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [9, 8]);
    capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
    let mut packet = flow.from(0, ACK, 1, 1).payload(100).packet();
    packet[2..4].copy_from_slice(&30_000_u16.to_be_bytes());
    capture.packet(&packet);
    let upload = capture.connection().subflows[0].upload.clone();
    assert_eq!((upload.payload_bytes, upload.ip_bytes), (100, 40 + 140));
}

/// Every path takes packets of 576 bytes (IPv4) or 1,280 bytes (IPv6).
#[test]
fn small_packets_are_not_lost_by_their_size() {
    for (large, expected) in [(400, None), (536, None), (600, Some(639)), (1_400, Some(1_439))] {
        let mut capture = Capture::new();
        let flow = Subflow::new(CLIENT, [77, 5]);
        capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
        capture.segment(&flow.from(0, ACK, 1, 1));
        capture.segment(&flow.from(1, ACK, 1, 1).payload(100)).wait(5.0).segment(&flow.from(0, ACK, 1, 101));
        for _ in 0..6 {
            capture.segment(&flow.from(1, ACK, 101, 1).payload(large)).wait(300.0);
        }
        assert_eq!(capture.connection().subflows[0].black_hole_above_bytes, expected, "{large}");
    }
}
