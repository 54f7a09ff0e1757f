//! gzip and zstd: several members or frames, and damage.

use crate::reader::files::{Contents, Fields, Order, gzip, read, zstd, zstd_blocks, zstd_skippable};
use pathbench_trace::capture::{CaptureReader, Compression};

/// A pcap file with a packet per letter, the numbers of which are its bytes.
fn pcap(packets: u8) -> Vec<u8> {
    let mut file = Fields::new(Order::Little).pcap(0xa1b2_3c4d, 1);
    for number in 0..packets {
        file = file.record(0, 0, 0, &[number; 84]);
    }
    file.bytes
}

fn numbers(contents: &Contents) -> Vec<u8> {
    contents.frames.iter().map(|frame| frame.bytes[0]).collect()
}

#[test]
fn members_of_gzip_and_frames_of_zstd() {
    let file = pcap(100);
    let (head, tail) = file.split_at(3_333);
    let cases = [
        (Compression::Gzip, [gzip(head), gzip(b""), gzip(tail)].concat()),
        (Compression::Zstd, [zstd(head), zstd(tail)].concat()),
        (Compression::Zstd, zstd_blocks(&[head, b"", tail], None)),
        (
            Compression::Zstd,
            [zstd_skippable(b"index"), zstd(head), zstd_skippable(b""), zstd(tail), zstd_skippable(b"end")]
                .concat(),
        ),
    ];
    for (compression, bytes) in cases {
        assert_eq!(CaptureReader::open(&bytes[..]).unwrap().compression(), Some(compression));
        let contents = read(&bytes[..]);
        assert_eq!(contents.error_text(), "");
        assert_eq!(numbers(&contents), (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn a_truncated_gzip_file_yields_its_frames() {
    let bytes = gzip(&pcap(200));
    let contents = read(&bytes[..bytes.len() - 8]);
    assert_eq!(numbers(&contents), (0..200).collect::<Vec<_>>());
    assert!(
        contents.error_text().ends_with("byte 20024: the gzip data ends early"),
        "{}",
        contents.error_text()
    );
    let contents = read(&bytes[..bytes.len() / 2]);
    assert!(!contents.frames.is_empty() && contents.frames.len() < 200);
    assert!(contents.error_text().ends_with("the gzip data ends early"), "{}", contents.error_text());
}

#[test]
fn a_truncated_zstd_file_yields_all_complete_blocks() {
    let file = pcap(200);
    let blocks: Vec<_> = file.chunks(5_000).collect();
    let bytes = zstd_blocks(&blocks, None);
    // The header of the frame, three blocks with theirs, and a part of the fourth.
    let contents = read(&bytes[..6 + 3 * 5_003 + 100]);
    assert_eq!(numbers(&contents), (0..149).collect::<Vec<_>>());
    let expected = "cannot read the file after byte 14924: the zstd data ends early";
    assert_eq!(contents.error_text(), expected);
}

#[test]
fn damaged_checksums_are_errors_after_all_frames() {
    let file = pcap(150);
    let mut gzipped = gzip(&file);
    let crc = gzipped.len() - 8;
    gzipped[crc] ^= 1;
    for (name, bytes) in [("gzip", gzipped), ("zstd", zstd_blocks(&[&file], Some([1, 2, 3, 4])))] {
        let contents = read(&bytes[..]);
        assert_eq!(numbers(&contents), (0..150).collect::<Vec<_>>());
        let expected = format!("cannot read the file after byte 15024: the {name} data is damaged");
        assert_eq!(contents.error_text(), expected);
    }
}

#[test]
fn other_bytes_after_the_compressed_data_are_damage() {
    for compressed in [gzip(&pcap(3)), zstd(&pcap(3))] {
        let contents = read(&[&compressed[..], b"no frame of zstd, no member of gzip"].concat()[..]);
        assert_eq!(numbers(&contents), [0, 1, 2]);
        assert!(contents.error_text().ends_with("data is damaged"), "{}", contents.error_text());
    }
}

#[test]
fn a_zstd_window_beyond_the_limit_is_an_error() {
    let mut bytes = zstd_blocks(&[&pcap(1)], None);
    // 2^(10 + 21) bytes.
    bytes[5] = 21 << 3;
    let error = CaptureReader::open(&bytes[..]).unwrap_err().to_string();
    assert!(error.contains("window of 2147483648 bytes"), "{error}");
}
