//! Truncated and damaged files, and files that cannot be opened.

use crate::reader::files::{Chunks, Contents, Fields, ORDERS, Order, drain, gzip, read, zstd};
use pathbench_trace::capture::{CaptureReadError, CaptureReader, Damage, OpenError};
use std::io::ErrorKind;

const MICROSECONDS: u32 = 0xa1b2_c3d4;

fn pcap(order: Order) -> Fields {
    Fields::new(order).pcap(MICROSECONDS, 1)
}

/// A file with the ends of its header and of its records or blocks.
struct Built {
    bytes: Vec<u8>,
    /// Bytes without which the file cannot be opened.
    header: usize,
    /// End and number of packets up to there.
    ends: Vec<(usize, usize)>,
}

fn built(order: Order) -> [Built; 2] {
    let mut file = pcap(order);
    let mut ends = vec![(24, 0)];
    for number in 0..4_usize {
        file = file.record(1, 2, 3, &[7; 5][..number]);
        ends.push((file.bytes.len(), number + 1));
    }
    let pcap = Built { bytes: file.bytes, header: 24, ends };

    let mut ends = Vec::new();
    let mut file = Fields::new(order);
    let parts: [fn(Fields) -> Fields; 6] = [
        Fields::section,
        Fields::interface,
        |file| file.enhanced(0, 1, b"one"),
        |file| file.block(3, |body| body.u32(2).padded(b"xy")),
        |file| file.block(77, |body| body.raw(&[1; 8])),
        |file| file.enhanced_with(0, 1, b"four", |options| options.option(1, b"comment")),
    ];
    for (part, packets) in parts.into_iter().zip([0, 0, 1, 2, 2, 3]) {
        file = part(file);
        ends.push((file.bytes.len(), packets));
    }
    [pcap, Built { bytes: file.bytes, header: 12, ends }]
}

#[test]
fn a_file_truncated_at_any_byte_yields_its_complete_frames_and_one_error() {
    for Built { bytes, header, ends } in ORDERS.map(built).into_iter().flatten() {
        let whole = read(&bytes[..]);
        assert!(whole.error.is_none());
        for length in 1..bytes.len() {
            let truncated = &bytes[..length];
            if length < header {
                let error = CaptureReader::open(truncated).unwrap_err();
                assert!(matches!(error, OpenError::Truncated { length: l } if l == length as u64), "{error}");
                continue;
            }
            let (end, packets) = ends.iter().rfind(|(end, _)| *end <= length).copied().unwrap_or_default();
            let contents = read(truncated);
            assert_eq!(contents.frames, whole.frames[..packets]);
            match contents.error {
                None => assert_eq!(end, length),
                Some(CaptureReadError::Truncated { offset, .. }) => {
                    assert_eq!(offset, end as u64);
                    assert!(end < length);
                }
                Some(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn the_error_names_place_and_reason() {
    let file = pcap(Order::Little).record(0, 0, 0, b"whole").record(0, 0, 0, b"cut").bytes;
    let contents = read(&file[..file.len() - 1]);
    assert_eq!(contents.error_text(), "the file ends within a packet record at byte 45");
    let file = Fields::new(Order::Big).section().interface().bytes;
    assert_eq!(read(&file[..40]).error_text(), "the file ends within a block at byte 28");
}

fn damage(contents: Contents, packets: usize, offset: u64) -> Damage {
    assert_eq!(contents.frames.len(), packets);
    match contents.error {
        Some(CaptureReadError::Damaged { offset: found, damage }) => {
            assert_eq!(found, offset);
            damage
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_pcap_record_ends_the_file() {
    for order in ORDERS {
        for length in [(16 << 20) + 1, u32::MAX] {
            let file = pcap(order).record(0, 0, 0, b"x").u64(0).u32(length).u32(0).raw(&[0; 64]);
            let found = damage(read(&file.bytes[..]), 1, 41);
            assert_eq!(found, Damage::PacketLength { length });
        }
    }
}

#[test]
fn damaged_blocks_end_the_file() {
    for order in ORDERS {
        let good = Fields::new(order).section().interface().enhanced(0, 0, b"good");
        let offset = good.bytes.len() as u64;
        let cases: Vec<(Fields, Damage)> = vec![
            (good.clone().u32(6).u32(11).u32(11), Damage::BlockLength { length: 11 }),
            (good.clone().u32(6).u32(8).u32(8), Damage::BlockLength { length: 8 }),
            (good.clone().u32(6).u32(34).raw(&[0; 26]), Damage::BlockLength { length: 34 }),
            (good.clone().u32(6).u32(0xffff_fff0), Damage::BlockLength { length: 0xffff_fff0 }),
            (good.clone().u32(99).u32(12).u32(16), Damage::UnequalLengths { first: 12, last: 16 }),
            (good.clone().block(6, |body| body.raw(&[0; 16])), Damage::ShortBlock { kind: 6 }),
            (good.clone().block(2, |body| body.raw(&[0; 16])), Damage::ShortBlock { kind: 2 }),
            (good.clone().block(3, |body| body), Damage::ShortBlock { kind: 3 }),
            (good.clone().block(1, |body| body.u32(0)), Damage::ShortBlock { kind: 1 }),
            (good.clone().block(3, |body| body.u32(5).u32(0)), Damage::PacketBeyondBlock { length: 5 }),
            (
                good.clone().block(6, |body| body.u32(0).u64(0).u32(5).u32(5).raw(&[0; 4])),
                Damage::PacketBeyondBlock { length: 5 },
            ),
            (
                good.clone().block(6, |body| body.u32(0).u64(0).u32(u32::MAX).u32(5).raw(&[0; 4])),
                Damage::PacketLength { length: u32::MAX },
            ),
            (
                good.clone().block(3, |body| body.u32(u32::MAX).raw(&[0; 4])),
                Damage::PacketLength { length: u32::MAX },
            ),
            (good.clone().enhanced(1, 0, b""), Damage::UndefinedInterface { interface: 1, described: 1 }),
            (
                good.clone().enhanced_with(0, 0, b"", |options| options.u16(1).u16(5).u32(0)),
                Damage::Option { code: 1 },
            ),
            (
                good.clone().interface_with(1, 0, |options| options.option(9, &[1, 2])),
                Damage::Option { code: 9 },
            ),
            (
                good.clone().interface_with(1, 0, |options| options.option(14, &[1; 4])),
                Damage::Option { code: 14 },
            ),
            (good.clone().block(0x0a0d_0d0a, |body| body.u32(1).raw(&[0; 12])), Damage::ByteOrder),
            (
                good.clone().block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(2).u16(0).u64(0)),
                Damage::Version { major: 2 },
            ),
            (
                good.clone().block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(1).u16(0)),
                Damage::ShortBlock { kind: 0x0a0d_0d0a },
            ),
        ];
        for (file, expected) in cases {
            let file = file.enhanced(0, 0, b"after the damage");
            assert_eq!(damage(read(&file.bytes[..]), 1, offset), expected);
            assert_eq!(damage(read(Chunks::of(&file.bytes, 1)), 1, offset), expected);
        }
    }
}

#[test]
fn a_section_knows_no_interfaces_of_the_section_before() {
    let file = Fields::new(Order::Little).section().interface().enhanced(0, 0, b"").section();
    let offset = file.bytes.len() as u64;
    let file = file.enhanced(0, 0, b"");
    let expected = Damage::UndefinedInterface { interface: 0, described: 0 };
    assert_eq!(damage(read(&file.bytes[..]), 1, offset), expected);
}

#[test]
fn the_number_of_interfaces_is_bounded() {
    let mut file = Fields::new(Order::Little).section();
    for _ in 0..65_536 {
        file = file.interface();
    }
    let end = file.bytes.len() as u64;
    let file = file.enhanced(65_535, 0, b"").section().interface();
    let contents = read(&file.bytes[..]);
    assert_eq!(contents.interfaces.len(), 65_536);
    assert_eq!(damage(contents, 1, end + 32 + 28), Damage::Interfaces { most: 65_536 });
}

#[test]
fn an_error_of_the_source_follows_the_frames_before_it() {
    let file = pcap(Order::Little).record(0, 0, 0, b"whole").record(0, 0, 0, b"cut").bytes;
    for (name, bytes) in [("plain", file.clone()), ("gzip", gzip(&file)), ("zstd", zstd(&file))] {
        let end = bytes.len() - if name == "plain" { 1 } else { 4 };
        let source = Chunks { last_error: Some(ErrorKind::NotConnected), ..Chunks::of(&bytes[..end], 5) };
        let contents = read(source);
        assert_eq!(contents.frames.len(), if name == "plain" { 1 } else { 2 }, "{name}");
        match contents.error {
            Some(CaptureReadError::Io { source, .. }) => {
                assert_eq!(source.kind(), ErrorKind::NotConnected);
                assert_eq!(source.to_string(), "the disk is gone");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn files_that_are_no_captures() {
    assert!(matches!(CaptureReader::open(&b""[..]), Err(OpenError::Empty)));
    assert!(matches!(CaptureReader::open(&gzip(b"")[..]), Err(OpenError::Empty)));
    let big_section = [&0x0a0d_0d0a_u32.to_le_bytes()[..], &[0; 8]].concat();
    for bytes in [&b"#!/bin/sh\n"[..], &[0; 100], &gzip(b"a text")[..], &big_section] {
        assert!(matches!(CaptureReader::open(bytes), Err(OpenError::UnknownFormat)), "{bytes:?}");
    }
    let old = Fields::new(Order::Little).u32(MICROSECONDS).u16(1).u16(9).raw(&[0; 16]);
    assert!(matches!(CaptureReader::open(&old.bytes[..]), Err(OpenError::Version { major: 1, minor: 9 })));
    let source = Chunks { last_error: Some(ErrorKind::NotConnected), ..Chunks::of(b"", 1) };
    assert!(matches!(CaptureReader::open(source), Err(OpenError::Io { .. })));
    for compressed in [gzip(&[0; 50]), zstd(&[0; 50])] {
        assert!(matches!(CaptureReader::open(&compressed[..8]), Err(OpenError::Io { .. })));
    }
}

#[test]
fn a_file_without_packets_has_no_error() {
    for file in [pcap(Order::Big), Fields::new(Order::Big).section()] {
        let contents = drain(CaptureReader::open(&file.bytes[..]).unwrap());
        assert!(contents.frames.is_empty() && contents.error.is_none());
    }
}
