//! TLS secrets inside pcapng files: decryption secrets blocks.

use crate::quic::recording::{CAPTURE, KEYS};
use pathbench_record::trace::TraceDocument;
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::capture::{CaptureReader, writer};
use pathbench_trace::quic::{Keylog, Quic};

fn block(kind: u32, fields: [u32; 2], data: &[u8]) -> Vec<u8> {
    let padded = data.len().next_multiple_of(4);
    let length = 20 + padded as u32;
    let mut block: Vec<u8> =
        [kind, length, fields[0], fields[1]].iter().flat_map(|word| word.to_le_bytes()).collect();
    block.extend(data);
    block.resize(16 + padded, 0);
    block.extend(length.to_le_bytes());
    block
}

/// The recording as pcapng, with blocks before its packets.
fn file(blocks: &[u8]) -> Vec<u8> {
    let mut reader = CaptureReader::open(CAPTURE).unwrap();
    let mut bytes = Vec::new();
    writer::begin(reader.interfaces(), &mut bytes);
    bytes.extend(blocks);
    while let Some(batch) = reader.batch().unwrap() {
        batch.iter().for_each(|frame| writer::packet(&frame, &mut bytes));
    }
    bytes
}

fn document(files: &[&[u8]], keylog: Option<Keylog>) -> TraceDocument {
    let sources = files.iter().map(|bytes| open("file".to_owned(), *bytes).unwrap()).collect();
    analyse(sources, &AnalysisParameters { most: 10, seed: 1 }, Quic::new(keylog), ()).document
}

const TLS: u32 = 0x544c_534b;

#[test]
fn secrets_in_the_file_decrypt_as_a_key_log_does() {
    let secrets = block(10, [TLS, KEYS.len() as u32], KEYS);
    let inside = document(&[&file(&secrets)], None);
    let beside = document(&[&file(&[])], Some(Keylog::parse(KEYS)));
    assert!(inside.connections[0].quic.as_ref().unwrap().decrypted);
    assert_eq!(inside.connections, beside.connections);
    // Of one of several files, in two blocks that cut the text between lines.
    let middle = KEYS.len() / 2 + KEYS[KEYS.len() / 2..].iter().position(|byte| *byte == b'\n').unwrap();
    let (first, second) = KEYS.split_at(middle);
    let halves = [first, second].map(|half| block(10, [TLS, half.len() as u32], half)).concat();
    let several = document(&[&file(&halves), &file(&[])[..200]], None);
    assert!(several.connections[0].quic.as_ref().unwrap().decrypted);
}

#[test]
fn secrets_of_other_protocols_and_damaged_blocks_are_no_keys() {
    let wireguard = block(10, [0x5747_4b4c, KEYS.len() as u32], KEYS);
    let other = document(&[&file(&wireguard)], None);
    assert!(!other.connections[0].quic.as_ref().unwrap().decrypted);
    assert_eq!(other.captures[0].damage, None);
    // The length exceeds the block: the reader stops there.
    let damaged = document(&[&file(&block(10, [TLS, KEYS.len() as u32 + 100], KEYS))], None);
    assert!(damaged.captures[0].damage.is_some());
    assert_eq!(damaged.captures[0].packets, 0);
}
