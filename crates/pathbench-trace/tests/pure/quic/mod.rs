//! QUIC headers, keys and connections.

mod random;
mod recording;
mod sealed;
mod secrets;
mod vectors;
mod versions;

use pathbench_record::trace::HandshakeEvidence;
use pathbench_trace::packet::Address;
use pathbench_trace::quic::Quic;
use recording::{analyse, datagram, push};
use vectors::{VECTORS, client_initial, hex};

#[test]
fn the_handshakes_of_the_rfcs_are_followed() {
    for vector in &VECTORS {
        let datagrams = [
            datagram(true, client_initial(vector)),
            datagram(false, hex(vector.server)),
            datagram(false, hex(vector.retry)),
        ];
        let (connections, _) = analyse(&datagrams, None, usize::MAX);
        let quic = connections[0].quic.as_ref().unwrap();
        assert_eq!((connections.len(), connections[0].handshake), (1, HandshakeEvidence::Captured));
        assert_eq!((quic.server_name.as_deref(), quic.retry), (Some("example.com"), true));
        assert_eq!(
            (quic.server_connection_ids.as_slice(), quic.initial_packets),
            (&["f067a5502a4262b5".to_owned()][..], 2)
        );
    }
    let negotiation = hex("80 00000000 00 088394c8f03e515708 00000001");
    let first = client_initial(&VECTORS[1]);
    let again = client_initial(&VECTORS[0]);
    let datagrams = [datagram(true, first), datagram(false, negotiation), datagram(true, again)];
    let (connections, _) = analyse(&datagrams, None, usize::MAX);
    assert!(connections[0].quic.as_ref().unwrap().version_negotiation);
    assert_eq!((connections.len(), connections[0].version.as_deref()), (1, Some("0x00000001")));
}

#[test]
fn idle_connections_are_concluded_when_there_are_too_many() {
    let initial = client_initial(&VECTORS[0]);
    let mut quic = Quic::new(None);
    // Initial packets of an unknown connection id: a long header is enough.
    for number in 0..25_000_u32 {
        let mut handshake = vec![0xe0, 0, 0, 0, 1, 4];
        handshake.extend(number.to_be_bytes());
        handshake.extend([0, 24]);
        handshake.extend([0; 24]);
        let mut datagram = datagram(true, handshake);
        datagram.time_ns = u64::from(number);
        datagram.source.address = Address(u128::from(number) << 64);
        push(&mut quic, &datagram, usize::MAX);
    }
    push(&mut quic, &datagram(true, initial), usize::MAX);
    let totals = quic.totals();
    assert_eq!((totals.connections, totals.other_udp_flows), (25_001, 0));
    assert!(totals.discarded > 0);
    let connections = quic.finish(0);
    assert_eq!(connections.len(), 10_000);
    assert!(connections.windows(2).all(|pair| pair[0].id < pair[1].id));
}

#[test]
fn other_protocols_are_other_flows() {
    let payloads = [
        // DNS, RTP, STUN, NTP, a DTLS ClientHello.
        "1a2b 0100 0001 0000 0000 0000 03777777 00 0001 0001",
        "80e0 0001 0000 0001 aabbccdd 000102030405060708090a0b",
        "0001 0000 2112a442 000102030405060708090a0b",
        "e3 00 03 fa 00010000 00010000 4f4e4e31 0000000000000000",
        "16feff 0000000000000000 0010 01000004 0000 00000000",
        // A long header of version 1 whose length exceeds the datagram, and an unknown version in a short datagram.
        "c0 00000001 00 00 00 44ff 000000000000000000000000000000000000000000",
        "c0 0a1a2a3a 00 00 00",
        "",
    ];
    for payload in payloads {
        let packets = [datagram(true, hex(payload)), datagram(false, hex(payload))];
        assert_eq!(analyse(&packets, None, usize::MAX), (Vec::new(), 1), "{payload}");
    }
}
