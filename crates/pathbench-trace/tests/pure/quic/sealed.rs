//! The recording with further packets of the server.

use crate::quic::recording::{Datagram, KEYS, analyse, paths_of_recording, recorded};
use crate::quic::vectors::{VECTORS, client_initial, hex, open};
use pathbench_record::trace::TracedConnection;
use pathbench_trace::packet::FlowEndpoint;
use pathbench_trace::quic::frames::{QuicFrame, QuicFrames};
use pathbench_trace::quic::header::{Header, VERSION_1, parse};
use pathbench_trace::quic::keys::{self, Suite};
use pathbench_trace::quic::{Keylog, tls};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;

/// Protects 1-RTT packets of the server in the recorded connection.
pub(crate) struct Sealer {
    suite: Suite,
    secret: Vec<u8>,
    header: ring::aead::quic::HeaderProtectionKey,
    phase: u8,
}

fn expand(secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let algorithm = if secret.len() == 48 { hkdf::HKDF_SHA384 } else { hkdf::HKDF_SHA256 };
    let info = [&[0, length as u8, label.len() as u8 + 6], &b"tls13 "[..], label.as_bytes(), &[0]].concat();
    let mut out = vec![0; length];
    let prk = hkdf::Prk::new_less_safe(algorithm, secret);
    prk.expand(&[&info], Length(length)).unwrap().fill(&mut out).unwrap();
    out
}

impl Sealer {
    /// The connection has AES-256-GCM or AES-128-GCM, according to the length of its secrets.
    pub(crate) fn new() -> Self {
        let keylog = Keylog::parse(KEYS);
        let datagram = &recorded()[0];
        let (Header::Long(long), _) = parse(&datagram.payload).unwrap() else { panic!("no Initial packet") };
        let [client, _] = keys::initial(VERSION_1, &long.destination).unwrap();
        let (_, plain) = open(&client, long.packet, long.number_offset, 0).unwrap();
        let mut stream = tls::CryptoStream::default();
        for frame in QuicFrames::new(&plain) {
            if let QuicFrame::Crypto { offset, data } = frame {
                stream.push(offset, data);
            }
        }
        let random = tls::client_hello(stream.messages().next().unwrap().1).unwrap().random;
        let secret = keylog.get(&random).unwrap().traffic[1].clone().unwrap();
        let (suite, algorithm) = if secret.len() == 48 {
            (Suite::Aes256Gcm, &ring::aead::quic::AES_256)
        } else {
            (Suite::Aes128Gcm, &ring::aead::quic::AES_128)
        };
        let header = expand(&secret, "quic hp", algorithm.key_len());
        let header = ring::aead::quic::HeaderProtectionKey::new(algorithm, &header).unwrap();
        Self { suite, secret, header, phase: 0 }
    }

    fn update(&mut self) {
        self.secret = keys::next_secret(&self.secret, self.suite, VERSION_1).unwrap();
        self.phase ^= 4;
    }

    pub(crate) fn packet(&self, destination: &str, path: u32, number: u32, frames: &[u8]) -> Vec<u8> {
        let algorithm = if self.suite == Suite::Aes256Gcm { &AES_256_GCM } else { &AES_128_GCM };
        let key = expand(&self.secret, "quic key", algorithm.key_len());
        let mut nonce: [u8; 12] = expand(&self.secret, "quic iv", 12).try_into().unwrap();
        nonce.iter_mut().zip(path.to_be_bytes()).for_each(|(byte, with)| *byte ^= with);
        nonce[8..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, with)| *byte ^= with);
        let mut header = [&[0x43 | self.phase], &hex(destination)[..], &number.to_be_bytes()].concat();
        let mut payload = frames.to_vec();
        let key = LessSafeKey::new(UnboundKey::new(algorithm, &key).unwrap());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&header), &mut payload)
            .unwrap();
        let mask = self.header.new_mask(&payload[..16]).unwrap();
        header[0] ^= mask[0] & 0x1f;
        let number = header.len() - 4;
        header[number..].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
        [header, payload].concat()
    }
}

/// STREAM frame of stream 400 with an offset, and a PING frame.
pub(crate) fn stream(offset: u16, length: u16) -> Vec<u8> {
    let varint = |value: u16| (value | 0x4000).to_be_bytes();
    let data = vec![7; usize::from(length)];
    [&[0x01, 0x0e], &varint(400)[..], &varint(offset), &varint(length), &data].concat()
}

/// The analysis of the recording and of further datagrams from the server: index of the path and payload.
pub(crate) fn analyse_with(further: &[(usize, Vec<u8>)]) -> TracedConnection {
    let mut datagrams = recorded();
    let from = |port: u16| recorded().into_iter().find(|datagram| datagram.destination.port == port).unwrap();
    let last = datagrams.last().unwrap().time_ns;
    for (number, (path, payload)) in (1..).zip(further) {
        let template = from([50262, 36059][*path]);
        datagrams.push(Datagram { time_ns: last + number * 1_000_000, payload: payload.clone(), ..template });
    }
    analyse(&datagrams, Some(Keylog::parse(KEYS)), usize::MAX).0.remove(0)
}

pub(crate) fn client_id(connection: &TracedConnection) -> String {
    connection.quic.as_ref().unwrap().client_connection_ids[0].clone()
}

#[test]
fn repeated_stream_bytes_are_retransmissions_or_reinjections() {
    let (sealer, before) = (Sealer::new(), analyse_with(&[]));
    let to = client_id(&before);
    let packet = |number, offset, length| sealer.packet(&to, 0, number, &stream(offset, length));
    let after = analyse_with(&[
        (0, packet(5000, 0, 1000)),
        (0, packet(5001, 500, 1000)),
        // 200 bytes that the other path has carried, 100 new ones behind a gap of 100.
        (1, packet(5002, 1300, 200)),
        (1, packet(5003, 1600, 100)),
        (0, packet(5004, 1500, 100)),
    ]);
    let difference = |figure: fn(&TracedConnection) -> u64| figure(&after) - figure(&before);
    assert_eq!(difference(|connection| connection.download.data_bytes), 1700);
    assert_eq!(difference(|connection| connection.subflows[0].download.stream_bytes.unwrap()), 2100);
    assert_eq!(difference(|connection| connection.subflows[0].download.retransmitted_bytes), 500);
    assert_eq!(difference(|connection| connection.subflows[0].download.retransmitted_packets), 1);
    assert_eq!(difference(|connection| connection.subflows[0].download.out_of_order_bytes), 100);
    assert_eq!(difference(|connection| connection.subflows[1].download.stream_bytes.unwrap()), 300);
    assert_eq!(difference(|connection| connection.subflows[1].download.retransmitted_bytes), 0);
    assert_eq!(difference(|connection| connection.download.reinjected_bytes.unwrap()), 200);
}

#[test]
fn key_updates_are_followed() {
    let (mut sealer, before) = (Sealer::new(), analyse_with(&[]));
    let to = client_id(&before);
    let old = sealer.packet(&to, 0, 5000, &stream(0, 100));
    sealer.update();
    let new = sealer.packet(&to, 0, 5002, &stream(100, 100));
    let reordered = Sealer::new().packet(&to, 0, 5001, &stream(200, 100));
    sealer.update();
    let newest = sealer.packet(&to, 0, 5003, &stream(300, 100));
    let mut damaged = newest.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let after = analyse_with(&[(0, old), (0, new), (0, reordered), (0, damaged), (0, newest)]);
    assert_eq!(after.download.data_bytes - before.download.data_bytes, 400);
    let quic = after.quic.unwrap();
    assert_eq!((quic.key_updates, quic.undecrypted_packets), (Some(2), Some(1)));
    assert!(quic.limits[0].starts_with("1 of "), "{:?}", quic.limits);
}

#[test]
fn gso_packets_are_segmented() {
    let (sealer, before) = (Sealer::new(), analyse_with(&[]));
    let to = client_id(&before);
    let segments =
        [0, 1000, 2000].map(|offset| sealer.packet(&to, 0, 6000 + u32::from(offset), &stream(offset, 1000)));
    let last = sealer.packet(&to, 0, 9000, &stream(3000, 50));
    let after = analyse_with(&[(0, [&segments.concat()[..], &last].concat())]);
    assert_eq!(after.download.data_bytes - before.download.data_bytes, 3050);
    let packets = |connection: &TracedConnection| connection.quic.as_ref().unwrap().one_rtt_packets;
    assert_eq!(packets(&after) - packets(&before), 4);
    assert_eq!(after.subflows[0].download.packets - before.subflows[0].download.packets, 1);
    // Too large to be one datagram of Ethernet, but one packet.
    let jumbo = sealer.packet(&to, 0, 6000, &stream(0, 4000));
    let after = analyse_with(&[(0, jumbo)]);
    assert_eq!(after.download.data_bytes - before.download.data_bytes, 4000);
}

#[test]
fn a_migration_is_a_further_path() {
    let before = analyse_with(&[]);
    let packet = Sealer::new().packet(&client_id(&before), 0, 5000, &stream(0, 10));
    let mut datagrams = recorded();
    let template = datagrams.iter().find(|datagram| datagram.destination.port == 50262).unwrap().clone();
    let destination = FlowEndpoint { port: 7777, ..template.destination };
    datagrams.push(Datagram { destination, payload: packet, ..template });
    // The connection id shows it without keys, too.
    for keylog in [None, Some(Keylog::parse(KEYS))] {
        let (connections, _) = analyse(&datagrams, keylog, usize::MAX);
        let last = paths_of_recording(&connections[0]).pop();
        assert_eq!((connections.len(), last.as_deref()), (1, Some("10.83.0.1:7777 10.83.0.2:4433")));
    }
}

#[test]
fn two_connections_between_the_same_ports_are_told_apart() {
    let mut datagrams = recorded();
    let template = datagrams[0].clone();
    let after_handshake = datagrams.iter().rposition(|datagram| datagram.payload[0] & 0x80 != 0).unwrap() + 1;
    // A further Initial packet after each datagram: the 4-tuple belongs to both connections by turns.
    for at in (after_handshake..datagrams.len()).rev() {
        datagrams.insert(at, Datagram { payload: client_initial(&VECTORS[0]), ..template.clone() });
    }
    let (connections, _) = analyse(&datagrams, Some(Keylog::parse(KEYS)), usize::MAX);
    let before = analyse_with(&[]);
    assert_eq!(connections.len(), 2);
    assert_eq!(connections[0].subflows.len(), 2);
    assert_eq!(connections[0].download.data_bytes, before.download.data_bytes);
    assert_eq!(connections[0].download.payload_bytes, before.download.payload_bytes);
    assert_eq!(paths_of_recording(&connections[1]), paths_of_recording(&before)[..1]);
    assert_eq!(connections[1].quic.as_ref().unwrap().server_name.as_deref(), Some("example.com"));
}

#[test]
fn an_id_on_many_4_tuples_takes_bounded_memory() {
    let before = analyse_with(&[]);
    let payload = Sealer::new().packet(&client_id(&before), 0, 5000, &stream(0, 10));
    let mut datagrams = recorded();
    let template = datagrams.iter().find(|datagram| datagram.destination.port == 50262).unwrap().clone();
    for port in 1000..2000 {
        let destination = FlowEndpoint { port, ..template.destination };
        datagrams.push(Datagram { destination, payload: payload.clone(), ..template });
    }
    let (connections, other) = analyse(&datagrams, None, usize::MAX);
    assert_eq!((connections.len(), connections[0].subflows.len(), other), (1, 64, 1));
}

#[test]
fn unknown_frames_and_the_close_are_reported() {
    let (sealer, before) = (Sealer::new(), analyse_with(&[]));
    let to = client_id(&before);
    // A frame of type 0x2a, then CONNECTION_CLOSE with error 0x10.
    let unknown = [&stream(0, 10)[..], &[0x2a], &stream(10, 10)].concat();
    let close = [0x1d, 0x10, 0x00, 0x00, 0x00];
    let after =
        analyse_with(&[(0, sealer.packet(&to, 0, 5000, &unknown)), (0, sealer.packet(&to, 0, 5001, &close))]);
    assert_eq!(after.download.data_bytes - before.download.data_bytes, 10);
    let limits = after.quic.unwrap().limits;
    assert!(
        limits.len() == 1 && limits[0].starts_with("1 1-RTT packets have frames of unknown types"),
        "{limits:?}"
    );
    assert!(after.subflows.iter().all(|path| path.end != "open"));
    let last = after.signals.last().unwrap();
    assert_eq!(
        (&*last.kind, &*last.sender, last.detail.as_deref()),
        ("connection-close", "server", Some("error 0x10"))
    );
}

#[test]
fn path_status_and_abandon_change_the_path() {
    let sealer = Sealer::new();
    let to = client_id(&analyse_with(&[]));
    let backup = [0x7e, 0x76, 0x01, 0x40, 0x50, 0x00, 0x00];
    let abandon = [0x7e, 0x75, 0x01, 0x00, 0x00, 0x00, 0x00];
    let after = analyse_with(&[
        (0, sealer.packet(&to, 0, 5000, &backup)),
        (0, sealer.packet(&to, 0, 5001, &abandon)),
    ]);
    assert_eq!((after.subflows[1].backup, after.subflows[1].end.as_str()), (Some(true), "abandoned"));
    let last = after.signals.last().unwrap();
    assert_eq!((&*last.kind, last.subflow), ("path-abandon", 1));
}
