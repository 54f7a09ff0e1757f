//! Bytes as they come off the wire, to one of four readers: the frames of the test protocol, the messages of `ping` and
//! `interactive`, the probes of networks, the packets of a path MTU's examination. The first byte chooses.

use super::{decoder, messages, probes, sizes};

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    match choice % 4 {
        0 => decoder::run(bytes),
        1 => messages::run(bytes),
        2 => probes::run(bytes),
        _ => sizes::run(bytes),
    }
}
