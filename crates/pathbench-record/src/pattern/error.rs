//! The bounds that patterns have in common, and the parameters that violate one.

use crate::datagram::{
    DATAGRAM_HEADER_BYTES, MAX_DATAGRAM_PATHS, MAX_DATAGRAMS, MAX_FRAME_BYTES, MAX_FRAMES_PER_SECOND,
    MAX_PACKET_BYTES,
};
use crate::text::duration;
use std::time::Duration;
use thiserror::Error;

pub const MAX_STREAMS: u32 = 128;

/// Smallest body of a message: its sequence number.
pub const MIN_MESSAGE_BYTES: usize = 4;

/// Largest body of a message; a receiver holds one of them in memory.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Limit of the messages of one side in one test: their records must fit into a RECORD frame.
pub const MAX_MESSAGES: u32 = 36_000;

/// Largest number of a processor: that of the kernel's `cpu_set_t`.
pub const MAX_PROCESSOR: u32 = 1023;

/// Longest wait for the last datagrams.
pub(super) const LONGEST_LINGER: Duration = Duration::from_secs(60);

pub(super) const SHORTEST: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    #[error("{given} parallel streams: a test has 1 to {MAX_STREAMS}")]
    Streams { given: u32 },
    #[error("a test of no duration or no bytes measures nothing; ask for at least 1 ms or 1 byte per stream")]
    Nothing,
    #[error("a rate of {given} bit/s over {streams} streams: each stream needs at least 8 kbit/s")]
    Rate { given: u64, streams: u32 },
    #[error("a ping of no requests measures nothing; ask for at least 1")]
    NoRequest,
    #[error("{given} messages in one test: at most {most} are possible")]
    Messages { given: u32, most: u32 },
    #[error("messages of {given} bytes: {least} to {most} bytes are possible")]
    Message { given: u32, least: u32, most: u32 },
    #[error("an interval of {} between messages: 1 ms is the shortest", duration(*.given))]
    Interval { given: Duration },
    #[error("a timeout of {} for an answer: 1 ms is the shortest", duration(*.given))]
    Timeout { given: Duration },
    #[error("an interval of {} between probes: 20 ms is the shortest", duration(*.given))]
    ProbeInterval { given: Duration },
    #[error("phases in which nothing is measured: `settle` has to be shorter than `load`")]
    Settle,
    #[error("the phase {given} is named twice")]
    PhaseTwice { given: &'static str },
    #[error("blocks of {given} bytes: 64 bytes to 4 MiB are possible")]
    Block { given: u32 },
    #[error("{given} frames per second: 1 to {MAX_FRAMES_PER_SECOND} are possible")]
    FrameRate { given: u32 },
    #[error("frames of {given} bytes: {DATAGRAM_HEADER_BYTES} to {MAX_FRAME_BYTES} bytes are possible")]
    Frame { given: u32 },
    #[error(
        "packets of at most {given} bytes: {DATAGRAM_HEADER_BYTES} to {MAX_PACKET_BYTES} are possible, and no packet of a \
         frame may be smaller than {DATAGRAM_HEADER_BYTES}"
    )]
    Packet { given: u32 },
    #[error("datagrams on {given} paths: 1 to {MAX_DATAGRAM_PATHS} are possible")]
    DatagramPaths { given: u32 },
    #[error("a wait of {} for the last datagrams: at most {} is possible", duration(*.given), duration(LONGEST_LINGER))]
    Linger { given: Duration },
    #[error(
        "{given} datagrams in one test, both directions and all paths together: at most {MAX_DATAGRAMS} can be logged; \
         shorten the duration, or lower the rate"
    )]
    Datagrams { given: u64 },
    #[error("processor {given}: 0 to {MAX_PROCESSOR} are possible")]
    Processor { given: u32 },
}

pub(super) fn block_error(given: u32) -> Option<ParameterError> {
    (!(64..=4 * 1024 * 1024).contains(&given)).then_some(ParameterError::Block { given })
}

pub(super) fn number_error(given: u32) -> Option<ParameterError> {
    (given > MAX_MESSAGES).then_some(ParameterError::Messages { given, most: MAX_MESSAGES })
}

pub(super) fn size_errors(given: [u32; 2]) -> impl Iterator<Item = ParameterError> {
    let (least, most) = (MIN_MESSAGE_BYTES as u32, MAX_MESSAGE_BYTES as u32);
    given
        .into_iter()
        .filter(move |bytes| !(least..=most).contains(bytes))
        .map(move |given| ParameterError::Message { given, least, most })
}
