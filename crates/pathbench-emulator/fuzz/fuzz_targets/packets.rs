//! Parsing of arbitrary bytes as GSO packets: no panic, wire packets of every accepted packet, and runs that are cut
//! into the same wire packets again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pathbench_emulator::flow::packet_flow;
use pathbench_emulator::segmentation::{GsoPacket, Headers, Run};
use pathbench_host::tun::PacketHeader;
use pathbench_trace::capture::{Frame, writer};

fuzz_target!(|bytes: &[u8]| {
    let Some((head, packet)) = bytes.split_at_checked(PacketHeader::BYTES) else { return };
    assert_eq!(packet_flow(packet), packet_flow(packet));
    let Some(gso) = PacketHeader::parse(head).and_then(|header| GsoPacket::parse(header, packet)) else { return };
    let (mut wire, mut file, mut headers) = (Vec::new(), Vec::new(), Headers::default());
    for segment in 0..gso.segments().min(64) {
        gso.wire_packet(packet, segment, bytes.len() % 2 == 0, &mut wire).expect("a segment of an accepted packet");
        assert_eq!(wire.len() as u32, gso.ip_bytes(Run { first: segment, count: 1 }));
        let frame = Frame {
            interface: 0,
            time_ns: u64::from(segment),
            original_length: wire.len() as u32,
            bytes: &wire,
            comment: Some(packet),
        };
        writer::packet(&frame, &mut file);
        assert_eq!(file.len() % 4, 0);
    }
    let Some(count) = gso.segments().checked_sub(1).filter(|count| *count > 0) else { return };
    let run = Run { first: 1, count };
    let payload = gso.headers(packet, run, false, &mut headers).expect("a run of an accepted packet");
    let again = [headers.of_packet(), &packet[payload]].concat();
    let header = PacketHeader::parse(headers.as_bytes()).expect("a header that was just written");
    let again = GsoPacket::parse(header, &again).expect("a packet that a host accepts");
    assert_eq!(again.segments(), count);
});
