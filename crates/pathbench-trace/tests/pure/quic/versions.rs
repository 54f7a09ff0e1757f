//! Drafts of RFC 9000, versions of implementations, version negotiation, zero-length connection ids.

use crate::quic::recording::{Datagram, analyse, datagram};
use crate::quic::vectors::{CLIENT_HELLO, VECTORS, client_initial, hex};
use pathbench_record::trace::{HandshakeEvidence, TracedConnection};
use pathbench_trace::quic::frames::{QuicFrame, QuicFrames};
use pathbench_trace::quic::header::{VERSION_1, is_plausible_version};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use ring::hkdf;

/// Version and salt of its Initial secrets, as the drafts print them.
const DRAFTS: [(u32, &str); 6] = [
    (0xff00_0017, "c3eef712c72ebb5a11a7d2432bb46365bef9f502"),
    (0xff00_001b, "c3eef712c72ebb5a11a7d2432bb46365bef9f502"),
    (0xface_b002, "c3eef712c72ebb5a11a7d2432bb46365bef9f502"),
    (0xff00_001d, "afbfec289993d24c9e9786f19c6111e04390a899"),
    (0xff00_0020, "afbfec289993d24c9e9786f19c6111e04390a899"),
    (0xff00_0022, "38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
];

fn expand(prk: &hkdf::Prk, label: &str, length: usize) -> Vec<u8> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let info = [&[0, length as u8, label.len() as u8 + 6], &b"tls13 "[..], label.as_bytes(), &[0]].concat();
    let mut out = vec![0; length];
    prk.expand(&[&info], Length(length)).unwrap().fill(&mut out).unwrap();
    out
}

/// An Initial packet of the client with a `ClientHello`, in a datagram of 1200 bytes.
fn initial(version: u32, salt: &str, destination: &str, source: &str) -> Vec<u8> {
    let (destination, source) = (hex(destination), hex(source));
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &hex(salt)).extract(&destination);
    let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &expand(&secret, "client in", 32));
    let [key, iv, header_key] = [("quic key", 16), ("quic iv", 12), ("quic hp", 16)]
        .map(|(label, length)| expand(&secret, label, length));
    let mut header = [&[0xc3], &version.to_be_bytes()[..], &[destination.len() as u8], &destination].concat();
    header.extend([&[source.len() as u8], &source[..], &[0]].concat());
    let length = 1200 - header.len() - 2;
    header.extend((length as u16 | 0x4000).to_be_bytes());
    header.extend([0, 0, 0, 0]);
    let mut payload = hex(CLIENT_HELLO);
    payload.resize(length - 4 - 16, 0);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
    let nonce = Nonce::assume_unique_for_key(iv.try_into().unwrap());
    key.seal_in_place_append_tag(nonce, Aad::from(&header), &mut payload).unwrap();
    let mask = quic::HeaderProtectionKey::new(&quic::AES_128, &header_key)
        .unwrap()
        .new_mask(&payload[..16])
        .unwrap();
    header[0] ^= mask[0] & 0x0f;
    let number = header.len() - 4;
    header[number..].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
    [header, payload].concat()
}

fn only(datagrams: &[Datagram]) -> TracedConnection {
    let (connections, other) = analyse(datagrams, None, usize::MAX);
    assert_eq!((connections.len(), other), (1, 0), "{connections:#?}");
    connections.into_iter().next().unwrap()
}

#[test]
fn initial_packets_of_drafts_are_decrypted() {
    for (version, salt) in DRAFTS {
        let found = only(&[datagram(true, initial(version, salt, "8394c8f03e515708", "0102"))]);
        assert_eq!(found.version, Some(format!("{version:#010x}")));
        assert_eq!(found.handshake, HandshakeEvidence::Captured, "{version:#x}");
        let quic = found.quic.unwrap();
        assert_eq!((quic.server_name.as_deref(), quic.initial_packets), (Some("example.com"), 1));
        assert_eq!(quic.client_connection_ids, ["0102"]);
    }
}

#[test]
fn versions_of_implementations_are_quic() {
    for version in [0xface_b001_u32, 0xface_b00f, 0x5043_5130, 0x5130_3530, 0x1a2a_3a4a] {
        assert!(is_plausible_version(version), "{version:#x}");
        let first = [&[0xc0], &version.to_be_bytes()[..], &[8], &[7; 8], &[0], &[0; 1186]].concat();
        let found = only(&[datagram(true, first)]);
        assert_eq!((&*found.transport, found.version), ("quic", Some(format!("{version:#010x}"))));
    }
    for version in [0x1234_5678_u32, 0xface_c002, 0x0000_0002] {
        assert!(!is_plausible_version(version), "{version:#x}");
    }
}

#[test]
fn after_version_negotiation_the_version_is_the_last_that_the_client_used() {
    let negotiation = hex("80 00000000 02 0102 08 8394c8f03e515708 00000001 ff00001d faceb001");
    let negotiation = || datagram(false, negotiation.clone());
    let unknown = |version: u32, id: u8| {
        datagram(true, [&[0xc0], &version.to_be_bytes()[..], &[8], &[id; 8], &[2, 1, 2], &[0; 1184]].concat())
    };
    let reserved = datagram(
        true,
        [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8], &hex("8394c8f03e515708")[..], &[2, 1, 2], &[0; 1184]].concat(),
    );
    // The same destination connection id, and a new one.
    for id in ["8394c8f03e515708", "1122334455667788"] {
        for (version, salt) in [(VERSION_1, "38762cf7f55934b34d179ae6a4c80cadccbb7f0a"), DRAFTS[3]] {
            let again = datagram(true, initial(version, salt, id, "0102"));
            let found = only(&[reserved.clone(), negotiation(), again]);
            assert_eq!(found.version, Some(format!("{version:#010x}")), "{id}");
            let quic = found.quic.unwrap();
            assert!(quic.version_negotiation);
            assert_eq!(quic.server_name.as_deref(), Some("example.com"));
        }
        let found = only(&[reserved.clone(), negotiation(), unknown(0xface_b001, 0x11)]);
        assert_eq!(found.version.as_deref(), Some("0xfaceb001"));
    }
}

#[test]
fn padding_behind_a_packet_to_a_zero_length_connection_id_is_no_packet() {
    let client = datagram(true, client_initial(&VECTORS[0]));
    // The client's id has length 0 in the server's packet of RFC 9001.
    let server = datagram(false, [hex(VECTORS[0].server), vec![0; 700]].concat());
    let quic = only(&[client, server]).quic.unwrap();
    assert_eq!((quic.initial_packets, quic.one_rtt_packets), (2, 0));
    assert_eq!(quic.client_connection_ids, [""]);
}

#[test]
fn frames_of_extensions_do_not_hide_those_behind_them() {
    let extensions = [
        // TIME_STAMP, RESET_STREAM_AT, BDP with an IPv4 address.
        ("42f5 4123", 0x2f5),
        ("24 04 05 4400 4200", 0x24),
        ("8000ebd9 05 4400 6000 04 c0000201", 0xebd9),
    ];
    for (digits, kind) in extensions {
        let payload = hex(&format!("{digits} 0a 04 02 aabb"));
        let mut frames = QuicFrames::new(&payload);
        let read: Vec<_> = frames.by_ref().collect();
        let stream = QuicFrame::Stream { id: 4, offset: 0, length: 2, fin: false };
        assert_eq!(read, [QuicFrame::Other { kind }, stream], "{kind:#x}");
        assert!(frames.is_complete());
    }
}
