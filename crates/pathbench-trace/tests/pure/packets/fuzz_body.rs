//! Body for fuzzing and property tests: arbitrary frames through [`dissect`] and [`Reassembly`].

use pathbench_trace::packet::reassembly::Reassembly;
use pathbench_trace::packet::{Dissected, TransportHeader, dissect, tcp_options};

/// Input: frames, each with link type (2 bytes), captured length (1) and bytes that the capture left out (1) before it.
pub(crate) fn run(mut input: &[u8]) {
    let mut reassembly = Reassembly::default();
    let mut time_ns = 0;
    while let Some(([high, low, length, omitted], rest)) = input.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        input = rest;
        time_ns += 1_000_000_000;
        let dissected =
            dissect(u16::from_be_bytes([*high, *low]), frame, frame.len() as u32 + u32::from(*omitted));
        check(&dissected);
        if let Dissected::Fragment(fragment) = dissected
            && let Some(datagram) = reassembly.push(time_ns, &fragment)
        {
            check(&datagram.dissect());
        }
        assert!(reassembly.pending() <= 256);
    }
}

/// No slice is longer than the packet has bytes on the wire.
pub(crate) fn check(dissected: &Dissected<'_>) {
    match dissected {
        Dissected::Packet(packet) => match packet.transport {
            TransportHeader::Tcp(tcp) => {
                assert!(tcp.payload.len() as u32 <= tcp.payload_length);
                assert!(tcp.payload_length <= packet.ip_length);
                assert!(tcp.options.len() <= 40);
                assert!(tcp_options::options(tcp.options).count() <= 20);
                assert!(tcp_options::nop_count(tcp.options) <= 40);
            }
            TransportHeader::Udp(udp) => {
                assert!(udp.payload.len() as u32 <= udp.payload_length);
                assert!(udp.payload_length <= packet.ip_length);
            }
            TransportHeader::TooBig(_) => {}
        },
        Dissected::Fragment(fragment) => {
            assert!(fragment.payload.len() as u32 <= fragment.payload_length);
        }
        Dissected::Other(_) => {}
    }
}
