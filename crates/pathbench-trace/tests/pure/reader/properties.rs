//! Properties of all files: written packets are read again, arbitrary and changed bytes end in frames and one error.

use crate::reader::files::{Chunks, Contents, Fields, Order, Owned, drain, frame, gzip, read, zstd};
use pathbench_trace::capture::{CaptureReader, Frame, InterfaceDescription, OpenError, writer};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn interface() -> impl Strategy<Value = InterfaceDescription> {
    let text = || of("[a-z ]{0,40}");
    (any::<u16>(), text(), text(), any::<u32>(), text()).prop_map(
        |(link_type, name, description, snap_length, filter)| InterfaceDescription {
            link_type,
            name,
            description,
            snap_length,
            filter,
        },
    )
}

fn written(interfaces: &[InterfaceDescription], frames: &[Owned]) -> Vec<u8> {
    let mut file = Vec::new();
    writer::begin(interfaces, &mut file);
    for frame in frames {
        let Owned { interface, time_ns, original_length, bytes, comment } = frame;
        let frame = Frame {
            interface: *interface,
            time_ns: *time_ns,
            original_length: *original_length,
            bytes,
            comment: comment.as_deref(),
        };
        writer::packet(&frame, &mut file);
    }
    file
}

/// Valid files of both formats, whole or compressed.
fn files() -> Vec<Vec<u8>> {
    let mut pcap = Fields::new(Order::Big).pcap(0xa1b2_cd34, 1);
    for number in 0..70_u8 {
        pcap = pcap.u64(0).u32(u32::from(number)).u32(90).u64(1).raw(&vec![number; number.into()]);
    }
    let interfaces =
        [InterfaceDescription { name: Some("eth0".to_owned()), ..InterfaceDescription::default() }];
    let commented = |number: u8| Owned {
        comment: Some(vec![b'c'; number.into()]),
        ..frame(0, number.into(), 90, &vec![number; number.into()])
    };
    let pcapng = written(&interfaces, &(0..70).map(commented).collect::<Vec<_>>());
    let pcapng =
        [&pcapng[..], &Fields::new(Order::Big).section().interface().enhanced(0, 5, b"x").bytes].concat();
    [pcap.bytes, pcapng].into_iter().flat_map(|file| [gzip(&file), zstd(&file), file]).collect()
}

fn check(bytes: &[u8], chunk: usize) -> Result<(), TestCaseError> {
    let contents = |reader: Result<_, OpenError>| reader.map_err(|error| error.to_string());
    let whole = contents(CaptureReader::open(bytes).map(drain));
    let slow = contents(CaptureReader::open(Chunks::of(bytes, chunk)).map(drain));
    let is_damaged = |found: &Result<Contents, String>| match found {
        Ok(contents) => contents.error.is_some(),
        Err(_) => true,
    };
    if bytes.starts_with(&[0x1f, 0x8b]) && is_damaged(&whole) {
        // The frames just before damage of gzip data depend on the sizes of the reads.
        prop_assert!(is_damaged(&slow));
        if let (Ok(whole), Ok(slow)) = (whole, slow) {
            prop_assert!(whole.frames.iter().zip(&slow.frames).all(|(whole, slow)| whole == slow));
        }
        return Ok(());
    }
    match (whole, slow) {
        (Ok(whole), Ok(slow)) => {
            prop_assert_eq!(whole.error_text(), slow.error_text());
            prop_assert_eq!(whole.interfaces, slow.interfaces);
            prop_assert_eq!(whole.frames, slow.frames);
        }
        (whole, slow) => prop_assert_eq!(whole.err(), slow.err()),
    }
    Ok(())
}

proptest! {
    #[test]
    fn written_packets_are_read_again(
        interfaces in vec(interface(), 1..4),
        packets in vec((any::<Index>(), any::<u64>(), vec(any::<u8>(), 0..80), 0..2_000_u32, of(vec(any::<u8>(), 1..50))), 0..150),
    ) {
        let frames: Vec<_> = packets
            .into_iter()
            .map(|(index, time_ns, bytes, cut, comment)| Owned {
                interface: index.index(interfaces.len()) as u32,
                time_ns,
                original_length: bytes.len() as u32 + cut,
                bytes,
                comment,
            })
            .collect();
        let contents = read(&written(&interfaces, &frames)[..]);
        prop_assert_eq!(contents.error_text(), "");
        prop_assert_eq!(contents.interfaces, interfaces);
        prop_assert_eq!(contents.frames, frames);
    }

    #[test]
    fn arbitrary_bytes_have_an_end(
        start in select(vec![
            Vec::new(),
            vec![0x1f, 0x8b, 8, 0],
            vec![0x28, 0xb5, 0x2f, 0xfd],
            Fields::new(Order::Little).pcap(0xa1b2_c3d4, 1).bytes,
            Fields::new(Order::Big).section().interface().bytes,
        ]),
        rest: Vec<u8>,
        chunk in 1..40_usize,
    ) {
        check(&[start, rest].concat(), chunk)?;
    }

    #[test]
    fn changed_files_have_an_end(
        file in select(files()),
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
        end: Index,
        chunk in 1..40_usize,
    ) {
        let mut file = file;
        for (index, byte) in changes {
            *index.get_mut(&mut file) = byte;
        }
        file.truncate(end.index(file.len() * 2));
        check(&file, chunk)?;
    }
}
