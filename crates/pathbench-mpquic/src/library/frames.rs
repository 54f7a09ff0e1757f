//! The STREAM frames (RFC 9000, section 19.8) and ACK frames (section 19.3) of a packet.

use noq_proto::coding::Decodable;
use noq_proto::{PathId, VarInt};
use std::time::Duration;

/// `ack_delay_exponent` of a peer that announces none (RFC 9000, section 18.2); noq announces none.
const ACK_DELAY_EXPONENT: u32 = 3;

/// A STREAM frame without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamFrame {
    pub(super) stream: u64,
    pub(super) offset: u64,
    pub(super) length_bytes: u64,
}

impl StreamFrame {
    pub(super) const fn end(self) -> u64 {
        self.offset.saturating_add(self.length_bytes)
    }
}

/// An ACK or `PATH_ACK` frame without its ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AckFrame {
    /// The path whose packets the frame acknowledges.
    pub(super) path: PathId,
    pub(super) largest: u64,
    /// Time from the arrival of packet `largest` until the peer sent the frame.
    pub(super) delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Stream(StreamFrame),
    Ack(AckFrame),
    /// The payload of a DATAGRAM frame (RFC 9221, section 4).
    Datagram(&'a [u8]),
}

/// The STREAM, ACK and DATAGRAM frames of a decrypted packet, in order. Parsing stops at a truncated frame, and at a frame of an
/// unknown type, since its length is unknown.
pub(super) fn frames(payload: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            match integer(&mut rest)? {
                frame_type @ 0x08..=0x0f => return stream_frame(frame_type, &mut rest).map(Frame::Stream),
                // ACK
                frame_type @ (0x02 | 0x03) => {
                    return ack_frame(PathId::ZERO, frame_type == 0x03, &mut rest).map(Frame::Ack);
                }
                // PATH_ACK
                frame_type @ (0x3e | 0x3f) => {
                    let path = PathId::from(u32::try_from(integer(&mut rest)?).ok()?);
                    return ack_frame(path, frame_type == 0x3f, &mut rest).map(Frame::Ack);
                }
                // DATAGRAM
                frame_type @ (0x30 | 0x31) => {
                    // Without a Length field, the data reaches to the end of the packet.
                    let length = if frame_type == 0x31 { integer(&mut rest)? } else { rest.len() as u64 };
                    let whole = rest;
                    skip_bytes(length, &mut rest)?;
                    return whole.get(..whole.len() - rest.len()).map(Frame::Datagram);
                }
                frame_type => skip(frame_type, &mut rest)?,
            }
        }
        None
    })
}

fn stream_frame(frame_type: u64, rest: &mut &[u8]) -> Option<StreamFrame> {
    let has = |bit: u64| frame_type & bit != 0;
    let stream = integer(rest)?;
    let offset = if has(0x04) { integer(rest)? } else { 0 };
    // Without a Length field, the data reaches to the end of the packet.
    let length_bytes = if has(0x02) { integer(rest)? } else { rest.len() as u64 };
    skip_bytes(length_bytes, rest)?;
    Some(StreamFrame { stream, offset, length_bytes })
}

fn ack_frame(path: PathId, has_ecn: bool, rest: &mut &[u8]) -> Option<AckFrame> {
    let largest = integer(rest)?;
    let delay = Duration::from_micros(integer(rest)?.saturating_mul(1 << ACK_DELAY_EXPONENT));
    let ranges = integer(rest)?;
    // The first range is one integer, each further one a gap and a length.
    skip_integers(ranges.saturating_mul(2).saturating_add(1), rest)?;
    skip_integers(if has_ecn { 3 } else { 0 }, rest)?;
    Some(AckFrame { path, largest, delay })
}

/// Skips the fields of any other frame (RFC 9000, section 19; draft-ietf-quic-multipath, section 4;
/// draft-ietf-quic-ack-frequency, section 4).
fn skip(frame_type: u64, rest: &mut &[u8]) -> Option<()> {
    match frame_type {
        // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK
        0x00 | 0x01 | 0x1e | 0x1f => Some(()),
        // CRYPTO
        0x06 => {
            skip_integers(1, rest)?;
            skip_counted(rest)
        }
        // NEW_TOKEN
        0x07 => skip_counted(rest),
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID, MAX_PATH_ID, PATHS_BLOCKED
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 | 0x3e7a | 0x3e7b => skip_integers(1, rest),
        // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED, PATH_ABANDON, PATH_STATUS_BACKUP, PATH_STATUS_AVAILABLE,
        // PATH_RETIRE_CONNECTION_ID, PATH_CIDS_BLOCKED
        0x05 | 0x11 | 0x15 | 0x3e75..=0x3e77 | 0x3e79 | 0x3e7c => skip_integers(2, rest),
        // RESET_STREAM
        0x04 => skip_integers(3, rest),
        // ACK_FREQUENCY
        0xaf => skip_integers(4, rest),
        // NEW_CONNECTION_ID
        0x18 => skip_new_connection_id(rest),
        // PATH_NEW_CONNECTION_ID
        0x3e78 => {
            skip_integers(1, rest)?;
            skip_new_connection_id(rest)
        }
        // PATH_CHALLENGE, PATH_RESPONSE
        0x1a | 0x1b => skip_bytes(8, rest),
        // CONNECTION_CLOSE
        0x1c | 0x1d => {
            skip_integers(if frame_type == 0x1c { 2 } else { 1 }, rest)?;
            skip_counted(rest)
        }
        _ => None,
    }
}

/// A variable-length integer (RFC 9000, section 16).
fn integer(rest: &mut &[u8]) -> Option<u64> {
    VarInt::decode(rest).ok().map(VarInt::into_inner)
}

fn skip_new_connection_id(rest: &mut &[u8]) -> Option<()> {
    skip_integers(2, rest)?;
    let (length, after) = rest.split_first()?;
    *rest = after;
    skip_bytes(u64::from(*length) + 16, rest)
}

fn skip_integers(count: u64, rest: &mut &[u8]) -> Option<()> {
    // A count that exceeds the packet fails at the end of the packet.
    (0..count).try_for_each(|_| integer(rest).map(drop))
}

fn skip_counted(rest: &mut &[u8]) -> Option<()> {
    let length = integer(rest)?;
    skip_bytes(length, rest)
}

fn skip_bytes(length: u64, rest: &mut &[u8]) -> Option<()> {
    *rest = rest.get(usize::try_from(length).ok()?..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream_frames(payload: &[u8]) -> impl Iterator<Item = StreamFrame> {
        frames(payload).filter_map(|frame| match frame {
            Frame::Stream(frame) => Some(frame),
            Frame::Ack(_) | Frame::Datagram(_) => None,
        })
    }

    fn found(payload: &[u8]) -> Vec<(u64, u64, u64)> {
        stream_frames(payload).map(|frame| (frame.stream, frame.offset, frame.length_bytes)).collect()
    }

    fn others() -> Vec<Vec<u8>> {
        let connection_id = || [&[7, 0, 4][..], &[9; 20]].concat();
        vec![
            vec![0x00; 5],
            vec![0x01],
            vec![0x1e, 0x1f],
            vec![0x02, 0x10, 0x00, 0x02, 0x01, 0x03, 0x04, 0x05, 0x06],
            vec![0x03, 0x10, 0x00, 0x00, 0x01, 0x07, 0x08, 0x09],
            vec![0x3e, 0x02, 0x10, 0x00, 0x01, 0x01, 0x03, 0x04],
            vec![0x3f, 0x02, 0x10, 0x00, 0x00, 0x01, 0x07, 0x08, 0x09],
            vec![0x04, 0x01, 0x02, 0x40, 0x80],
            vec![0x05, 0x01, 0x02],
            vec![0x06, 0x00, 0x03, 0x08, 0x08, 0x08],
            vec![0x07, 0x02, 0x0a, 0x0a],
            vec![0x10, 0x80, 0x00, 0x10, 0x00],
            vec![0x11, 0x00, 0x40, 0xff],
            vec![0x12, 0x04, 0x13, 0x04, 0x14, 0x04, 0x16, 0x04, 0x17, 0x04],
            vec![0x15, 0x00, 0x04],
            [&[0x18][..], &connection_id()].concat(),
            vec![0x19, 0x01],
            [&[0x1a][..], &[8; 8]].concat(),
            [&[0x1b][..], &[8; 8]].concat(),
            vec![0x1c, 0x00, 0x08, 0x02, 0x0a, 0x0a],
            vec![0x1d, 0x00, 0x02, 0x0a, 0x0a],
            vec![0x40, 0xaf, 0x01, 0x02, 0x03, 0x04],
            vec![0x7e, 0x75, 0x01, 0x00],
            vec![0x7e, 0x76, 0x01, 0x00],
            vec![0x7e, 0x77, 0x01, 0x00],
            [&[0x7e, 0x78, 0x01][..], &connection_id()].concat(),
            vec![0x7e, 0x79, 0x01, 0x00],
            vec![0x7e, 0x7a, 0x01],
            vec![0x7e, 0x7b, 0x01],
            vec![0x7e, 0x7c, 0x01, 0x00],
        ]
    }

    #[test]
    fn stream_frames_are_found_behind_every_other_frame() {
        for other in others() {
            let payload = [
                &other[..],
                &[0x0e, 0x04, 0x40, 0x64, 0x02, 0xaa, 0xaa],
                &other,
                &[0x0d, 0x08, 0x05, 1, 2, 3],
            ];
            assert_eq!(found(&payload.concat()), [(4, 100, 2), (8, 5, 3)], "{other:x?}");
        }
    }

    #[test]
    fn acknowledgements_are_found_with_the_path_and_the_delay_that_they_name() {
        let ack = |path: u32, largest, micros| {
            let (path, delay) = (PathId::from(path), Duration::from_micros(micros));
            Frame::Ack(AckFrame { path, largest, delay })
        };
        let payload = [
            &[0x02, 0x10, 0x4c, 0x35, 0x01, 0x01, 0x03, 0x04][..],
            &[0x08 | 0x02, 0x04, 0x01, 0xaa],
            &[0x3f, 0x02, 0x11, 0x00, 0x00, 0x01, 0x07, 0x08, 0x09],
            &[0x3e, 0x01, 0x12, 0x08, 0x00, 0x01],
        ];
        let stream = Frame::Stream(StreamFrame { stream: 4, offset: 0, length_bytes: 1 });
        let payload = payload.concat();
        let found: Vec<_> = frames(&payload).collect();
        assert_eq!(found, [ack(0, 16, 0x0c35 * 8), stream, ack(2, 17, 0), ack(1, 18, 64)]);
        // The longest delay that a frame can name.
        let longest = [&[0x02, 0x10][..], &[0xff; 8], &[0x00, 0x01]].concat();
        assert_eq!(frames(&longest).collect::<Vec<_>>(), [ack(0, 16, u64::MAX)]);
    }

    #[test]
    fn a_frame_with_neither_offset_nor_length_is_the_rest_of_the_packet() {
        assert_eq!(found(&[0x08, 0x04, 1, 2, 3, 4]), [(4, 0, 4)]);
        assert_eq!(found(&[0x09, 0x04]), [(4, 0, 0)], "FIN alone");
    }

    #[test]
    fn datagrams_are_found_with_and_without_a_length() {
        let payload = [0x31, 0x02, 7, 8, 0x01, 0x31, 0x00, 0x30, 9, 9, 9];
        let found: Vec<_> = frames(&payload).collect();
        assert_eq!(found, [Frame::Datagram(&[7, 8]), Frame::Datagram(&[]), Frame::Datagram(&[9; 3])]);
        assert_eq!(frames(&[0x31, 0x05, 1, 2]).count(), 0, "longer than the packet");
    }

    #[test]
    fn a_heartbeat_and_an_mtu_probe_carry_no_stream_data() {
        assert_eq!(found(&[0x01]), []);
        let mut probe = vec![0x01, 0x1f];
        probe.resize(1400, 0x00);
        assert_eq!(found(&probe), []);
    }

    proptest! {
        #[test]
        fn any_payload_is_survived_and_no_frame_is_longer_than_it(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let total: u64 = stream_frames(&payload).map(|frame| frame.length_bytes).sum();
            prop_assert!(total <= payload.len() as u64);
        }
    }
}
