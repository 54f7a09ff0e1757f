//! Every form of an MPTCP option, keys, and checksums of a connection between two Linux 6.18 hosts.

use pathbench_trace::mptcp::checksum::Checksums;
use pathbench_trace::mptcp::keys::{self, Key};
use pathbench_trace::mptcp::options::{DataSequence, Join, MptcpOption, parse, widen};
use pathbench_trace::packet::Address;
use proptest::prelude::*;

/// An option of `length` bytes; bytes after the fourth are 1, 2, 3, …
fn option(length: u8, third: u8, fourth: u8) -> Vec<u8> {
    let mut bytes = vec![30, length, third, fourth];
    bytes.extend(1..=length.saturating_sub(4));
    bytes.truncate(usize::from(length));
    bytes
}

fn malformed(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Malformed { .. })
}

#[test]
fn capable_has_the_keys_of_its_length() {
    // version, length, SYN, ACK, sender's key, receiver's key, data
    let table = [
        (0, 12, true, false, true, false, None),
        (0, 12, true, true, true, false, None),
        (0, 20, false, true, true, true, None),
        (1, 4, true, false, false, false, None),
        (1, 12, true, true, true, false, None),
        (1, 20, false, true, true, true, None),
        (1, 22, false, true, true, true, Some((0x1112, None))),
        (1, 24, false, true, true, true, Some((0x1112, Some(0x1314)))),
    ];
    for (version, length, syn, ack, sender, receiver, data) in table {
        let MptcpOption::Capable(capable) = parse(&option(length, version, 0xa1), syn, ack) else {
            panic!("version {version}, length {length}");
        };
        assert_eq!((capable.version, capable.data), (version, data));
        assert_eq!(capable.sender_key, sender.then_some(0x0102_0304_0506_0708));
        assert_eq!(capable.receiver_key, receiver.then_some(0x090a_0b0c_0d0e_0f10));
        assert!(capable.checksum && capable.crypto && capable.deny_join == (version == 1));
    }
    for (version, length, syn) in [(0, 4, true), (0, 22, false), (1, 5, true), (1, 21, false), (1, 12, false)]
    {
        assert!(
            malformed(&parse(&option(length, version, 1), syn, true)),
            "version {version}, length {length}"
        );
    }
}

#[test]
fn joins_depend_on_the_segment() {
    let MptcpOption::Join(Join::Syn { backup: true, address_id: 9, token: 0x0102_0304, nonce: 0x0506_0708 }) =
        parse(&option(12, 0x11, 9), true, false)
    else {
        panic!("SYN")
    };
    let MptcpOption::Join(Join::SynAck { hmac: 0x0102_0304_0506_0708, nonce: 0x090a_0b0c, .. }) =
        parse(&option(16, 0x10, 9), true, true)
    else {
        panic!("SYN/ACK")
    };
    let MptcpOption::Join(Join::Ack { hmac }) = parse(&option(24, 0x10, 0), false, true) else {
        panic!("ACK")
    };
    assert_eq!(hmac.last(), Some(&20));
    assert!(malformed(&parse(&option(12, 0x10, 9), true, true)));
}

#[test]
fn data_sequence_signals_have_independent_widths() {
    for flags in 0..32_u8 {
        let ack = if flags & 1 == 0 { 0 } else { 4 + u8::from(flags & 2 != 0) * 4 };
        let map = if flags & 4 == 0 { 0 } else { 10 + u8::from(flags & 8 != 0) * 4 };
        for length in 4..40 {
            let parsed = parse(&option(length, 0x20, flags), false, true);
            let checksum = map > 0 && length == 4 + ack + map + 2;
            if length != 4 + ack + map && !checksum {
                assert!(malformed(&parsed), "flags {flags}, length {length}");
                continue;
            }
            let MptcpOption::Dss(signal) = parsed else { panic!("flags {flags}, length {length}") };
            assert_eq!(signal.data_fin, flags & 16 != 0);
            assert_eq!(
                signal.data_ack.map(|ack| matches!(ack, DataSequence::Full(_))),
                (flags & 1 != 0).then_some(flags & 2 != 0)
            );
            assert_eq!(
                signal.mapping.map(|map| matches!(map.data_sequence, DataSequence::Full(_))),
                (flags & 4 != 0).then_some(flags & 8 != 0)
            );
            if let Some(mapping) = signal.mapping {
                let last = length - 4 - u8::from(checksum) * 2;
                assert_eq!(mapping.length, u16::from_be_bytes([last - 1, last]));
                assert_eq!(mapping.subflow_sequence.to_be_bytes(), [last - 5, last - 4, last - 3, last - 2]);
                assert_eq!(mapping.checksum, checksum.then_some(u16::from_be_bytes([last + 1, last + 2])));
            }
        }
    }
}

#[test]
fn addresses_of_both_versions() {
    // third byte, length, port, echo, HMAC
    let table = [
        (0x34, 8, 0, false, false),
        (0x34, 10, 0x0506, false, false),
        (0x36, 20, 0, false, false),
        (0x36, 22, 0x1112, false, false),
        (0x30, 16, 0, false, true),
        (0x30, 18, 0x0506, false, true),
        (0x30, 28, 0, false, true),
        (0x30, 30, 0x1112, false, true),
        (0x31, 8, 0, true, false),
        (0x31, 10, 0x0506, true, false),
        (0x31, 20, 0, true, false),
        (0x31, 22, 0x1112, true, false),
    ];
    for (third, length, port, echo, hmac) in table {
        let MptcpOption::AddAddress(add) = parse(&option(length, third, 7), false, true) else {
            panic!("{third:x}, length {length}");
        };
        assert_eq!((add.address_id, add.endpoint.port, add.echo, add.hmac.is_some()), (7, port, echo, hmac));
        if length < 20 {
            assert_eq!(add.endpoint.address, Address::v4([1, 2, 3, 4]));
        }
    }
    for (third, length) in [(0x30, 8), (0x31, 16), (0x34, 20), (0x36, 8), (0x30, 12)] {
        assert!(malformed(&parse(&option(length, third, 7), false, true)));
    }
}

#[test]
fn short_options() {
    let parsed = |bytes: &[u8]| parse(bytes, false, true);
    let MptcpOption::RemoveAddress(remove) = parsed(&[30, 5, 0x40, 3, 4]) else { panic!("REMOVE_ADDR") };
    assert_eq!(remove.ids(), [3, 4]);
    assert_eq!(parsed(&[30, 3, 0x51]), MptcpOption::Priority { backup: true, address_id: None });
    assert_eq!(parsed(&[30, 4, 0x50, 2]), MptcpOption::Priority { backup: false, address_id: Some(2) });
    assert_eq!(parsed(&option(12, 0x60, 0)), MptcpOption::Fail { data_sequence: 0x0102_0304_0506_0708 });
    assert_eq!(parsed(&option(12, 0x70, 0)), MptcpOption::FastClose { key: 0x0102_0304_0506_0708 });
    assert_eq!(parsed(&[30, 4, 0x81, 5]), MptcpOption::Reset { transient: true, reason: 5 });
    assert_eq!(parsed(&[30, 4, 0xf0, 5]), MptcpOption::Unknown { subtype: 15, length: 4 });
    for bytes in [&[][..], &[30], &[30, 2], &[30, 3, 0x40], &[30, 9, 0x51], &[8, 3, 0x51], &[30, 3, 0x80]] {
        assert!(malformed(&parsed(bytes)), "{bytes:?}");
    }
}

#[test]
fn short_values_are_widened_to_the_nearest() {
    let short = DataSequence::Short;
    assert_eq!(widen(short(5), 0x1_ffff_fff0), 0x2_0000_0005);
    assert_eq!(widen(short(0xffff_fff0), 0x2_0000_0005), 0x1_ffff_fff0);
    assert_eq!(widen(short(1), u64::MAX), 1);
    assert_eq!(widen(DataSequence::Full(9), u64::MAX), 9);
}

fn mptcp_options(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let [kind, tail @ ..] = rest {
        let (option, after) = rest.split_at(if *kind < 2 { 1 } else { usize::from(tail[0]) });
        rest = after;
        found.extend((*kind == 30).then_some(option));
    }
    found
}

/// Both directions of the recorded connection, with `cut` bytes captured of each payload and one byte altered on
/// request. Returns the checksums of the client's direction and of the server's.
fn replay(cut: usize, alter: bool) -> [Checksums; 2] {
    let file = include_bytes!("../recorded/checksums.pcap");
    let mut checksums = [Checksums::default(), Checksums::default()];
    let (mut initial, mut data_sequence) = ([0_u32; 2], [0_u64; 2]);
    let (mut at, mut altered) = (24, !alter);
    while at < file.len() {
        let captured = u32::from_le_bytes(file[at + 8..at + 12].try_into().expect("four bytes")) as usize;
        let ip = &file[at + 16 + 14..at + 16 + captured];
        at += 16 + captured;
        let tcp = &ip[20..usize::from(u16::from_be_bytes([ip[2], ip[3]]))];
        let side = usize::from(tcp[..2] == 5000_u16.to_be_bytes());
        let sequence = u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes"));
        let (options, payload) = tcp.split_at(usize::from(tcp[12] >> 4) * 4);
        let (syn, ack) = (tcp[13] & 2 != 0, tcp[13] & 16 != 0);
        if syn {
            initial[side] = sequence;
        }
        for option in mptcp_options(&options[20..]) {
            match parse(option, syn, ack) {
                MptcpOption::Capable(capable) => {
                    if let (Some(client), Some(server)) = (capable.sender_key, capable.receiver_key) {
                        data_sequence =
                            [client, server].map(|key| keys::initial_data_sequence(1, Key(key)) + 1);
                    }
                    if let Some((length, checksum)) = capable.data {
                        checksums[side].mapping(
                            data_sequence[side],
                            1,
                            length,
                            checksum.expect("a checksum"),
                            false,
                        );
                    }
                }
                MptcpOption::Dss(signal) => {
                    if let Some(ack) = signal.data_ack {
                        let distance =
                            widen(ack, data_sequence[1 - side]).wrapping_sub(data_sequence[1 - side]);
                        assert!(distance < 100_000, "the data ACK does not belong to the key");
                    }
                    if let Some(map) = signal.mapping {
                        let data = widen(map.data_sequence, data_sequence[side]);
                        assert!(data.wrapping_sub(data_sequence[side]) < 100_000);
                        let (subflow, checksum) = (map.subflow_sequence, map.checksum.expect("a checksum"));
                        checksums[side].mapping(data, subflow, map.length, checksum, signal.data_fin);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        let mut payload = payload[..payload.len().min(cut)].to_vec();
        if let (false, Some(byte)) = (altered, payload.get_mut(7)) {
            *byte ^= 1;
            altered = true;
        }
        // Odd pieces in reverse order, one of them twice.
        let start = sequence.wrapping_sub(initial[side]);
        let mut pieces: Vec<_> = payload.chunks(333).enumerate().collect();
        pieces.reverse();
        for (index, piece) in pieces {
            checksums[side].payload(start + index as u32 * 333, piece);
            checksums[side].payload(start + index as u32 * 333, &piece[..piece.len() / 2]);
        }
    }
    checksums.iter_mut().for_each(Checksums::close);
    checksums
}

#[test]
fn recorded_checksums_are_verified() {
    let [client, server] = replay(usize::MAX, false);
    assert_eq!((client.wrong, client.unverifiable, server.wrong, server.unverifiable), (0, 0, 0, 0));
    assert!(client.verified >= 12 && server.verified >= 1, "{} and {}", client.verified, server.verified);
    let [altered, _] = replay(usize::MAX, true);
    assert_eq!((altered.verified, altered.wrong, altered.unverifiable), (client.verified - 1, 1, 0));
    let [cut, _] = replay(100, false);
    assert_eq!(cut.wrong, 0);
    assert_eq!(cut.verified + cut.unverifiable, client.verified);
    assert!(cut.unverifiable >= 12);
}

#[test]
fn open_mappings_are_bounded_and_repetitions_are_not_counted() {
    let mut checksums = Checksums::default();
    // Subflow sequence numbers wrap; each mapping is repeated, as by GSO.
    let start = |index: u32| 0xffff_ff00_u32.wrapping_add(index * 10);
    for index in 0..66 {
        checksums.mapping(u64::from(index), start(index), 10, 0, false);
        checksums.mapping(u64::from(index), start(index), 10, 0, false);
    }
    assert_eq!(checksums.unverifiable, 2);
    checksums.payload(start(0), &[0; 660]);
    assert_eq!((checksums.verified + checksums.wrong, checksums.unverifiable), (64, 2));
    checksums.close();
    assert_eq!(checksums.unverifiable, 2);
}

#[test]
fn keys_of_known_hashes() {
    // sha1sum and sha256sum of eight zero bytes.
    assert_eq!(keys::token(0, Key(0)), TOKEN_0);
    assert_eq!(keys::initial_data_sequence(0, Key(0)), IDSN_0);
    assert_eq!(keys::token(1, Key(0)), TOKEN_1);
    assert_eq!(keys::initial_data_sequence(1, Key(0)), IDSN_1);
    // HMACs from Python's hmac module: keys 1 and 2, nonces 3 and 4.
    let (initiator, responder) = ((Key(1), 3), (Key(2), 4));
    for (version, syn_ack, ack) in HMACS {
        assert_eq!(keys::join_syn_ack_hmac(version, initiator, responder), syn_ack);
        assert_eq!(keys::join_ack_hmac(version, initiator, responder), ack);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..64), syn: bool, ack: bool) {
        parse(&bytes, syn, ack);
        if bytes.len() > 1 {
            (bytes[0], bytes[1]) = (30, bytes.len() as u8);
            parse(&bytes, syn, ack);
        }
    }

    #[test]
    fn arbitrary_mappings_never_panic(steps in prop::collection::vec((any::<u64>(), any::<u32>(), 0_u16..200, any::<bool>()), 0..200)) {
        let mut checksums = Checksums::default();
        for (data, subflow, length, fin) in steps {
            checksums.mapping(data, subflow, length, 0, fin);
            checksums.payload(subflow, &vec![1; usize::from(length) / 2]);
        }
    }
}

const TOKEN_0: u32 = 0x05fe_4057;
const IDSN_0: u64 = 0xac55_8654_f107_c7e9;
const TOKEN_1: u32 = 0xaf55_70f5;
const IDSN_1: u64 = 0xe5b2_328d_e0e8_3dfc;
const HMACS: [(u8, u64, [u8; 20]); 2] = [
    (
        0,
        0x88b1_12b0_1d75_2771,
        [62, 157, 60, 70, 58, 189, 85, 247, 26, 8, 88, 240, 121, 248, 186, 228, 181, 89, 159, 38],
    ),
    (
        1,
        0xcc1c_2d42_6c3a_a0d7,
        [229, 197, 38, 94, 248, 119, 229, 148, 56, 188, 108, 147, 78, 161, 9, 168, 251, 24, 173, 104],
    ),
];
