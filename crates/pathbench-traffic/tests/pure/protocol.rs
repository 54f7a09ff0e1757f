//! The codec: any segmentation of the bytes decodes to the same frames; arbitrary bytes cause one clear error and
//! bounded memory.

use pathbench_record::end::{MAX_RECORD_BYTES, TestId};
use pathbench_traffic::protocol::{
    ControlFrame, DecodeError, DecodedEvent, Decoder, EndFrame, Fetch, FrameKind, HEADER_BYTES, HelloFrame,
    MessageFrame, RefusalCode, TestRefusal, data_header,
};
use proptest::prelude::*;

/// A frame, or a DATA frame with this number of bytes.
#[derive(Debug, Clone, PartialEq)]
enum Sent {
    Control(ControlFrame),
    Data(u32),
}

fn decode_all(decoder: &mut Decoder, input: &[u8], seen: &mut Vec<DecodedEvent>) -> Result<(), DecodeError> {
    let mut rest = input;
    while !rest.is_empty() {
        let (consumed, event) = decoder.decode(rest)?;
        assert!(consumed > 0 || event.is_some(), "no progress");
        rest = &rest[consumed..];
        match (event, seen.last_mut()) {
            (None, _) => {}
            (Some(DecodedEvent::Payload(more)), Some(DecodedEvent::Payload(run))) => *run += more,
            (Some(event), _) => seen.push(event),
        }
    }
    Ok(())
}

fn frame() -> impl Strategy<Value = Sent> {
    let id = any::<[u8; 16]>().prop_map(TestId);
    let code = prop_oneof![
        Just(RefusalCode::Busy),
        Just(RefusalCode::Limit),
        Just(RefusalCode::BadRequest),
        Just(RefusalCode::Unsupported)
    ];
    prop_oneof![
        (1..200_000_u32).prop_map(Sent::Data),
        (id.clone(), any::<u16>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..3000)).prop_map(
            |(test, version, stream, request)| {
                Sent::Control(ControlFrame::Hello(HelloFrame { version, test, stream, request }))
            }
        ),
        (code, ".{0,80}", any::<Option<u64>>()).prop_map(|(code, message, retry)| {
            Sent::Control(ControlFrame::Refuse(TestRefusal::new(code, message, retry)))
        }),
        (0..1_u64 << 63, any::<u64>(), any::<bool>()).prop_map(|(bytes, elapsed_ns, cut_short)| {
            Sent::Control(ControlFrame::End(EndFrame { bytes, elapsed_ns, cut_short }))
        }),
        (0..1_u64 << 63).prop_map(|bytes| Sent::Control(ControlFrame::Done { bytes })),
        prop::collection::vec(any::<u8>(), 2..20_000)
            .prop_map(|json| Sent::Control(ControlFrame::Record(json))),
        (id, any::<u16>(), any::<bool>()).prop_map(|(test, version, end_test)| {
            Sent::Control(ControlFrame::Fetch(Fetch { version, test, end_test }))
        }),
        (any::<u32>(), prop::collection::vec(any::<u8>(), 0..5000), any::<bool>()).prop_map(
            |(sequence, content, answer)| {
                let message = MessageFrame { sequence, content };
                Sent::Control(if answer {
                    ControlFrame::Answer(message)
                } else {
                    ControlFrame::Message(message)
                })
            }
        ),
        any::<u32>().prop_map(|sequence| Sent::Control(ControlFrame::Acknowledge { sequence })),
        Just(Sent::Control(ControlFrame::Accept)),
        Just(Sent::Control(ControlFrame::Start)),
        Just(Sent::Control(ControlFrame::NotFound)),
        Just(Sent::Control(ControlFrame::Stop)),
    ]
}

fn wire(frames: &[Sent]) -> (Vec<u8>, Vec<DecodedEvent>) {
    let mut bytes = Vec::new();
    let mut events: Vec<DecodedEvent> = Vec::new();
    for frame in frames {
        match frame {
            Sent::Control(frame) => {
                bytes.extend(frame.encode().unwrap());
                events.push(DecodedEvent::Frame(frame.clone()));
            }
            Sent::Data(length) => {
                bytes.extend(data_header(*length));
                bytes.resize(bytes.len() + *length as usize, 0xa5);
                match events.last_mut() {
                    Some(DecodedEvent::Payload(run)) => *run += *length as usize,
                    _ => events.push(DecodedEvent::Payload(*length as usize)),
                }
            }
        }
    }
    (bytes, events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_gives_the_same_frames(
        frames in prop::collection::vec(frame(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let (bytes, expected) = wire(&frames);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut decoder = Decoder::new(MAX_RECORD_BYTES);
        let mut seen = Vec::new();
        for pair in cuts.windows(2) {
            decode_all(&mut decoder, &bytes[pair[0]..pair[1]], &mut seen).unwrap();
        }
        prop_assert_eq!(seen, expected);
        prop_assert!(decoder.at_frame_boundary());
    }

    #[test]
    fn a_byte_at_a_time_gives_the_same_frames(frames in prop::collection::vec(frame(), 1..3)) {
        let (bytes, expected) = wire(&frames);
        let mut decoder = Decoder::new(MAX_RECORD_BYTES);
        let mut seen = Vec::new();
        for byte in &bytes {
            decode_all(&mut decoder, std::slice::from_ref(byte), &mut seen).unwrap();
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn garbage_never_panics_and_an_error_stays(
        kind in 0_u8..16,
        garbage in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut decoder = Decoder::new(64 * 1024);
        let mut input = vec![kind, 0, 0, 0, 0, 0];
        input.extend(garbage);
        if let Err(error) = decode_all(&mut decoder, &input, &mut Vec::new()) {
            prop_assert_eq!(decoder.decode(&ControlFrame::Accept.encode().unwrap()), Err(error));
        }
    }
}

fn error_of(bytes: &[u8]) -> DecodeError {
    decode_all(&mut Decoder::new(64 * 1024), bytes, &mut Vec::new()).unwrap_err()
}

#[test]
fn unknown_types_and_reserved_bits_are_refused() {
    assert_eq!(error_of(b"GET / HTTP/1.1\r\n"), DecodeError::UnknownType { code: b'G' });
    // The header of a 64-bit length of 2^63.
    assert_eq!(error_of(&(1_u64 << 63).to_be_bytes()), DecodeError::UnknownType { code: 0x80 });
    assert_eq!(error_of(&[2, 0, 0x80, 0, 0, 0, 0, 0]), DecodeError::Reserved { kind: FrameKind::Accept });
    assert_eq!(error_of(&[5, 1, 0, 0, 0, 0, 0, 9]), DecodeError::Reserved { kind: FrameKind::Data });
}

#[test]
fn lengths_beyond_the_bound_are_refused_before_anything_is_kept() {
    for kind in [1, 3, 5, 8, 11, 12, 13] {
        let header = [kind, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let error = error_of(&header);
        assert!(matches!(error, DecodeError::Length { length: 0xffff_ffff, .. }), "{error:?}");
        assert!(error.to_string().contains("4294967295 bytes"), "{error}");
    }
    // Empty DATA frames would cost this end time without progress.
    assert!(matches!(error_of(&data_header(0)), DecodeError::Length { length: 0, .. }));
    // Within the protocol's limit, but above this decoder's.
    let record = ControlFrame::Record(vec![b' '; 70_000]).encode().unwrap();
    assert!(matches!(error_of(&record), DecodeError::Length { length: 70_000, most: 65_536, .. }));
}

#[test]
fn a_message_has_a_sequence_number_and_a_bounded_content() {
    for kind in [11, 13] {
        assert!(matches!(
            error_of(&[kind, 0, 0, 0, 0, 0, 0, 3]),
            DecodeError::Length { length: 3, least: 4, .. }
        ));
        let error = error_of(&[kind, 0, 0, 0, 0, 1, 0, 1]);
        assert!(matches!(error, DecodeError::Length { length: 65_537, most: 65_536, .. }), "{error}");
    }
    let message = MessageFrame { sequence: 7, content: vec![1, 2] };
    assert_eq!(ControlFrame::Message(message).encode().unwrap(), [11, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 7, 1, 2]);
    let long = MessageFrame { sequence: 0, content: vec![0; 65_533] };
    assert!(matches!(
        ControlFrame::Answer(long).encode(),
        Err(DecodeError::Length { kind: FrameKind::Answer, .. })
    ));
}

#[test]
fn counts_of_2_to_the_63_are_refused() {
    let mut done = ControlFrame::Done { bytes: 1 }.encode().unwrap();
    done[HEADER_BYTES] = 0x80;
    assert!(matches!(error_of(&done), DecodeError::Malformed { kind: FrameKind::Done, .. }));
    let mut end = ControlFrame::End(EndFrame { bytes: 0, elapsed_ns: 0, cut_short: false }).encode().unwrap();
    end[HEADER_BYTES] = 0x80;
    assert!(matches!(error_of(&end), DecodeError::Malformed { kind: FrameKind::End, .. }));
}

#[test]
fn a_hello_without_the_magic_is_refused() {
    let mut hello =
        ControlFrame::Hello(HelloFrame::new(TestId([7; 16]), 0, b"{}".to_vec())).encode().unwrap();
    hello[HEADER_BYTES] ^= 1;
    assert_eq!(error_of(&hello), DecodeError::Magic { kind: FrameKind::Hello });
}

#[test]
fn frames_that_a_receiver_would_refuse_are_not_written() {
    let hello = ControlFrame::Hello(HelloFrame::new(TestId([7; 16]), 0, vec![b' '; 65_536]));
    assert!(matches!(hello.encode(), Err(DecodeError::Length { kind: FrameKind::Hello, .. })));
    let refusal = TestRefusal::new(RefusalCode::Limit, "ü".repeat(10_000), None);
    assert!(ControlFrame::Refuse(refusal).encode().is_ok());
}

#[test]
fn a_refusal_is_one_short_line_whatever_the_peer_wrote() {
    let json = serde_json::json!({ "code": "busy", "message": format!("\u{1b}[2Jno\r\n\u{202e}{}", "x".repeat(2000)) });
    let json = json.to_string().into_bytes();
    let mut bytes = vec![3, 0, 0, 0];
    bytes.extend((json.len() as u32).to_be_bytes());
    bytes.extend(json);
    let mut seen = Vec::new();
    decode_all(&mut Decoder::new(64 * 1024), &bytes, &mut seen).unwrap();
    let [DecodedEvent::Frame(ControlFrame::Refuse(refusal))] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(refusal.message.starts_with(" [2Jno   x"), "{:?}", refusal.message);
    assert_eq!(refusal.message.chars().count(), 500);
}
