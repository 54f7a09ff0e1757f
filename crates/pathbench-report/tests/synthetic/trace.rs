//! An analysis of captures with everything that a summary can show.

use pathbench_record::trace::{
    CaptureInterface, CaptureRecord, ConnectionDirection, DirectionComparison, Fallback, HandshakeEvidence,
    SequenceLine, SequenceSegment, Series, SizeCount, SubflowComparison, SubflowDirection, TooBigMessage,
    TraceDocument, TraceFinding, TraceTotals, TracedConnection, TracedDistribution, TracedQuic, TracedSignal,
    TracedSubflow,
};

fn distribution(median: f64) -> TracedDistribution {
    TracedDistribution { count: 100, min: median * 0.8, median, p95: median * 1.6, max: median * 2.5 }
}

fn capture(file: &str, interface: &str, packets: u64) -> CaptureRecord {
    let interface =
        CaptureInterface { name: Some(interface.to_owned()), link_type: "ethernet".to_owned(), packets };
    CaptureRecord {
        file: file.to_owned(),
        format: "pcapng".to_owned(),
        interfaces: vec![interface],
        packets,
        captured_bytes: packets * 900,
        wire_bytes: packets * 900,
        ..CaptureRecord::default()
    }
}

/// The time-sequence graphs of the download of connection 0: two subflows in turn, a retransmission and a reinjection.
pub(crate) fn sequences() -> Vec<SequenceLine> {
    let segment = |index: u64, start: u64, kind: &str, subflow: Option<u32>| SequenceSegment {
        at_s: 0.5 + index as f64 * 0.08,
        start,
        end: start + 100_000,
        kind: kind.to_owned(),
        subflow,
    };
    let line = |subflow: Option<u32>, segments: Vec<SequenceSegment>| SequenceLine {
        subflow,
        direction: "download".to_owned(),
        acknowledgments: segments
            .iter()
            .filter(|one| one.kind == "data")
            .map(|one| (one.at_s + 0.03, one.end))
            .collect(),
        segments,
        thinned: 1,
        ..SequenceLine::default()
    };
    let mut data: Vec<_> =
        (0..10).map(|index| segment(index, 1 + index * 100_000, "data", Some(index as u32 % 2))).collect();
    data.push(segment(11, 500_001, "reinjection", Some(0)));
    let of_subflow =
        |id: u64| (0..5).map(move |index| segment(2 * index + id, 1 + index * 100_000, "data", None));
    let first = of_subflow(0).chain([segment(11, 500_001, "reinjection", None)]).collect();
    let second = of_subflow(1).chain([segment(10, 200_001, "retransmission", None)]).collect();
    let hidden = SequenceLine { connection: 77, ..line(None, data.clone()) };
    vec![line(None, data), line(Some(0), first), line(Some(1), second), hidden]
}

/// Ten windows of 100 ms.
fn series(bytes: u64) -> Series {
    Series { window_s: 0.1, bytes: vec![bytes / 10; 10] }
}

fn carried(payload_bytes: u64, data_bytes: u64, retransmitted_bytes: u64) -> SubflowDirection {
    SubflowDirection {
        packets: payload_bytes / 1400 + 3,
        ip_bytes: payload_bytes + 52 * (payload_bytes / 1400 + 3),
        payload_bytes,
        retransmitted_bytes,
        retransmitted_packets: retransmitted_bytes / 1400,
        acknowledged_bytes: payload_bytes - retransmitted_bytes,
        segment_sizes: vec![
            SizeCount { bytes: 1400, packets: payload_bytes / 1400 },
            SizeCount { bytes: 64, packets: 3 },
        ],
        largest_ip_bytes: 1460,
        throughput: series(payload_bytes),
        goodput: series(data_bytes),
        ..SubflowDirection::default()
    }
}

fn subflow(id: u32, client: &str, server: &str, kind: &str) -> TracedSubflow {
    TracedSubflow {
        id,
        client: client.parse().ok(),
        server: server.parse().ok(),
        start_s: 0.5 + 0.02 * f64::from(id),
        end_s: 1.5,
        kind: kind.to_owned(),
        end: "fin".to_owned(),
        download_rtt_ms: Some(distribution(20.0 + 10.0 * f64::from(id))),
        handshake_rtt_ms: Some(10.2),
        client_mss: Some(1460),
        server_mss: Some(1400),
        download: carried(
            700_000 - 200_000 * u64::from(id),
            700_000 - 400_000 * u64::from(id),
            14_000 * u64::from(id),
        ),
        upload: carried(1400, 1400 - 1400 * u64::from(id), 0),
        filter: format!("tcp.port == {id}"),
        ..TracedSubflow::default()
    }
}

fn compared() -> SubflowComparison {
    let direction = DirectionComparison {
        sent_bytes: 514_000,
        received_bytes: 500_000,
        lost_bytes: 14_000,
        reordered_bytes: 2800,
        delay_ms: Some(distribution(15.0)),
    };
    SubflowComparison {
        client_capture: 0,
        server_capture: 1,
        clock_offset_ms: Some(-3.2),
        clock_offset_uncertainty_ms: Some(0.4),
        upload: DirectionComparison {
            sent_bytes: 1400,
            received_bytes: 1400,
            ..DirectionComparison::default()
        },
        download: direction,
        middlebox: vec!["mss-clamped".to_owned(), "hop-limit".to_owned()],
    }
}

fn mptcp() -> TracedConnection {
    let first = subflow(0, "192.0.2.1:40001", "198.51.100.7:443", "initial");
    let joined = TracedSubflow {
        client_address_id: Some(1),
        server_address_id: Some(0),
        backup: Some(true),
        authenticated: Some(true),
        end: "reset".to_owned(),
        reset_reason: Some("lack of resources".to_owned()),
        black_hole_above_bytes: Some(1380),
        too_big: vec![TooBigMessage {
            at_s: 0.7,
            mtu: 1380,
            packet_bytes: 1500,
            direction: "upload".to_owned(),
        }],
        comparison: Some(compared()),
        ..subflow(1, "203.0.113.9:40002", "198.51.100.7:443", "join")
    };
    let download = ConnectionDirection {
        data_bytes: 1_000_000,
        payload_bytes: 1_200_000,
        acknowledged_bytes: Some(1_000_000),
        reinjected_bytes: Some(186_000),
        reinjected_same_subflow_bytes: Some(1400),
        reinjected_needed_bytes: Some(93_000),
        out_of_order_delay_ms: Some(distribution(12.0)),
        stall_ms: Some(120.0),
        goodput: series(1_000_000),
        ..ConnectionDirection::default()
    };
    let upload = ConnectionDirection {
        data_bytes: 1400,
        payload_bytes: 2800,
        acknowledged_bytes: Some(1400),
        reinjected_bytes: Some(0),
        ..ConnectionDirection::default()
    };
    let signal = |at_s: f64, kind: &str, ids: &[u8], address: Option<&str>| TracedSignal {
        at_s,
        kind: kind.to_owned(),
        sender: "server".to_owned(),
        address_ids: ids.to_vec(),
        address: address.map(str::to_owned),
        ..TracedSignal::default()
    };
    TracedConnection {
        transport: "mptcp".to_owned(),
        client: first.client,
        server: first.server,
        start_s: 0.5,
        duration_s: 1.0,
        version: Some("1".to_owned()),
        handshake: HandshakeEvidence::Captured,
        client_token: Some("0xad699b8e".to_owned()),
        server_token: Some("0x93f89a29".to_owned()),
        checksums: Some(true),
        checksums_verified: Some(812),
        checksums_wrong: Some(2),
        upload,
        download,
        subflows: vec![first, joined],
        signals: vec![
            signal(0.51, "add-addr", &[2], Some("198.51.100.8")),
            signal(1.2, "remove-addr", &[2, 3], None),
        ],
        filter: "tcp.port == 443".to_owned(),
        ..TracedConnection::default()
    }
}

fn fallen_back() -> TracedConnection {
    let flow = subflow(0, "192.0.2.1:40010", "198.51.100.7:80", "initial");
    TracedConnection {
        id: 1,
        transport: "tcp".to_owned(),
        client: flow.client,
        server: flow.server,
        start_s: 0.6,
        duration_s: 0.4,
        handshake: HandshakeEvidence::Captured,
        fallback: Some(Fallback {
            at_s: 0.61,
            reason: "option-removed".to_owned(),
            filter: "tcp.port == 80 && tcp.flags.syn == 1".to_owned(),
        }),
        download: ConnectionDirection {
            data_bytes: 700_000,
            payload_bytes: 700_000,
            acknowledged_bytes: Some(700_000),
            goodput: series(700_000),
            ..ConnectionDirection::default()
        },
        subflows: vec![flow],
        filter: "tcp.port == 80".to_owned(),
        ..TracedConnection::default()
    }
}

fn quic() -> TracedConnection {
    let path = TracedSubflow {
        path_id: Some(0),
        kind: "initial".to_owned(),
        end: "open".to_owned(),
        client_mss: None,
        server_mss: None,
        upload_rtt_ms: None,
        download_rtt_ms: None,
        ..subflow(0, "[2001:db8:1:2:3:4:5:6]:50000", "[2001:db8:ffff:eeee::1]:4433", "initial")
    };
    TracedConnection {
        id: 2,
        transport: "quic".to_owned(),
        client: path.client,
        server: path.server,
        start_s: 0.9,
        duration_s: 0.6,
        version: Some("0x00000001".to_owned()),
        handshake: HandshakeEvidence::Missing,
        download: ConnectionDirection { payload_bytes: 700_000, ..ConnectionDirection::default() },
        subflows: vec![path],
        quic: Some(TracedQuic {
            client_connection_ids: vec!["c221a5e9".to_owned()],
            server_name: Some("example.net".to_owned()),
            alpn: vec!["h3".to_owned()],
            initial_packets: 3,
            one_rtt_packets: 500,
            limits: vec!["without keys".to_owned()],
            ..TracedQuic::default()
        }),
        filter: "udp.port == 4433".to_owned(),
        ..TracedConnection::default()
    }
}

pub(crate) fn traced() -> TraceDocument {
    let finding = |level: &str, connection: u64, text: &str, filter: &str| TraceFinding {
        id: "finding".to_owned(),
        level: level.to_owned(),
        connection: Some(connection),
        text: text.to_owned(),
        filter: filter.to_owned(),
        ..TraceFinding::default()
    };
    TraceDocument {
        schema: pathbench_record::trace::SCHEMA.to_owned(),
        started: "2026-11-25T06:11:21Z".to_owned(),
        duration_s: 1.5,
        captures: vec![
            capture("results/client-wlan.pcapng", "wlan0", 1200),
            CaptureRecord {
                compression: Some("zstd".to_owned()),
                truncated_packets: 12,
                other_packets: 3,
                damage: Some("the file ends within a block at byte 71234".to_owned()),
                ..capture("server.pcapng.zst", "eth0", 800)
            },
        ],
        totals: TraceTotals {
            tcp_connections: 4,
            mptcp_connections: 1,
            mptcp_subflows: 2,
            quic_connections: 1,
            other_udp_flows: 1,
            payload_bytes: 2_600_000,
            discarded: 7,
            ..TraceTotals::default()
        },
        connections: vec![mptcp(), fallen_back(), quic()],
        findings: vec![
            finding("error", 1, "a middlebox removed MP_CAPABLE", "tcp.port == 80 && tcp.flags.syn == 1"),
            finding("warning", 0, "download: half of the reinjections were needed", "tcp.port == 443"),
            finding("info", 0, "download: 1.9 % of the payload were retransmitted", "tcp.port == 443"),
        ],
    }
}

/// Text from a capture that imitates markup and terminal sequences.
pub(crate) fn hostile_trace() -> TraceDocument {
    let bad = "\u{1b}[31m<script>alert(1)</script>\u{202e}\n`".to_owned();
    let mut document = traced();
    document.started.clone_from(&bad);
    for capture in &mut document.captures {
        (capture.file, capture.format, capture.damage) = (bad.clone(), bad.clone(), Some(bad.clone()));
        capture.interfaces[0].name = Some(bad.clone());
        capture.interfaces[0].link_type.clone_from(&bad);
    }
    for connection in &mut document.connections {
        connection.version = Some(bad.clone());
        connection.transport.clone_from(&bad);
        connection.filter.clone_from(&bad);
        connection.client_token = Some(bad.clone());
        for subflow in &mut connection.subflows {
            (subflow.kind, subflow.end, subflow.reset_reason) = (bad.clone(), bad.clone(), Some(bad.clone()));
        }
        for signal in &mut connection.signals {
            (signal.kind, signal.sender, signal.detail) = (bad.clone(), bad.clone(), Some(bad.clone()));
        }
        if let Some(quic) = &mut connection.quic {
            (quic.server_name, quic.alpn, quic.limits) =
                (Some(bad.clone()), vec![bad.clone()], vec![bad.clone()]);
        }
    }
    for finding in &mut document.findings {
        (finding.text, finding.filter) = (bad.clone(), bad.clone());
    }
    document
}
