//! Segments are judged by the state of their connection: those outside the window prove nothing.

use crate::wire::{ACK, CLIENT, Capture, End, FIN, RST, SERVER, SYN, Segment, Subflow};
use pathbench_record::trace::{TraceDocument, TracedConnection};
use proptest::prelude::*;

fn only(document: &TraceDocument) -> &TracedConnection {
    let [connection] = document.connections.as_slice() else { panic!("{document:#?}") };
    connection
}

fn from(side: usize, flags: u8, sequence: u32, acknowledgment: u32) -> Segment {
    let ends: [End; 2] = [CLIENT, SERVER];
    Segment::new(ends[side], ends[1 - side], flags, sequence, acknowledgment)
}

/// 500 bytes up and `rounds` times 1,000 down, and FINs; the ends' initial sequence numbers are 1000 and `server`.
fn exchange(capture: &mut Capture, server: u32, rounds: u32) {
    let at = |bytes: u32| server.wrapping_add(1 + bytes);
    capture.segment(&from(0, ACK, 1_001, at(0))).segment(&from(0, ACK, 1_001, at(0)).payload(500)).wait(5.0);
    for round in 0..rounds {
        capture.segment(&from(1, ACK, at(round * 1_000), 1_501).payload(1_000)).wait(5.0);
        capture.segment(&from(0, ACK, 1_501, at((round + 1) * 1_000)));
    }
    let end = at(rounds * 1_000);
    capture.segment(&from(0, FIN | ACK, 1_501, end)).segment(&from(1, FIN | ACK, end, 1_502));
    capture.segment(&from(0, ACK, 1_502, end.wrapping_add(1)));
}

fn assert_complete(document: &TraceDocument, down: u64) {
    let connection = only(document);
    let subflow = &connection.subflows[0];
    assert_eq!((connection.upload.data_bytes, connection.download.data_bytes), (500, down));
    assert_eq!((subflow.upload.missing_bytes, subflow.download.missing_bytes), (0, 0));
    assert_eq!(connection.download.acknowledged_bytes, Some(down));
    assert_eq!(subflow.end, "fin");
    assert_eq!(document.findings, []);
}

/// The server still knows an old connection of the same ends: it answers the SYN with an acknowledgment of that one, and
/// the client's RST ends it there.
#[test]
fn a_challenge_acknowledgment_and_its_reset_are_of_another_connection() {
    for (sequence, acknowledgment) in
        [(3_000_000_000, 2_086_663_738), (77, 900_000_000), (5_000, 4_000_000_000)]
    {
        let mut capture = Capture::new();
        capture.segment(&from(0, SYN, 1_000, 0)).wait(1.0);
        capture.segment(&from(1, ACK, sequence, acknowledgment));
        // Its last data, which the client does not know either.
        capture.segment(&from(1, ACK, sequence.wrapping_sub(300), acknowledgment).payload(300)).wait(1.0);
        capture.segment(&from(0, RST, acknowledgment, 0)).wait(1_000.0);
        capture.segment(&from(0, SYN, 1_000, 0)).wait(1.0);
        capture.segment(&from(1, SYN | ACK, 5_000, 1_001)).wait(5.0);
        exchange(&mut capture, 5_000, 4);
        let document = capture.document();
        assert_complete(&document, 4_000);
        let subflow = &only(&document).subflows[0];
        assert_eq!((subflow.upload.out_of_window_packets, subflow.download.out_of_window_packets), (1, 2));
        // From the second SYN.
        assert!(subflow.handshake_rtt_ms.is_some_and(|ms| ms < 10.0), "{subflow:#?}");
        assert_eq!((subflow.opening.as_deref(), subflow.syns), (Some("answered"), Some(2)));
    }
}

/// A server with SYN cookies, or one that was restarted, answers a repeated SYN with another sequence number.
#[test]
fn a_syn_ack_with_a_new_sequence_number_replaces_the_first() {
    for (first, second) in [(3_212_050_950, 97_572_840), (10, 1_000_000_000), (97_572_840, 3_212_050_950)] {
        let mut capture = Capture::new();
        capture.segment(&from(0, SYN, 1_000, 0)).wait(1.0);
        capture.segment(&from(1, SYN | ACK, first, 1_001)).wait(1_000.0);
        capture.segment(&from(0, SYN, 1_000, 0)).wait(1.0);
        capture.segment(&from(1, SYN | ACK, second, 1_001)).wait(5.0);
        exchange(&mut capture, second, 3);
        assert_complete(&capture.document(), 3_000);
    }
    // The client may acknowledge the first one, too.
    let mut capture = Capture::new();
    capture.segment(&from(0, SYN, 1_000, 0)).segment(&from(1, SYN | ACK, 9, 1_001)).wait(1_000.0);
    capture.segment(&from(1, SYN | ACK, 2_000_000_000, 1_001));
    exchange(&mut capture, 9, 3);
    assert_complete(&capture.document(), 3_000);
}

/// A middlebox that adds to the sequence numbers of one end or of both, captured on both sides of it.
#[test]
fn both_sides_of_a_rewriting_middlebox_are_one_connection() {
    for added in [[700_000_000_u32, 0], [0, 3_100_000_000], [700_000_000, 3_100_000_000]] {
        let inside = {
            let mut capture = Capture::new();
            capture.segment(&from(0, SYN, 1_000, 0)).wait(1.0);
            capture.segment(&from(1, SYN | ACK, 5_000, 1_001)).wait(5.0);
            exchange(&mut capture, 5_000, 5);
            capture.into_bytes()
        };
        let mut both = Capture::new();
        let begin = both.now_ms;
        let (mut at, mut number) = (24, 0_u16);
        while at < inside.len() {
            let word = |at: usize| u32::from_le_bytes(inside[at..at + 4].try_into().unwrap());
            let length = word(at + 8) as usize;
            both.now_ms = begin + f64::from(word(at) - 1_000) * 1e3 + f64::from(word(at + 4)) / 1e6;
            let mut packet = inside[at + 16..at + 16 + length].to_vec();
            number += 1;
            packet[4..6].copy_from_slice(&number.to_be_bytes());
            let side = usize::from(packet[12..16] != CLIENT.0);
            let mut outside = packet.clone();
            for (field, added) in [(24, added[side]), (28, added[1 - side])] {
                let value = u32::from_be_bytes(outside[field..field + 4].try_into().unwrap());
                // A SYN acknowledges nothing.
                if field == 24 || packet[33] & ACK != 0 {
                    outside[field..field + 4].copy_from_slice(&value.wrapping_add(added).to_be_bytes());
                }
            }
            // The packet passes the middlebox: the client's are first inside.
            let order = if side == 0 { [&mut packet, &mut outside] } else { [&mut outside, &mut packet] };
            let [first, then] = order;
            then[8] = 63;
            both.packet(first).packet(then);
            at += 16 + length;
        }
        let document = both.document();
        assert_complete(&document, 5_000);
        assert_eq!(document.totals.duplicate_packets, u64::from(number), "{added:?}");
    }
}

/// The ends use their ports again, and the new SYN was not captured.
#[test]
fn data_after_the_end_of_a_connection_are_of_another_one() {
    let mut capture = Capture::new();
    capture.segment(&from(0, SYN, 1_000, 0)).segment(&from(1, SYN | ACK, 5_000, 1_001));
    exchange(&mut capture, 5_000, 2);
    for round in 0..3 {
        capture.segment(&from(0, ACK, 2_500_000_000 + round * 100, 3_600_000_000).payload(100));
        capture.segment(&from(1, ACK, 3_600_000_000, 2_500_000_100 + round * 100));
    }
    let document = capture.document();
    assert_eq!(document.connections.len(), 2, "{document:#?}");
    // The first packet alone could be a stray one.
    assert_eq!(document.connections[1].upload.data_bytes, 200);
    assert!(document.connections.iter().all(|one| one.subflows[0].upload.missing_bytes == 0));
}

/// A capture that lost packets for a while goes on; how much it lost is not known.
#[test]
fn a_gap_of_the_capture_beyond_the_window_is_skipped() {
    let flow = Subflow::new(CLIENT, [100, 200]);
    let mut capture = Capture::new();
    capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
    capture.segment(&flow.from(0, ACK, 1, 1).payload(1_000)).segment(&flow.from(1, ACK, 1, 1_001));
    for round in 0..20_u32 {
        let at = 500_000_001 + round * 1_000;
        capture.segment(&flow.from(0, ACK, at, 1).payload(1_000)).segment(&flow.from(1, ACK, 1, at + 1_000));
    }
    let connection = capture.connection();
    let upload = &connection.subflows[0].upload;
    assert!(upload.payload_bytes >= 18_000, "{upload:#?}");
    assert!(upload.missing_bytes <= 3_000 && upload.retransmitted_bytes == 0, "{upload:#?}");
    assert!(upload.acknowledged_bytes <= 21_000, "{upload:#?}");
}

/// A reset outside the window closes nothing (RFC 5961).
#[test]
fn a_reset_outside_the_window_closes_nothing() {
    let mut capture = Capture::new();
    capture.segment(&from(0, SYN, 1_000, 0)).segment(&from(1, SYN | ACK, 5_000, 1_001));
    capture.segment(&from(0, RST, 2_000_000_000, 0)).segment(&from(1, RST, 3_000_000_000, 0));
    exchange(&mut capture, 5_000, 2);
    assert_complete(&capture.document(), 2_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the ends of a connection send after its SYNs with other numbers, no bytes are missing that no window could
    /// have held. Before both SYNs the numbers and the scale are not known.
    #[test]
    fn nothing_is_missing_beyond_the_window(
        strays in prop::collection::vec(
            (any::<bool>(), prop::sample::select(vec![ACK, RST, RST | ACK, SYN | ACK, FIN | ACK]), any::<u32>(),
             any::<u32>(), 0..1_500_usize, 2..60_usize),
            0..30,
        ),
        server in any::<u32>(),
        rounds in 1..20_u32,
    ) {
        // 64 KiB in the header, no scale; SYN and FIN have a number each.
        const WINDOW: u64 = 65_535 + 65_536 + 2;
        let segments = {
            let mut capture = Capture::new();
            capture.segment(&from(0, SYN, 1_000, 0)).segment(&from(1, SYN | ACK, server, 1_001));
            exchange(&mut capture, server, rounds);
            capture.into_bytes()
        };
        let mut capture = Capture::new();
        let (mut at, mut index) = (24, 0);
        while at < segments.len() {
            for (client, flags, sequence, acknowledgment, payload, _) in
                strays.iter().filter(|stray| stray.5 == index)
            {
                let stray = from(usize::from(!client), *flags, *sequence, *acknowledgment);
                capture.segment(&stray.payload(if flags & ACK == *flags { *payload } else { 0 }));
            }
            let length = u32::from_le_bytes(segments[at + 8..at + 12].try_into().unwrap()) as usize;
            capture.packet(&segments[at + 16..at + 16 + length]).wait(1.0);
            (at, index) = (at + 16 + length, index + 1);
        }
        let document = capture.document();
        for connection in &document.connections {
            for sent in [&connection.subflows[0].upload, &connection.subflows[0].download] {
                prop_assert!(sent.missing_bytes <= WINDOW, "{:#?}", sent);
                prop_assert!(sent.acknowledged_bytes <= WINDOW + 20_000, "{:#?}", sent);
            }
        }
    }
}
