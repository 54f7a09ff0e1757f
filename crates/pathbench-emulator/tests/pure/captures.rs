//! Captures are well-formed pcapng files.

use pathbench_trace::capture::{Frame, InterfaceDescription, writer};
use pathbench_trace::packet::link::RAW;
use proptest::prelude::*;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;

fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let length = number(bytes, 4) as usize;
        assert!(length.is_multiple_of(4) && length >= 12);
        assert_eq!(number(bytes, length - 4) as usize, length);
        blocks.push((number(bytes, 0), &bytes[8..length - 4]));
        bytes = &bytes[length..];
    }
    blocks
}

fn begin(names: &[&str], out: &mut Vec<u8>) {
    let interface = |name: &&str| InterfaceDescription {
        link_type: RAW,
        name: Some((*name).to_owned()),
        ..InterfaceDescription::default()
    };
    writer::begin(&names.iter().map(interface).collect::<Vec<_>>(), out);
}

fn packet(interface: u32, time_ns: u64, bytes: &[u8], comment: &str, out: &mut Vec<u8>) {
    let original_length = bytes.len() as u32;
    let comment = Some(comment.as_bytes());
    writer::packet(&Frame { interface, time_ns, original_length, bytes, comment }, out);
}

#[test]
fn a_capture_byte_by_byte() {
    let mut out = Vec::new();
    begin(&["eth forward"], &mut out);
    packet(0, 0x0001_0002_0003_0004, &[0x45, 1, 2, 3, 4], "lost", &mut out);
    let blocks = blocks(&out);
    assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [SECTION_HEADER, 1, 6]);
    assert_eq!(blocks[1].1[..8], [101, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(blocks[1].1[8..24], *b"\x02\0\x0b\0eth forward\0");
    assert_eq!(blocks[1].1[24..], [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let expected = [
        0, 0, 0, 0, 2, 0, 1, 0, 4, 0, 3, 0, 5, 0, 0, 0, 5, 0, 0, 0, 0x45, 1, 2, 3, 4, 0, 0, 0, 1, 0, 4, 0,
        b'l', b'o', b's', b't', 0, 0, 0, 0,
    ];
    assert_eq!(blocks[2].1, expected);
}

proptest! {
    #[test]
    fn any_packet_and_comment_make_a_block(ip: Vec<u8>, comment: String, at_ns: u64) {
        let mut out = Vec::new();
        begin(&["a", "b"], &mut out);
        packet(1, at_ns, &ip, &comment, &mut out);
        let blocks = blocks(&out);
        prop_assert_eq!(blocks.len(), 4);
        prop_assert_eq!(&blocks[3].1[20..20 + ip.len()], &ip[..]);
    }
}
