//! pcap and pcapng.

use crate::reader::files::{Chunks, Fields, ORDERS, Order, Owned, frame, gzip, read, zstd};
use pathbench_trace::capture::{CaptureReader, Format, InterfaceDescription, link_type_name};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

#[test]
fn pcap_of_all_variants() {
    for order in ORDERS {
        for (magic, unit_ns, extra) in [(MICROSECONDS, 1_000, 0), (NANOSECONDS, 1, 0), (MODIFIED, 1_000, 8)] {
            let mut file = Fields::new(order).pcap(magic, 113);
            for (number, bytes) in [&b"first"[..], b"", b"third packet"].into_iter().enumerate() {
                let length = bytes.len() as u32;
                let header = file.u32(number as u32 + 1).u32(999_999).u32(length).u32(1_500);
                file = header.raw(&[0xff; 8][..extra]).raw(bytes);
            }
            let at = |second: u64| second * 1_000_000_000 + 999_999 * unit_ns;
            let expected = [
                frame(0, at(1), 1_500, b"first"),
                frame(0, at(2), 1_500, b""),
                frame(0, at(3), 1_500, b"third packet"),
            ];
            for bytes in [file.bytes.clone(), gzip(&file.bytes), zstd(&file.bytes)] {
                let contents = read(&bytes[..]);
                assert_eq!(contents.frames, expected, "{order:?} {magic:x}");
                assert!(contents.error.is_none());
                assert_eq!(contents.position, file.bytes.len() as u64);
                let interface = InterfaceDescription {
                    link_type: 113,
                    snap_length: 2_000,
                    ..InterfaceDescription::default()
                };
                assert_eq!(contents.interfaces, [interface]);
            }
            assert_eq!(CaptureReader::open(&file.bytes[..]).unwrap().format(), Format::Pcap);
        }
    }
}

#[test]
fn the_upper_bits_of_a_pcap_link_type_are_the_frame_check_sequence() {
    let file = Fields::new(Order::Big).pcap(MICROSECONDS, 0x4400_0001);
    assert_eq!(read(&file.bytes[..]).interfaces[0].link_type, 1);
}

#[test]
fn the_original_length_is_never_shorter_than_the_captured() {
    let pcap = Fields::new(Order::Little).pcap(NANOSECONDS, 1).record(0, 0, 2, b"four");
    assert_eq!(read(&pcap.bytes[..]).frames, [frame(0, 0, 4, b"four")]);
}

/// Two sections, one of each byte order, with packets of all blocks and blocks of other types.
fn sections() -> (Vec<u8>, Vec<Owned>) {
    let first = Fields::new(Order::Little)
        .section()
        .interface()
        .enhanced(0, 5, b"a")
        .block(0x0bad, |body| body.raw(&[0xaa; 20]))
        .interface_with(101, 6, |options| options.option(9, &[9]))
        .enhanced_with(1, u64::from(u32::MAX) + 7, b"bcde", |options| options.option(1, b"lost").u32(0));
    let second = Fields::new(Order::Big)
        .section()
        .block(5, |body| body.u32(0).u64(77))
        .interface_with(276, 4, |options| options.option(9, &[3]))
        .block(2, |body| {
            let body = body.u16(0).u16(0xffff).u32(0).u32(8).u32(3).u32(9).padded(b"old");
            body.option(2, &[0; 4]).option(1, b"first").option(1, b"second")
        })
        .block(3, |body| body.u32(10).raw(b"snap"))
        .block(3, |body| body.u32(3).padded(b"all"));
    let commented = |frame: Owned, comment: &[u8]| Owned { comment: Some(comment.to_vec()), ..frame };
    let expected = vec![
        frame(0, 5_000, 1_001, b"a"),
        commented(frame(1, u64::from(u32::MAX) + 7, 1_004, b"bcde"), b"lost"),
        commented(frame(2, 8_000_000, 9, b"old"), b"first"),
        frame(2, 0, 10, b"snap"),
        frame(2, 0, 3, b"all"),
    ];
    ([first.bytes, second.bytes].concat(), expected)
}

#[test]
fn pcapng_with_sections_of_both_byte_orders() {
    let (bytes, expected) = sections();
    let twice = [&bytes[..], &bytes].concat();
    let reader = CaptureReader::open(&twice[..]).unwrap();
    assert_eq!((reader.format(), reader.compression()), (Format::Pcapng, None));
    for file in [twice.clone(), gzip(&twice), zstd(&twice)] {
        let contents = read(&file[..]);
        assert!(contents.error.is_none());
        assert_eq!(contents.position, twice.len() as u64);
        let again = expected.iter().map(|frame| Owned { interface: frame.interface + 3, ..frame.clone() });
        assert_eq!(contents.frames, expected.iter().cloned().chain(again).collect::<Vec<_>>());
        let types: Vec<_> = contents.interfaces.iter().map(|interface| interface.link_type).collect();
        assert_eq!(types, [1, 101, 276, 1, 101, 276]);
    }
}

#[test]
fn an_interface_with_all_options() {
    for order in ORDERS {
        for end in [&[][..], &[0; 4]] {
            let long = "n".repeat(1_000);
            let file = Fields::new(order)
                .section()
                .interface_with(1, 96, |options| {
                    let options =
                        options.option(1, b"a comment").option(2, b"wlan0").option(3, b"Wi-Fi \xff");
                    options.option(11, b"\0tcp port 443").option(99, &[1; 3]).raw(end)
                })
                .interface_with(1, 0, |options| {
                    options.option(2, long.as_bytes()).option(11, b"\x01BPF").raw(end)
                })
                .interface_with(1, 0, |options| options.option(2, b"eth0\0").raw(end));
            let contents = read(&file.bytes[..]);
            assert!(contents.error.is_none());
            let text = |text: &str| Some(text.to_owned());
            let expected = InterfaceDescription {
                link_type: 1,
                name: text("wlan0"),
                description: text("Wi-Fi \u{fffd}"),
                snap_length: 96,
                filter: text("tcp port 443"),
            };
            assert_eq!(contents.interfaces[0], expected);
            assert_eq!(contents.interfaces[1].name, text(&long[..256]));
            assert_eq!(contents.interfaces[1].filter, None);
            assert_eq!(contents.interfaces[2].name, text("eth0"));
        }
    }
}

#[test]
fn times_of_all_resolutions() {
    // Resolution, offset in s, count, expected nanoseconds.
    let cases: [(Option<u8>, Option<i64>, u64, u64); 16] = [
        (None, None, 1_700_000_000_000_001, 1_700_000_000_000_001_000),
        (Some(6), None, 7, 7_000),
        (Some(9), None, u64::MAX, u64::MAX),
        (Some(0), None, 1_700_000_000, 1_700_000_000_000_000_000),
        (Some(3), None, 2, 2_000_000),
        (Some(12), None, 1_999, 1),
        (Some(127), None, u64::MAX, 0),
        (Some(6), None, u64::MAX, u64::MAX),
        (Some(0x80), None, 3, 3_000_000_000),
        (Some(0x8a), None, 1_536, 1_500_000_000),
        (Some(0xa0), None, 1 << 31, 500_000_000),
        (Some(0x80), None, u64::MAX, u64::MAX),
        (Some(0xff), None, u64::MAX, 0),
        (Some(9), Some(1_700_000_000), 5, 1_700_000_000_000_000_005),
        (Some(9), Some(-1), 999_999_999, 0),
        (Some(9), Some(i64::MAX), u64::MAX, u64::MAX),
    ];
    for order in ORDERS {
        for (resolution, offset_s, count, expected) in cases {
            let file = Fields::new(order)
                .section()
                .interface_with(1, 0, |mut options| {
                    if let Some(resolution) = resolution {
                        options = options.option(9, &[resolution]);
                    }
                    match offset_s {
                        Some(offset_s) => options.u16(14).u16(8).u64(offset_s as u64),
                        None => options,
                    }
                })
                .enhanced(0, count, b"");
            let contents = read(&file.bytes[..]);
            assert_eq!(contents.frames[0].time_ns, expected, "{resolution:?} {offset_s:?} {count}");
        }
    }
}

#[test]
fn short_reads_yield_the_same_frames() {
    let (bytes, expected) = sections();
    for file in [bytes.clone(), gzip(&bytes), zstd(&bytes)] {
        for size in [1, 2, 3, 7, 50] {
            let contents = read(Chunks::of(&file, size));
            assert_eq!(contents.frames, expected);
            assert!(contents.error.is_none());
        }
    }
}

#[test]
fn more_packets_than_a_batch_and_packets_larger_than_the_buffer() {
    let lengths = [0, 1, 60, 1_514, 65_535, 400_000, 3 << 20, 16 << 20, 5];
    let packets: Vec<Vec<u8>> = (0..300_usize)
        .map(|number| vec![number as u8; lengths[number.saturating_sub(291).max(number % 5)]])
        .collect();
    for (pcap, size) in [(true, usize::MAX), (true, 100_000), (false, usize::MAX), (false, 100_000)] {
        let mut file = Fields::new(Order::Big);
        file = if pcap { file.pcap(NANOSECONDS, 1) } else { file.section().interface() };
        for packet in &packets {
            file = if pcap { file.record(0, 0, 0, packet) } else { file.enhanced(0, 0, packet) };
        }
        let contents = read(Chunks::of(&file.bytes, size));
        assert!(contents.error.is_none());
        assert!(contents.frames.iter().map(|frame| &frame.bytes).eq(&packets));
    }
}

#[test]
fn names_of_link_types() {
    // <https://www.tcpdump.org/linktypes.html>
    let expected = [
        (0, "null"),
        (1, "ethernet"),
        (6, "ieee802_5"),
        (7, "arcnet_bsd"),
        (8, "slip"),
        (9, "ppp"),
        (10, "fddi"),
        (50, "ppp_hdlc"),
        (51, "ppp_ether"),
        (100, "atm_rfc1483"),
        (101, "raw"),
        (104, "c_hdlc"),
        (105, "ieee802_11"),
        (107, "frelay"),
        (108, "loop"),
        (109, "enc"),
        (113, "linux_sll"),
        (114, "ltalk"),
        (117, "pflog"),
        (119, "ieee802_11_prism"),
        (122, "ip_over_fc"),
        (127, "ieee802_11_radiotap"),
        (147, "user0"),
        (162, "user15"),
        (163, "ieee802_11_avs"),
        (166, "ppp_pppd"),
        (187, "bluetooth_hci_h4"),
        (189, "usb_linux"),
        (192, "ppi"),
        (195, "ieee802_15_4_withfcs"),
        (204, "ppp_with_dir"),
        (220, "usb_linux_mmapped"),
        (228, "ipv4"),
        (229, "ipv6"),
        (230, "ieee802_15_4_nofcs"),
        (239, "nflog"),
        (242, "ipoib"),
        (249, "usbpcap"),
        (252, "wireshark_upper_pdu"),
        (253, "netlink"),
        (276, "linux_sll2"),
        (9_999, "linktype_9999"),
    ];
    for (link_type, name) in expected {
        assert_eq!(link_type_name(link_type), name);
    }
}
