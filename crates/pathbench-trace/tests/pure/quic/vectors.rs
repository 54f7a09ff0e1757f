//! Packets that RFC 9001, appendix A, and RFC 9369, appendix A, print.

use pathbench_trace::quic::frames::{QuicFrame, QuicFrames};
use pathbench_trace::quic::header::{ConnectionId, Header, LongType, VERSION_1, VERSION_2, parse};
use pathbench_trace::quic::keys::{self, PacketKeys, Suite};
use pathbench_trace::quic::{Keylog, tls};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub(crate) fn id(digits: &str) -> ConnectionId {
    ConnectionId::new(&hex(digits)).unwrap()
}

/// RFC 9001, appendix A.2; also of RFC 9369.
pub(crate) const CLIENT_HELLO: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413\
    011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e0005\
    00050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400\
    0d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff\
    0801100104800075300901100f088394c8f03e51570806048000ffff";

pub(crate) struct InitialVector {
    pub(crate) version: u32,
    pub(crate) header: &'static str,
    pub(crate) key: &'static str,
    pub(crate) iv: &'static str,
    pub(crate) mask: &'static str,
    /// First bytes of the protected packet, and its tag; empty if it is not compared.
    pub(crate) begins: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) server: &'static str,
    pub(crate) retry: &'static str,
    pub(crate) chacha: &'static str,
    pub(crate) next_secret: &'static str,
}

pub(crate) const VECTORS: [InitialVector; 2] = [
    InitialVector {
        version: VERSION_1,
        header: "c300000001088394c8f03e5157080000449e00000002",
        key: "1f369613dd76d5467730efcbe3b1a22d",
        iv: "fa044b2f42a3fd3b46fb255c",
        mask: "437b9aec36",
        begins: "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9b",
        tag: "e221af44860018ab0856972e194cd934",
        server: "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb3\
            8cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8e\
            f4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        retry: "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
        chacha: "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
        next_secret: "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9",
    },
    InitialVector {
        version: VERSION_2,
        header: "d36b3343cf088394c8f03e5157080000449e00000002",
        key: "8b1a0bc121284290a29e0971b5cd045d",
        iv: "91f73e2351d8fa91660e909f",
        mask: "94a0c95e80",
        begins: "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071",
        tag: "",
        server: "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf872630\
            17915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2c984c7\
            07f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140",
        retry: "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
        chacha: "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
        next_secret: "c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88",
    },
];

/// The client's Initial packet: sealed with the key of the RFC, which gives the packet that the RFC prints.
pub(crate) fn client_initial(vector: &InitialVector) -> Vec<u8> {
    let mut header = hex(vector.header);
    let mut payload = hex(CLIENT_HELLO);
    payload.resize(1162, 0);
    let mut nonce: [u8; 12] = hex(vector.iv).try_into().unwrap();
    nonce[11] ^= 2;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &hex(vector.key)).unwrap());
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(&header), &mut payload).unwrap();
    let mask = hex(vector.mask);
    header[0] ^= mask[0] & 0x0f;
    header[18..].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
    let packet = [header, payload].concat();
    assert!(packet.starts_with(&hex(vector.begins)));
    assert!(packet.ends_with(&hex(vector.tag)));
    packet
}

pub(crate) fn open(
    keys: &PacketKeys,
    packet: &[u8],
    number_offset: usize,
    expected: u64,
) -> Option<(u64, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let unprotected = keys.unprotect(&mut packet, number_offset)?;
    let number = keys::decode_number(expected, unprotected.number, unprotected.number_length);
    let plain = keys.open(&mut packet, number_offset + unprotected.number_length, 0, number)?;
    Some((number, plain.to_vec()))
}

#[test]
fn initial_packets_of_the_rfcs_are_decrypted() {
    for vector in &VECTORS {
        let [client, server] = keys::initial(vector.version, &id("8394c8f03e515708")).unwrap();
        let packet = client_initial(vector);
        let (Header::Long(long), rest) = parse(&packet).unwrap() else { panic!("no long header") };
        assert_eq!(
            (long.version, long.long_type, long.number_offset),
            (vector.version, LongType::Initial, 18)
        );
        assert!(rest.is_empty() && !long.is_truncated());
        let (number, plain) = open(&client, long.packet, long.number_offset, 0).unwrap();
        assert_eq!(number, 2);
        let mut stream = tls::CryptoStream::default();
        for frame in QuicFrames::new(&plain) {
            match frame {
                QuicFrame::Crypto { offset, data } => stream.push(offset, data),
                frame => assert_eq!(frame, QuicFrame::Padding),
            }
        }
        let (kind, body) = stream.messages().next().unwrap();
        assert_eq!(kind, tls::CLIENT_HELLO);
        let hello = tls::client_hello(body).unwrap();
        assert_eq!(
            (hello.server_name.as_deref(), &*hello.alpn),
            (Some("example.com"), &["alpn".to_owned()][..])
        );
        let parameters = hello.parameters.unwrap();
        assert_eq!((parameters.max_idle_timeout_ms, parameters.initial_max_path_id), (Some(30_000), None));

        let packet = hex(vector.server);
        let (Header::Long(long), _) = parse(&packet).unwrap() else { panic!("no long header") };
        assert_eq!((long.long_type, long.source), (LongType::Initial, id("f067a5502a4262b5")));
        let (number, plain) = open(&server, long.packet, long.number_offset, 0).unwrap();
        let frames: Vec<_> = QuicFrames::new(&plain).collect();
        assert_eq!((number, frames.len()), (1, 2));
        assert_eq!(frames[0], QuicFrame::Ack { path: 0, largest: 0, delay: 0, first_range: 0 });
        let QuicFrame::Crypto { offset: 0, data } = frames[1] else { panic!("{:?}", frames[1]) };
        assert_eq!(tls::server_hello(&data[4..]).unwrap().cipher_suite, Some(0x1301));
    }
}

#[test]
fn retry_packets_of_the_rfcs_are_valid() {
    for vector in &VECTORS {
        let mut packet = hex(vector.retry);
        let (Header::Retry { version, source, token, .. }, _) = parse(&packet).unwrap() else {
            panic!("no Retry")
        };
        assert_eq!((version, source, token), (vector.version, id("f067a5502a4262b5"), &b"token"[..]));
        assert!(keys::is_retry_valid(version, &id("8394c8f03e515708"), &packet));
        assert!(!keys::is_retry_valid(version, &id("8394c8f03e515709"), &packet));
        packet[20] ^= 1;
        assert!(!keys::is_retry_valid(version, &id("8394c8f03e515708"), &packet));
    }
}

#[test]
fn the_chacha20_packets_of_the_rfcs_are_decrypted() {
    let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
    for vector in &VECTORS {
        let keys = PacketKeys::new(&secret, Suite::ChaCha20Poly1305, vector.version).unwrap();
        let opened = open(&keys, &hex(vector.chacha), 1, 654_360_564);
        assert_eq!(opened, Some((654_360_564, vec![1])));
        let next = keys::next_secret(&secret, Suite::ChaCha20Poly1305, vector.version);
        assert_eq!(next, Some(hex(vector.next_secret)));
    }
}

#[test]
fn packet_numbers_are_decoded_as_in_rfc_9000() {
    let cases = [
        (0xa82f_30eb, 0x9b32, 2, 0xa82f_9b32),
        (0, 0, 1, 0),
        (255, 0, 1, 256),
        (256, 255, 1, 255),
        (130, 1, 1, 257),
        (128, 1, 1, 1),
    ];
    for (expected, number, length, decoded) in cases {
        assert_eq!(keys::decode_number(expected, number, length), decoded, "{expected} {number}");
    }
}

#[test]
fn headers_are_told_apart() {
    let negotiation = hex("80 00000000 01aa 02bbcc 00000001 6b3343cf");
    let (Header::VersionNegotiation { destination, source, versions }, _) = parse(&negotiation).unwrap()
    else {
        panic!("no version negotiation")
    };
    assert_eq!((destination, source, versions.len()), (id("aa"), id("bbcc"), 8));

    let unknown = hex("c0 0a1a2a3a 01aa 00 112233");
    assert!(matches!(parse(&unknown), Some((Header::UnknownVersion { version: 0x0a1a_2a3a, .. }, _))));

    // First byte, version, type.
    let types = [
        (0xc0, VERSION_1, LongType::Initial),
        (0xd0, VERSION_1, LongType::ZeroRtt),
        (0xe0, VERSION_1, LongType::Handshake),
        (0xd0, VERSION_2, LongType::Initial),
        (0xe0, VERSION_2, LongType::ZeroRtt),
        (0xf0, VERSION_2, LongType::Handshake),
        // Fixed bit 0 (RFC 9287).
        (0xa0, VERSION_1, LongType::Handshake),
    ];
    for (first, version, long_type) in types {
        let token: &[u8] = if long_type == LongType::Initial { &[2, 7, 7] } else { &[] };
        let packet = [&[first], &version.to_be_bytes()[..], &[1, 0xaa, 0], token, &[3, 1, 2, 3]].concat();
        let datagram = [&packet[..], &[0x40, 9, 9]].concat();
        let (Header::Long(long), rest) = parse(&datagram).unwrap() else { panic!("no long header") };
        assert_eq!((long.long_type, long.packet, long.length), (long_type, &packet[..], packet.len()));
        assert_eq!(rest, [0x40, 9, 9]);
        let (Header::Long(long), rest) = parse(&packet[..packet.len() - 1]).unwrap() else {
            panic!("no long header")
        };
        assert!(long.is_truncated() && rest.is_empty());
    }
    assert!(matches!(parse(&[0x00, 1, 2]), Some((Header::Short { .. }, _))));

    // Empty, ended early, a connection id of 21 bytes, versions of 3 bytes.
    let damaged = [
        "",
        "c0",
        "c000000001",
        "c00000000114",
        "c00000000115000000000000000000000000000000000000000000",
        "80 00000000 00 00 000000",
    ];
    for damaged in damaged {
        assert_eq!(parse(&hex(damaged)), None, "{damaged}");
    }
}

#[test]
fn frames_of_multipath_are_read() {
    let payload = hex("3e 01 0a 05 01 02 00 03\
         7e75 01 00\
         7e76 02 07\
         7e77 02 08\
         7e78 01 00 00 04 a1a2a3a4 000102030405060708090a0b0c0d0e0f\
         7e7a 05\
         0e 04 4400 02 aabb\
         31 01 aa\
         0000");
    let mut frames = QuicFrames::new(&payload);
    let read: Vec<_> = frames.by_ref().collect();
    let expected = [
        QuicFrame::Ack { path: 1, largest: 10, delay: 5, first_range: 2 },
        QuicFrame::PathAbandon { path: 1, error: 0 },
        QuicFrame::PathStatus { path: 2, backup: true },
        QuicFrame::PathStatus { path: 2, backup: false },
        QuicFrame::NewConnectionId { path: 1, id: id("a1a2a3a4") },
        QuicFrame::Other { kind: 0x3e7a },
        QuicFrame::Stream { id: 4, offset: 0x400, length: 2, fin: false },
        QuicFrame::Datagram { length: 1 },
        QuicFrame::Padding,
    ];
    assert_eq!(read, expected);
    assert!(frames.is_complete());
    let mut unknown = QuicFrames::new(&[0x01, 0x40, 0xff]);
    assert_eq!((unknown.next(), unknown.next(), unknown.is_complete()), (Some(QuicFrame::Ping), None, false));
}

/// The fields of RFC 9000, sections 19.1 to 19.20.
#[test]
fn frames_of_rfc_9000_are_read() {
    let payload = hex("02 0a 05 00 02\
         03 0a 05 01 02 00 03 01 02 03\
         04 04 05 4400\
         05 04 05\
         06 4064 02 aabb\
         07 02 aabb\
         0a 04 02 aabb\
         0f 04 05 02 aabb\
         10 05 11 04 05 12 05 13 05 14 05 15 04 05 16 05 17 05\
         18 01 00 04 a1a2a3a4 000102030405060708090a0b0c0d0e0f\
         19 01\
         1a 0001020304050607 1b 0001020304050607\
         1c 0a 06 02 6869\
         1d 0b 00\
         1e 01\
         08 04 aabbcc");
    let mut frames = QuicFrames::new(&payload);
    let read: Vec<_> = frames.by_ref().collect();
    let other = |kind| QuicFrame::Other { kind };
    let expected = [
        QuicFrame::Ack { path: 0, largest: 10, delay: 5, first_range: 2 },
        QuicFrame::Ack { path: 0, largest: 10, delay: 5, first_range: 2 },
        other(0x04),
        other(0x05),
        QuicFrame::Crypto { offset: 100, data: &[0xaa, 0xbb] },
        other(0x07),
        QuicFrame::Stream { id: 4, offset: 0, length: 2, fin: false },
        QuicFrame::Stream { id: 4, offset: 5, length: 2, fin: true },
        other(0x10),
        other(0x11),
        other(0x12),
        other(0x13),
        other(0x14),
        other(0x15),
        other(0x16),
        other(0x17),
        QuicFrame::NewConnectionId { path: 0, id: id("a1a2a3a4") },
        other(0x19),
        QuicFrame::PathChallenge,
        QuicFrame::PathResponse,
        QuicFrame::ConnectionClose { error: 10, application: false },
        QuicFrame::ConnectionClose { error: 11, application: true },
        QuicFrame::HandshakeDone,
        QuicFrame::Ping,
        QuicFrame::Stream { id: 4, offset: 0, length: 3, fin: false },
    ];
    assert_eq!(read, expected);
    assert!(frames.is_complete());
}

#[test]
fn a_key_log_may_have_damaged_lines() {
    let random = "11".repeat(32);
    let secret = "22".repeat(48);
    let text = format!(
        "# comment\r\nCLIENT_TRAFFIC_SECRET_0 {random} {secret}\r\nCLIENT_TRAFFIC_SECRET_0 {random}\nCLIENT_RANDOM \
         {random} {secret}\nSERVER_TRAFFIC_SECRET_0 {random} 2233\nSERVER_TRAFFIC_SECRET_0 xx{random} {secret}\n\
         SERVER_HANDSHAKE_TRAFFIC_SECRET  {random}\t{secret}"
    );
    let keylog = Keylog::parse(text.as_bytes());
    assert_eq!(keylog.len(), 1);
    let secrets = keylog.get(&[0x11; 32]).unwrap();
    assert_eq!(secrets.traffic, [Some(vec![0x22; 48]), None]);
    assert_eq!(secrets.handshake, [None, Some(vec![0x22; 48])]);
    assert!(Keylog::parse(&[0xff; 1000]).is_empty());
}
