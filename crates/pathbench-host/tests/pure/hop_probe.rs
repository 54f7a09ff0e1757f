//! The packets of hop probes and their answers, also forged and short ones.

use pathbench_host::hop_probe::{
    HopProbe, HopReplyKind, QuotedOption, SynOption, icmpv4_reply, icmpv6_reply, tcp_reply,
};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const ROUTER: [u8; 4] = [10, 1, 0, 1];

fn probe(option: SynOption) -> HopProbe {
    HopProbe {
        source: "10.1.0.2:40000".parse().unwrap(),
        destination: "198.51.100.2:4433".parse().unwrap(),
        hops: 3,
        sequence: 0x1234_5678,
        ip_id: 77,
        option,
    }
}

/// An ICMP message of a router that quotes `quote`, with `words` in the length field of RFC 4884.
fn icmp(kind: u8, quote: &[u8], words: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0];
    packet.extend(ROUTER);
    packet.extend([10, 1, 0, 2]);
    packet.extend([kind, 0, 0, 0, 0, words, 0, 0]);
    packet.extend(quote);
    packet
}

fn kind(message: &[u8], option: SynOption) -> Option<HopReplyKind> {
    icmpv4_reply(message, &[probe(option)]).map(|reply| {
        assert_eq!((reply.hops, reply.from), (3, IpAddr::from(ROUTER)));
        reply.kind
    })
}

/// The sum of all words with the checksum is 0 (RFC 1071).
fn sums_to_zero(parts: &[&[u8]]) -> bool {
    let bytes = parts.concat();
    let sum: u32 =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

#[test]
fn a_syn_has_its_option_and_right_checksums() {
    for (option, bytes) in [(SynOption::Plain, 0), (SynOption::MpCapable, 4), (SynOption::MpJoin, 12)] {
        let packet = probe(option).ipv4_packet().unwrap();
        assert_eq!((packet.len(), packet[8], packet[33]), (60 + bytes, 3, 2), "hops and SYN");
        assert!(sums_to_zero(&[&packet[..20]]), "{option:?}");
        let length = ((packet.len() - 20) as u32).to_be_bytes();
        assert!(sums_to_zero(&[&packet[12..20], &length, &[0, 0, 0, 6], &packet[20..]]), "{option:?}");
    }
}

#[test]
fn the_quote_shows_what_a_router_received() {
    use QuotedOption::{Changed, Intact, NotQuoted, Removed};
    for option in [SynOption::MpCapable, SynOption::MpJoin] {
        let sent = probe(option).ipv4_packet().unwrap();
        let at = 20 + 20 + 20;
        let mut nops = sent.clone();
        nops[at..].fill(1);
        let mut changed = sent.clone();
        changed[at + 3] ^= 0xff;
        let mut extended = sent.clone();
        extended.resize(128, 0);
        extended.extend([0x20, 0, 0xde, 0xad, 0, 8, 1, 1]);
        let rows: [(&str, Vec<u8>, u8, QuotedOption); 7] = [
            ("whole", sent.clone(), 0, Intact),
            ("NOPs", nops, 0, Removed),
            ("other bytes", changed, 0, Changed),
            ("8 bytes (RFC 792)", sent[..28].to_vec(), 0, NotQuoted),
            ("without the options", sent[..40].to_vec(), 0, NotQuoted),
            ("half of the option", sent[..at + 2].to_vec(), 0, NotQuoted),
            ("with an extension (RFC 4884)", extended, 32, Intact),
        ];
        for (row, quote, words, expected) in rows {
            let found = kind(&icmp(11, &quote, words), option);
            assert_eq!(found, Some(HopReplyKind::TimeExceeded(expected)), "{option:?}: {row}");
            let found = kind(&icmp(3, &quote, words), option);
            assert_eq!(found, Some(HopReplyKind::Unreachable(expected)), "{option:?}: {row}");
        }
    }
}

#[test]
fn a_forged_answer_is_no_answer() {
    let sent = probe(SynOption::MpCapable).ipv4_packet().unwrap();
    // Total length and checksum of the quote may differ; IP id, destination, ports and sequence number may not.
    for at in [4, 5, 9, 16, 19, 20, 21, 22, 23, 24, 25, 26, 27] {
        let mut forged = sent.clone();
        forged[at] ^= 1;
        assert_eq!(kind(&icmp(11, &forged, 0), SynOption::MpCapable), None, "byte {at}");
    }
    for other in [0, 5, 8, 12] {
        assert_eq!(kind(&icmp(other, &sent, 0), SynOption::MpCapable), None, "type {other}");
    }
}

fn answer(acknowledged: u32, flags: u8, options: &[u8]) -> Vec<u8> {
    let words = (20 + options.len()).div_ceil(4) as u8;
    let mut segment = vec![0x11, 0x51, 0x9c, 0x40, 0, 0, 0, 9];
    segment.extend(acknowledged.to_be_bytes());
    segment.extend([words << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(options);
    segment.resize(usize::from(words) * 4, 0);
    segment
}

#[test]
fn the_servers_answer_acknowledges_the_probe() {
    let probes = [probe(SynOption::MpCapable)];
    let from = IpAddr::from([198, 51, 100, 2]);
    let kind = |segment: &[u8], from| tcp_reply(segment, from, &probes).map(|reply| reply.kind);
    let capable = [2, 4, 5, 0xb4, 30, 4, 1, 1];
    let right = 0x1234_5679;
    assert_eq!(kind(&answer(right, 0x12, &capable), from), Some(HopReplyKind::SynAck { has_mptcp: true }));
    assert_eq!(kind(&answer(right, 0x12, &[]), from), Some(HopReplyKind::SynAck { has_mptcp: false }));
    assert_eq!(kind(&answer(right, 0x14, &[]), from), Some(HopReplyKind::Reset));
    assert_eq!(kind(&answer(right, 0x10, &[]), from), None);
    assert_eq!(kind(&answer(right, 0x04, &[]), from), None);
    assert_eq!(kind(&answer(right + 1, 0x12, &capable), from), None);
    assert_eq!(kind(&answer(right, 0x12, &capable), IpAddr::from(ROUTER)), None);
}

#[test]
fn ipv6_quotes_are_read_likewise() {
    let probe = HopProbe {
        source: SocketAddr::new("2001:db8:1::2".parse().unwrap(), 40000),
        destination: SocketAddr::new("2001:db8:100::2".parse().unwrap(), 4433),
        ..probe(SynOption::MpJoin)
    };
    assert_eq!(probe.ipv4_packet(), None);
    let segment = probe.segment();
    let mut quote = vec![0x60, 0, 0, 0, 0, segment.len() as u8, 6, 1];
    for at in [probe.source, probe.destination] {
        let IpAddr::V6(v6) = at.ip() else { unreachable!("both are IPv6") };
        quote.extend(v6.octets());
    }
    quote.extend(&segment);
    let router: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
    let found = |kind: u8, quote: &[u8]| {
        let message = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], quote].concat();
        icmpv6_reply(&message, router, std::slice::from_ref(&probe)).map(|reply| reply.kind)
    };
    assert_eq!(found(3, &quote), Some(HopReplyKind::TimeExceeded(QuotedOption::Intact)));
    assert_eq!(found(1, &quote), Some(HopReplyKind::Unreachable(QuotedOption::Intact)));
    assert_eq!(found(3, &quote[..48]), Some(HopReplyKind::TimeExceeded(QuotedOption::NotQuoted)));
    assert_eq!(found(129, &quote), None);
    quote[45] ^= 1;
    assert_eq!(found(3, &quote), None);
}

proptest! {
    #[test]
    fn no_message_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..120, byte: u8) {
        let probes = [probe(SynOption::MpJoin)];
        let mut near = icmp(11, &probes[0].ipv4_packet().unwrap(), 0);
        let index = at % near.len();
        near[index] = byte;
        for message in [&bytes[..], &near, &near[..index]] {
            icmpv4_reply(message, &probes);
            icmpv6_reply(message, Ipv6Addr::LOCALHOST, &probes);
            tcp_reply(message, IpAddr::from(ROUTER), &probes);
        }
    }
}
