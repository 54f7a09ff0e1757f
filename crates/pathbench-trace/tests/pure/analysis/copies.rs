//! Copies of packets, as a mirror port or several interfaces in one file show them, are no retransmissions.

use crate::wire::{ACK, CLIENT, Capture, FIN, SERVER, SYN, Segment, Subflow};
use pathbench_record::trace::{TraceDocument, TracedConnection};

/// A packet with this identification of IPv4 and time to live.
fn identified(segment: &Segment, identification: u16, hop_limit: u8) -> Vec<u8> {
    let mut packet = segment.packet();
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    packet[8] = hop_limit;
    packet
}

/// The same segment in IPv6, which has no identification.
fn ipv6(segment: &Segment, hop_limit: u8) -> Vec<u8> {
    let packet = segment.packet();
    let tcp = &packet[20..];
    let mut ipv6 = vec![0x60, 0, 0, 0, (tcp.len() >> 8) as u8, tcp.len() as u8, 6, hop_limit];
    for end in [&packet[12..16], &packet[16..20]] {
        ipv6.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
        ipv6.extend(end);
    }
    ipv6.extend(tcp);
    ipv6
}

fn stamps(segment: Segment, value: u32, echo: u32) -> Segment {
    let option = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
    segment.option(&option)
}

/// A handshake, `rounds` segments of 1,000 bytes with their acknowledgments, and FINs; one each 5 ms.
fn transfer(rounds: u32) -> Vec<Segment> {
    let flow = Subflow::new(CLIENT, [100, 200]);
    let mut segments = vec![flow.from(0, SYN, 0, 0), flow.from(1, SYN | ACK, 0, 1), flow.from(0, ACK, 1, 1)];
    for round in 0..rounds {
        segments.push(flow.from(0, ACK, 1 + round * 1_000, 1).payload(1_000));
        segments.push(flow.from(1, ACK, 1, 1_001 + round * 1_000));
    }
    let end = 1 + rounds * 1_000;
    segments.push(flow.from(0, FIN | ACK, end, 1));
    segments.push(flow.from(1, FIN | ACK, 1, end + 1));
    segments.push(flow.from(0, ACK, end + 1, 2));
    segments
}

fn only(document: &TraceDocument) -> &TracedConnection {
    let [connection] = document.connections.as_slice() else { panic!("{document:#?}") };
    connection
}

/// Nothing was retransmitted, and `copies` packets were left out.
fn assert_copies(document: &TraceDocument, bytes: u64, copies: u64) {
    let connection = only(document);
    let subflow = &connection.subflows[0];
    assert_eq!((connection.upload.data_bytes, subflow.upload.payload_bytes), (bytes, bytes));
    assert_eq!((subflow.upload.retransmitted_bytes, subflow.upload.missing_bytes), (0, 0));
    assert_eq!(subflow.upload.duplicate_packets + subflow.download.duplicate_packets, copies);
    assert_eq!((document.totals.duplicate_packets, document.totals.payload_bytes), (copies, bytes));
    assert_eq!((subflow.upload.duplicate_acks, subflow.download.duplicate_acks), (0, 0));
    assert!(subflow.upload_rtt_ms.is_some(), "{subflow:#?}");
    assert_eq!(subflow.end, "fin");
    assert_eq!(document.findings, []);
}

#[test]
fn a_mirror_port_shows_each_packet_twice() {
    for copies in 1..=3 {
        let mut capture = Capture::new();
        let segments = transfer(10);
        for (number, segment) in segments.iter().enumerate() {
            for _ in 0..=copies {
                capture.packet(&identified(segment, number as u16 + 1, 64));
            }
            capture.wait(5.0);
        }
        assert_copies(&capture.document(), 10_000, copies * segments.len() as u64);
    }
}

/// The interfaces of a router in one file: one hop fewer, in the order of arrival, after a queue with bursts.
#[test]
fn two_interfaces_of_a_router_show_each_packet_before_and_after_it() {
    for queue_ms in [0.05, 2.0, 180.0] {
        let flow = Subflow::new(CLIENT, [100, 200]);
        let mut packets: Vec<(f64, Vec<u8>)> = Vec::new();
        let mut number = 0_u16;
        let mut forward = |packets: &mut Vec<_>, at_ms: f64, queue_ms: f64, segment: &Segment| {
            number += 1;
            packets.push((at_ms, identified(segment, number, 64)));
            packets.push((at_ms + queue_ms, identified(segment, number, 63)));
        };
        forward(&mut packets, 0.0, 0.05, &flow.from(0, SYN, 0, 0));
        forward(&mut packets, 10.0, 0.05, &flow.from(1, SYN | ACK, 0, 1));
        forward(&mut packets, 20.0, 0.05, &flow.from(0, ACK, 1, 1));
        // A burst of 50 segments is in the queue at once.
        for round in 0..50_u32 {
            let data = flow.from(0, ACK, 1 + round * 1_000, 1).payload(1_000);
            forward(&mut packets, 30.0 + f64::from(round) * 0.02, queue_ms, &data);
        }
        forward(&mut packets, 300.0, 0.05, &flow.from(1, ACK, 1, 50_001));
        forward(&mut packets, 310.0, 0.05, &flow.from(0, FIN | ACK, 50_001, 1));
        forward(&mut packets, 320.0, 0.05, &flow.from(1, FIN | ACK, 1, 50_002));
        packets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut capture = Capture::new();
        let begin = capture.now_ms;
        for (at_ms, packet) in &packets {
            capture.now_ms = begin + at_ms;
            capture.packet(packet);
        }
        assert_copies(&capture.document(), 50_000, packets.len() as u64 / 2);
    }
}

/// Without an identification, the time stamps and the time tell.
#[test]
fn copies_without_an_identification() {
    for (hops, six) in [(64, true), (63, true), (64, false), (63, false)] {
        let mut capture = Capture::new();
        let segments = transfer(10);
        for (number, segment) in segments.iter().enumerate() {
            let segment = stamps(segment.clone(), number as u32 * 5 + 1, 1);
            for hop_limit in [64, hops] {
                let packet = if six { ipv6(&segment, hop_limit) } else { identified(&segment, 0, hop_limit) };
                capture.packet(&packet);
            }
            capture.wait(5.0);
        }
        assert_copies(&capture.document(), 10_000, segments.len() as u64);
    }
}

/// The mirror port's copies of a host without time stamps: those of the SYN tell.
#[test]
fn copies_without_an_identification_and_time_stamps() {
    let mut capture = Capture::new();
    let segments = transfer(10);
    for segment in &segments {
        capture.packet(&ipv6(segment, 64)).packet(&ipv6(segment, 64)).wait(5.0);
    }
    assert_copies(&capture.document(), 10_000, segments.len() as u64);
}

/// A segment as a packet with this number.
type Build = fn(&Segment, u16) -> Vec<u8>;

/// A retransmission has another identification, another time stamp, or comes later.
#[test]
fn retransmissions_are_no_copies() {
    let flow = Subflow::new(CLIENT, [100, 200]);
    let data = || flow.from(0, ACK, 1, 1).payload(1_000);
    let builds: [(&str, f64, Build); 5] = [
        ("another identification", 0.2, |segment, number| identified(segment, 10 + number, 64)),
        ("the identification is constant", 300.0, |segment, _| identified(segment, 77, 64)),
        ("another time stamp", 2.0, |segment, number| {
            identified(&stamps(segment.clone(), 5 + u32::from(number), 1), 0, 64)
        }),
        ("IPv6, another time stamp", 2.0, |segment, number| {
            ipv6(&stamps(segment.clone(), 5 + u32::from(number), 1), 64)
        }),
        ("IPv6, later", 250.0, |segment, _| ipv6(segment, 64)),
    ];
    for (name, wait_ms, build) in builds {
        let mut capture = Capture::new();
        let handshake = transfer(0);
        for (number, segment) in handshake[..3].iter().enumerate() {
            capture.packet(&build(segment, number as u16)).wait(5.0);
        }
        // Three times: a fast retransmission, and one after a time-out.
        for number in 0..3 {
            capture.packet(&build(&data(), 20 + number)).wait(wait_ms);
        }
        capture.packet(&build(&flow.from(1, ACK, 1, 1_001), 40));
        let document = capture.document();
        let upload = &only(&document).subflows[0].upload;
        assert_eq!((upload.retransmitted_bytes, upload.duplicate_packets), (2_000, 0), "{name}");
        assert_eq!(document.totals.duplicate_packets, 0, "{name}");
    }
}

/// Duplicate acknowledgments say the same several times, each in a packet of its own.
#[test]
fn duplicate_acknowledgments_are_no_copies() {
    for six in [true, false] {
        let flow = Subflow::new(CLIENT, [100, 200]);
        let mut capture = Capture::new();
        let mut number = 0;
        let mut push = |capture: &mut Capture, segment: Segment| {
            number += 1;
            let segment = stamps(segment, 7, 7);
            capture.packet(&if six { ipv6(&segment, 64) } else { identified(&segment, number, 64) });
        };
        for segment in &transfer(0)[..3] {
            push(&mut capture, segment.clone());
        }
        for lost in [0_u32, 2, 3, 4] {
            push(&mut capture, flow.from(0, ACK, 1 + lost * 100, 1).payload(100));
        }
        for _ in 0..4 {
            push(&mut capture, flow.from(1, ACK, 1, 101));
        }
        let document = capture.document();
        let download = &only(&document).subflows[0].download;
        assert_eq!((download.duplicate_acks, download.duplicate_packets), (3, 0), "IPv6: {six}");
    }
}

#[test]
fn copies_of_mptcp_are_no_reinjections_and_no_repeated_signals() {
    let flow = Subflow::new(CLIENT, [100, 200]);
    let mut once = Capture::new();
    flow.handshake(&mut once);
    let add_address = [30, 8, 0x31, 5, 192, 0, 2, 9];
    once.segment(&flow.from(1, ACK, 1, 1).option(&add_address));
    once.segment(&flow.upload(1, 1, 500)).segment(&flow.acknowledge(501, 501));
    let bytes = once.into_bytes();
    // Each packet again, with an identification of its own.
    let mut twice = Capture::new();
    let mut at = 24;
    let mut number = 0_u16;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let mut packet = bytes[at + 16..at + 16 + length].to_vec();
        number += 1;
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        twice.packet(&packet);
        packet[8] -= 1;
        twice.packet(&packet).wait(3.0);
        at += 16 + length;
    }
    let connection = twice.connection();
    assert_eq!((connection.upload.data_bytes, connection.upload.reinjected_bytes), (500, Some(0)));
    assert_eq!(connection.signals.iter().map(|signal| signal.repeats).collect::<Vec<_>>(), [0]);
    assert_eq!(twice.document().totals.duplicate_packets, u64::from(number));
    assert_eq!(connection.server.map(|server| server.port()), Some(SERVER.1));
}
