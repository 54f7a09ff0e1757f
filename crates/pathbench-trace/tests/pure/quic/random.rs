//! Arbitrary and damaged packets.

use crate::quic::recording::{KEYS, analyse, datagram, push, recorded};
use crate::quic::sealed::{Sealer, analyse_with, client_id, stream};
use pathbench_record::trace::SubflowDirection;
use pathbench_trace::quic::frames::QuicFrames;
use pathbench_trace::quic::{Keylog, Quic, tls};
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_payloads_do_not_panic(payloads in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)), 0..40)) {
        let datagrams: Vec<_> = payloads.into_iter().map(|(client, payload)| datagram(client, payload)).collect();
        let payload: u64 = datagrams.iter().map(|datagram| datagram.payload.len() as u64).sum();
        let mut quic = Quic::new(Some(Keylog::parse(KEYS)));
        for datagram in &datagrams {
            push(&mut quic, datagram, usize::MAX);
        }
        prop_assert_eq!(quic.totals().payload_bytes, payload);
        quic.finish(0);
    }

    #[test]
    fn changed_recordings_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..60),
        moved in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
        captured in prop_oneof![Just(usize::MAX), 0..1500_usize],
    ) {
        let mut datagrams = recorded();
        for (datagram, at, with) in changes {
            let payload = &mut datagrams[datagram.index(184)].payload;
            let at = at.index(payload.len());
            payload[at] ^= with;
        }
        for (one, other) in moved {
            datagrams.swap(one.index(184), other.index(184));
        }
        analyse(&datagrams, Some(Keylog::parse(KEYS)), captured);
    }

    #[test]
    fn arbitrary_frames_and_handshakes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..20_000_u64) {
        prop_assert!(QuicFrames::new(&bytes).count() <= bytes.len());
        let mut stream = tls::CryptoStream::default();
        stream.push(at, &bytes);
        stream.push(0, &bytes);
        prop_assert!(stream.messages().count() <= 75);
        tls::client_hello(&bytes);
        tls::server_hello(&bytes);
        tls::encrypted_extensions(&bytes);
        tls::transport_parameters(&bytes);
        Keylog::parse(&bytes);
    }

    #[test]
    fn streams_are_put_together_in_any_order(mut parts in Just((0..20_u64).collect::<Vec<_>>()).prop_shuffle(), again in 0..20_u64) {
        parts.push(again);
        let message = [&[8, 0, 0, 196][..], &(0..196).collect::<Vec<u8>>()].concat();
        let mut stream = tls::CryptoStream::default();
        for part in parts {
            prop_assert!(stream.messages().next().is_none() || part == again);
            stream.push(part * 10, &message[part as usize * 10..part as usize * 10 + 10]);
        }
        prop_assert_eq!(stream.messages().collect::<Vec<_>>(), [(8, &message[4..])]);
    }

    #[test]
    fn arbitrary_frames_in_packets_do_not_panic(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 4..100), 1..20)) {
        let (sealer, to) = (Sealer::new(), client_id(&analyse_with(&[])));
        let packets: Vec<_> =
            (5000..).zip(&payloads).map(|(number, payload)| (0, sealer.packet(&to, 0, number, payload))).collect();
        analyse_with(&packets);
    }

    #[test]
    fn stream_bytes_are_counted_as_byte_by_byte(frames in prop::collection::vec((0..2_usize, 0..300_u16, 0..100_u16), 1..30)) {
        let (sealer, before) = (Sealer::new(), analyse_with(&[]));
        let to = client_id(&before);
        let mut carried: HashMap<u16, usize> = HashMap::new();
        let (mut new, mut same, mut other, mut packets) = ([0; 2], [0; 2], [0; 2], Vec::new());
        for (number, (path, offset, length)) in (5000..).zip(frames) {
            packets.push((path, sealer.packet(&to, 0, number, &stream(offset, length))));
            for byte in offset..offset + length {
                match carried.insert(byte, path) {
                    None => new[path] += 1,
                    Some(earlier) if earlier == path => same[path] += 1,
                    Some(_) => other[path] += 1,
                }
            }
        }
        let after = analyse_with(&packets);
        for path in 0..2 {
            let (before, after) = (&before.subflows[path].download, &after.subflows[path].download);
            let goodput = |direction: &SubflowDirection| direction.goodput.bytes.iter().sum::<u64>();
            prop_assert_eq!(goodput(after) - goodput(before), new[path]);
            prop_assert_eq!(after.retransmitted_bytes - before.retransmitted_bytes, same[path]);
            prop_assert_eq!(after.reinjected_bytes.unwrap() - before.reinjected_bytes.unwrap(), other[path]);
        }
    }
}
