//! The rules for the parameters of `datagrams`.

use super::error::{LONGEST_LINGER, ParameterError};
use crate::datagram::{
    DATAGRAM_HEADER_BYTES, DatagramsParameters, MAX_DATAGRAM_PATHS, MAX_DATAGRAMS, MAX_FRAME_BYTES,
    MAX_FRAMES_PER_SECOND, MAX_PACKET_BYTES,
};

pub(super) fn errors(datagrams: &DatagramsParameters) -> Vec<ParameterError> {
    let mut wrong = Vec::new();
    let &DatagramsParameters { frames_per_second, frame_bytes, packet_bytes, paths, .. } = datagrams;
    if !(1..=MAX_FRAMES_PER_SECOND).contains(&frames_per_second) {
        wrong.push(ParameterError::FrameRate { given: frames_per_second });
    }
    let packets = DATAGRAM_HEADER_BYTES..=MAX_PACKET_BYTES;
    if !packets.contains(&packet_bytes) {
        wrong.push(ParameterError::Packet { given: packet_bytes });
    }
    if !(DATAGRAM_HEADER_BYTES..=MAX_FRAME_BYTES).contains(&frame_bytes) {
        wrong.push(ParameterError::Frame { given: frame_bytes });
    } else if packets.contains(&packet_bytes)
        && frame_bytes / datagrams.packets_per_frame().max(1) < DATAGRAM_HEADER_BYTES
    {
        wrong.push(ParameterError::Packet { given: packet_bytes });
    }
    if !(1..=MAX_DATAGRAM_PATHS).contains(&paths) {
        wrong.push(ParameterError::DatagramPaths { given: paths });
    }
    if datagrams.linger > LONGEST_LINGER {
        wrong.push(ParameterError::Linger { given: datagrams.linger });
    }
    let given = datagrams.datagrams_in_all();
    if wrong.is_empty() && given > MAX_DATAGRAMS {
        wrong.push(ParameterError::Datagrams { given });
    }
    wrong
}
