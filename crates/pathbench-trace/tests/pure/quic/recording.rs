//! A capture of a short Multipath QUIC test at the client, with the client's TLS secrets.

use pathbench_record::trace::{HandshakeEvidence, TracedConnection, TracedSubflow};
use pathbench_trace::packet::{Address, FlowEndpoint, PacketHeaders, TransportHeader, Udp};
use pathbench_trace::quic::{Keylog, Quic};
use std::collections::HashSet;

pub(crate) const CAPTURE: &[u8] = include_bytes!("../../recorded/mpquic.pcap");
pub(crate) const KEYS: &[u8] = include_bytes!("../../recorded/mpquic.keys");

#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    pub(crate) time_ns: u64,
    pub(crate) source: FlowEndpoint,
    pub(crate) destination: FlowEndpoint,
    pub(crate) payload: Vec<u8>,
}

/// UDP over IPv4 in a pcap file with microseconds and `LINUX_SLL2` headers of 20 bytes.
pub(crate) fn recorded() -> Vec<Datagram> {
    let word = |at: usize| u64::from(u32::from_le_bytes(CAPTURE[at..at + 4].try_into().unwrap()));
    let mut at = 24;
    let mut datagrams = Vec::new();
    while at < CAPTURE.len() {
        let (seconds, micros, length) = (word(at), word(at + 4), word(at + 8) as usize);
        let ip = &CAPTURE[at + 16 + 20..at + 16 + length];
        let endpoint = |address: usize, port: usize| FlowEndpoint {
            address: Address::v4(ip[address..address + 4].try_into().unwrap()),
            port: u16::from_be_bytes([ip[port], ip[port + 1]]),
        };
        datagrams.push(Datagram {
            time_ns: seconds * 1_000_000_000 + micros * 1000,
            source: endpoint(12, 20),
            destination: endpoint(16, 22),
            payload: ip[28..].to_vec(),
        });
        at += 16 + length;
    }
    datagrams
}

pub(crate) fn push(quic: &mut Quic, datagram: &Datagram, captured: usize) {
    let payload = &datagram.payload[..captured.min(datagram.payload.len())];
    let udp = Udp { payload, payload_length: datagram.payload.len() as u32 };
    let packet = PacketHeaders {
        source: datagram.source,
        destination: datagram.destination,
        ip_length: datagram.payload.len() as u32 + 28,
        identification: 0,
        hop_limit: 64,
        congestion_experienced: false,
        transport: TransportHeader::Udp(udp),
    };
    quic.push(datagram.time_ns, &packet, &udp);
}

pub(crate) fn analyse(
    datagrams: &[Datagram],
    keylog: Option<Keylog>,
    captured: usize,
) -> (Vec<TracedConnection>, u64) {
    let mut quic = Quic::new(keylog);
    for datagram in datagrams {
        push(&mut quic, datagram, captured);
    }
    let other = quic.totals().other_udp_flows;
    (quic.finish(datagrams.first().map_or(0, |first| first.time_ns)), other)
}

pub(crate) fn datagram(client: bool, payload: Vec<u8>) -> Datagram {
    let ends = [1, 2]
        .map(|host| FlowEndpoint { address: Address::v4([192, 0, 2, host]), port: 4000 + u16::from(host) });
    let (source, destination) = if client { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    Datagram { time_ns: 0, source, destination, payload }
}

pub(crate) fn paths_of_recording(connection: &TracedConnection) -> Vec<String> {
    let path = |path: &TracedSubflow| format!("{} {}", path.client.unwrap(), path.server.unwrap());
    connection.subflows.iter().map(path).collect()
}

pub(crate) const PATHS: [&str; 2] = ["10.83.0.1:50262 10.83.0.2:4433", "10.83.1.1:36059 10.83.0.2:4433"];

#[test]
fn with_keys_both_paths_belong_to_one_connection() {
    let datagrams = recorded();
    let (connections, other) = analyse(&datagrams, Some(Keylog::parse(KEYS)), usize::MAX);
    assert_eq!((connections.len(), other), (1, 0));
    let connection = &connections[0];
    assert_eq!(
        (connection.transport.as_str(), connection.handshake),
        ("mpquic", HandshakeEvidence::Captured)
    );
    assert_eq!((connection.version.as_deref(), connection.start_s), (Some("0x00000001"), 0.0));
    assert_eq!(paths_of_recording(connection), PATHS);
    assert_eq!(connection.subflows.iter().map(|path| path.path_id).collect::<Vec<_>>(), [Some(0), Some(1)]);

    let quic = connection.quic.as_ref().unwrap();
    assert!(quic.decrypted && !quic.retry && !quic.version_negotiation);
    assert_eq!(
        (quic.undecrypted_packets, quic.duplicate_packets, quic.key_updates),
        (Some(0), Some(0), Some(0))
    );
    assert!(quic.client_max_path_id.is_some() && quic.server_max_path_id.is_some());
    assert_eq!((quic.alpn.len(), &*quic.limits), (1, &[][..]));
    assert!(quic.alpn[0].starts_with("pathbench"), "{:?}", quic.alpn);

    // 20 kB of data and the messages of the test; both paths carry a part of it.
    assert!((20_000..45_000).contains(&connection.download.data_bytes), "{}", connection.download.data_bytes);
    let goodput: u64 = connection.download.goodput.bytes.iter().sum();
    assert_eq!(goodput, connection.download.data_bytes);
    let streams: u64 = connection.subflows.iter().map(|path| path.download.stream_bytes.unwrap()).sum();
    assert_eq!(streams, connection.download.data_bytes);
    for path in &connection.subflows {
        assert!(path.download.stream_bytes.unwrap() > 8000, "{}", path.download.stream_bytes.unwrap());
        assert_eq!((path.download.retransmitted_bytes, path.download.reinjected_bytes), (0, Some(0)));
        let rtt = path.upload_rtt_ms.as_ref().unwrap();
        assert!(rtt.count > 5 && rtt.min > 0.1 && rtt.min <= rtt.median && rtt.p95 <= rtt.max, "{rtt:?}");
        let sent: u64 = path.upload.throughput.bytes.iter().sum();
        assert_eq!(sent, path.upload.payload_bytes);
    }
    let packets: u64 =
        connection.subflows.iter().map(|path| path.upload.packets + path.download.packets).sum();
    assert_eq!(packets, datagrams.len() as u64);
    let kinds: HashSet<_> = connection.signals.iter().map(|signal| signal.kind.as_str()).collect();
    assert!(kinds.contains("path-challenge") && kinds.contains("path-response"), "{kinds:?}");
    let second = "(ip.addr == 10.83.1.1 && ip.addr == 10.83.0.2 && udp.port == 36059 && udp.port == 4433)";
    assert!(connection.filter.ends_with(second), "{}", connection.filter);
}

#[test]
fn without_keys_the_second_path_is_another_flow() {
    let (connections, other) = analyse(&recorded(), None, usize::MAX);
    assert_eq!((connections.len(), other), (1, 1));
    let (connection, quic) = (&connections[0], connections[0].quic.as_ref().unwrap());
    assert_eq!((connection.transport.as_str(), connection.handshake), ("quic", HandshakeEvidence::Captured));
    assert_eq!(paths_of_recording(connection), PATHS[..1]);
    // The ClientHello is readable, EncryptedExtensions is not.
    assert!(quic.client_max_path_id.is_some() && quic.server_max_path_id.is_none());
    assert!(!quic.decrypted && quic.limits[0].contains("SSLKEYLOGFILE"));
    assert_eq!((connection.subflows[0].download.stream_bytes, quic.undecrypted_packets), (None, None));
    assert!(quic.one_rtt_packets > 50 && quic.initial_packets >= 2 && quic.handshake_packets >= 2);
    assert!(quic.handshake_rtt_ms.unwrap() > 5.0);
}

#[test]
fn truncated_packets_still_show_the_connection() {
    let (connections, other) = analyse(&recorded(), Some(Keylog::parse(KEYS)), 64);
    assert_eq!((connections.len(), other), (1, 1));
    assert_eq!(
        (connections[0].handshake, connections[0].client),
        (HandshakeEvidence::Missing, Some("10.83.0.1:50262".parse().unwrap()))
    );
    assert!(!connections[0].quic.as_ref().unwrap().decrypted);
}

#[test]
fn a_capture_that_begins_later_has_no_keys() {
    // The first packet is one of the server.
    let datagrams: Vec<_> =
        recorded().into_iter().skip_while(|datagram| datagram.source.port != 4433).collect();
    let (connections, _) = analyse(&datagrams, Some(Keylog::parse(KEYS)), usize::MAX);
    assert_eq!(connections[0].handshake, HandshakeEvidence::Missing);
    assert_eq!(paths_of_recording(&connections[0]), PATHS[..1]);
    // Only short headers: not recognised.
    let datagrams: Vec<_> =
        recorded().into_iter().filter(|datagram| datagram.payload[0] & 0x80 == 0).collect();
    assert_eq!(analyse(&datagrams, None, usize::MAX), (Vec::new(), 2));
}

#[test]
fn a_packet_at_two_points_of_capture_is_no_retransmission() {
    let datagrams: Vec<_> =
        recorded().into_iter().flat_map(|datagram| [datagram.clone(), datagram]).collect();
    let (once, _) = analyse(&recorded(), Some(Keylog::parse(KEYS)), usize::MAX);
    let (twice, _) = analyse(&datagrams, Some(Keylog::parse(KEYS)), usize::MAX);
    assert_eq!(once[0].download.data_bytes, twice[0].download.data_bytes);
    for (once, twice) in once[0].subflows.iter().zip(&twice[0].subflows) {
        assert_eq!(once.download.stream_bytes, twice.download.stream_bytes);
        assert_eq!(
            (twice.download.retransmitted_bytes, twice.download.packets),
            (0, 2 * once.download.packets)
        );
    }
    let quic = twice[0].quic.as_ref().unwrap();
    assert_eq!(quic.duplicate_packets, Some(quic.one_rtt_packets / 2));
}
