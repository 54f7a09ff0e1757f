//! The same bytes give the same result, however they are split into reads, and whatever batch a packet comes in.

use crate::wire::{ACK, CLIENT, Capture, FIN, RST, SECOND, SERVER, SYN, Segment, Subflow, dss, initial_data};
use crate::wire::{CLIENT_KEY, SERVER_KEY};
use pathbench_record::trace::TraceDocument;
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::quic::Quic;
use proptest::prelude::*;
use std::io::{self, Read};

/// Returns a few bytes at each read.
struct Split<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl Read for Split<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().copied().unwrap_or(1);
        let length = size.min(out.len()).min(self.bytes.len());
        let (head, tail) = self.bytes.split_at(length);
        out[..length].copy_from_slice(head);
        self.bytes = tail;
        Ok(length)
    }
}

fn split_document(captures: &[Vec<u8>], sizes: &[usize]) -> TraceDocument {
    let sources = captures
        .iter()
        .enumerate()
        .map(|(index, bytes)| {
            let split = Split { bytes, sizes: sizes.iter().cycle() };
            open(format!("capture-{index}"), split).unwrap()
        })
        .collect();
    analyse(sources, &AnalysisParameters { most: 100, seed: 1 }, Quic::new(None), ()).document
}

/// A connection whose only subflow is reset; another one joins after `pause_ms`.
fn break_before_make(capture: &mut Capture, pause_ms: f64) {
    let (first, second) = (Subflow::new(CLIENT, [9, 8]), Subflow::new(SECOND, [7, 6]));
    first.handshake(capture);
    capture.segment(&first.upload(1, 1, 500)).segment(&first.acknowledge(501, 501));
    capture.segment(&first.from(0, RST, 501, 0)).wait(pause_ms);
    second.join(capture);
    capture.segment(&second.upload(1, 501, 700)).segment(&second.acknowledge(701, 1_201));
}

/// Data-level and subflow-level close.
fn close(capture: &mut Capture, flow: &Subflow, sequence: u32, data: u64) {
    let fin = |side: usize, key, at: u64, acknowledged| {
        let peer = if side == 0 { SERVER_KEY } else { CLIENT_KEY };
        let option = dss(
            initial_data(peer).wrapping_add(acknowledged),
            Some((initial_data(key).wrapping_add(at), 0, 1)),
            true,
        );
        let numbers = if side == 0 { (sequence, 1) } else { (1, sequence) };
        flow.from(side, ACK, numbers.0, numbers.1).option(&option)
    };
    capture.segment(&fin(0, CLIENT_KEY, data, 1)).segment(&fin(1, SERVER_KEY, 1, data + 1));
    capture.segment(&flow.from(0, FIN | ACK, sequence, 1)).segment(&flow.from(1, FIN | ACK, 1, sequence + 1));
    capture.segment(&flow.from(0, ACK, sequence + 1, 2));
}

fn noise(capture: &mut Capture) {
    // ICMP echo, which is no packet of a connection, and the fragment of a datagram.
    let echo =
        [0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 203, 0, 113, 9, 8, 0, 0, 0, 0, 0, 0, 0];
    let mut fragment = echo;
    (fragment[5], fragment[6], fragment[9]) = (7, 0x20, 17);
    capture.packet(&echo).packet(&fragment);
}

/// Connections that close, ends that are used again before and after the time for which a closed one is kept, and a
/// break before a make, all within few packets.
fn eventful() -> Vec<u8> {
    let mut capture = Capture::new();
    break_before_make(&mut capture, 5_000.0);
    close(&mut capture, &Subflow::new(SECOND, [7, 6]), 701, 1_201);
    for (round, pause_ms) in [10.0, 2_999.0, 3_001.0, 40.0, 70_000.0, 3_000.0].into_iter().enumerate() {
        noise(&mut capture);
        let flow = Subflow::new(([192, 0, 2, 77], 50_000), [round as u32 * 90_000_000, 5]);
        capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
        capture.segment(&flow.from(0, ACK, 1, 1).payload(200)).segment(&flow.from(1, FIN | ACK, 1, 201));
        capture.segment(&flow.from(0, FIN | ACK, 201, 2)).segment(&flow.from(1, ACK, 2, 202)).wait(pause_ms);
        // What follows the end: a late retransmission of the last connection's data.
        capture.segment(&flow.from(0, ACK, 1, 1).payload(200));
    }
    capture.into_bytes()
}

/// Two points of capture with packets at the same times, one of which has files after another.
fn merged() -> [Vec<u8>; 2] {
    let (mut first, mut second) = (Capture::new(), Capture::new());
    let flow = Subflow::new(CLIENT, [3, 4]);
    flow.handshake(&mut first);
    flow.handshake(&mut second);
    for number in 0..200_u32 {
        let data = flow.upload(1 + number * 10, 1 + u64::from(number) * 10, 10);
        // Equal times in both captures, of different packets.
        first.segment(&data);
        second.segment(&flow.acknowledge(1 + number * 10, 1 + u64::from(number) * 10));
        if number % 50 == 49 {
            first.wait(4_000.0);
            second.wait(4_000.0);
        }
    }
    [first.into_bytes(), second.into_bytes()]
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/recorded/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn same_for_all(captures: &[Vec<u8>], sizes: &[usize]) {
    let whole = split_document(captures, &[usize::MAX]);
    let found = split_document(captures, sizes);
    assert_eq!((&found.totals, found.connections.len()), (&whole.totals, whole.connections.len()));
    for (found, whole) in found.connections.iter().zip(&whole.connections) {
        assert_eq!(found, whole);
    }
    assert!(found == whole, "captures or findings differ");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_bytes_give_the_same_result(sizes in prop::collection::vec(1..6_000_usize, 1..40)) {
        same_for_all(&[eventful()], &sizes);
        same_for_all(&merged(), &sizes);
        same_for_all(&[recorded("checksums.pcap")], &sizes);
        same_for_all(&[recorded("tcpdump/mptcp-v0.pcap")], &sizes);
    }
}

/// Reads that end after each byte of a capture in turn.
#[test]
fn no_place_of_a_pause_changes_the_result() {
    let bytes = eventful();
    let whole = split_document(std::slice::from_ref(&bytes), &[usize::MAX]);
    assert_eq!(whole.totals.mptcp_connections, 1);
    for pause in (24..bytes.len()).step_by(29) {
        let found = split_document(std::slice::from_ref(&bytes), &[pause, bytes.len()]);
        assert!(found == whole, "pause after byte {pause}");
    }
}

#[test]
fn a_join_finds_its_connection_whenever_it_comes() {
    for pause_ms in [0.0, 100.0, 3_100.0, 5_000.0, 600_000.0] {
        let mut capture = Capture::new();
        break_before_make(&mut capture, pause_ms);
        // Other traffic in between does not end it.
        let connection = capture.connection();
        assert_eq!(connection.subflows.len(), 2, "after {pause_ms} ms");
        assert_eq!(connection.upload.data_bytes, 1_200);
        assert_eq!(connection.subflows[1].authenticated, Some(true));
    }
}

#[test]
fn a_connection_whose_data_level_closed_is_not_joined() {
    let mut capture = Capture::new();
    let first = Subflow::new(CLIENT, [9, 8]);
    first.handshake(&mut capture);
    capture.segment(&first.upload(1, 1, 500)).segment(&first.acknowledge(501, 501));
    close(&mut capture, &first, 501, 501);
    capture.wait(5_000.0);
    Subflow::new(SECOND, [7, 6]).join(&mut capture);
    assert_eq!(capture.document().connections.len(), 2);
}

/// Connections that wait for a join are bounded: the oldest ends.
#[test]
fn connections_without_a_subflow_are_bounded() {
    const CONNECTIONS: u32 = 4_200;
    let mut capture = Capture::new();
    let key = |number: u32| pathbench_trace::mptcp::keys::Key(0x1_0000 + u64::from(number));
    for number in 0..CONNECTIONS {
        let client = ([10, 0, (number >> 8) as u8, number as u8], 1_000);
        let segment = |side: usize, flags, sequence, acknowledgment, keys: &[_]| {
            let (from, to) = if side == 0 { (client, SERVER) } else { (SERVER, client) };
            Segment::new(from, to, flags, sequence, acknowledgment).option(&crate::wire::capable(keys))
        };
        capture.segment(&segment(0, SYN, 0, 0, &[])).segment(&segment(1, SYN | ACK, 0, 1, &[key(number)]));
        capture.segment(&segment(0, ACK, 1, 1, &[CLIENT_KEY, key(number)]));
        capture.segment(&Segment::new(client, SERVER, RST, 1, 0)).wait(1.0);
    }
    let join = |number: u32| {
        let mut option = vec![30, 12, 0x10, 2];
        option.extend(pathbench_trace::mptcp::keys::token(1, key(number)).to_be_bytes());
        option.extend([0, 0, 0, 7]);
        Segment::new(([172, 16, 0, number as u8], 2_000), SERVER, SYN, 0, 0).option(&option)
    };
    capture.wait(10_000.0).segment(&join(CONNECTIONS - 1));
    assert_eq!(capture.document().totals.mptcp_connections, u64::from(CONNECTIONS));
    capture.segment(&join(0));
    let totals = capture.document().totals;
    assert_eq!((totals.mptcp_connections, totals.discarded), (u64::from(CONNECTIONS) + 1, 0));
}
