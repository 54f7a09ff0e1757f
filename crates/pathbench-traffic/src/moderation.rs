//! Rests of a fast receiver, as a network card moderates its interrupts: a receiver that waits for each packet is woken
//! for each, which costs more processor time than the data.

use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Time of one rest. What a receiver reports about its bytes is late by at most this, and by the wake-up after it.
pub const REST: Duration = Duration::from_micros(100);

/// A stream is fast when this much arrives within [`FAST_TIME`]: above 2.1 Gbit/s. Slower ones are never delayed.
const FAST_BYTES: usize = 128 * 1024;
const FAST_TIME: Duration = Duration::from_micros(500);

/// Decides when the receiver of one stream rests: when the stream is fast and the socket is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiveModeration {
    /// Begin of the time in which `bytes` arrived.
    since: Option<Timestamp>,
    bytes: usize,
}

impl ReceiveModeration {
    /// The end of the rest after `count` bytes that were received at `now`; `emptied` if no more waited in the socket.
    pub fn rest(&mut self, now: Timestamp, count: usize, emptied: bool) -> Option<Timestamp> {
        let is_recent = self.since.is_some_and(|since| now.duration_since(since) <= FAST_TIME);
        self.bytes += count;
        let rests = is_recent && emptied && self.bytes >= FAST_BYTES;
        if rests || !is_recent {
            *self = Self { since: Some(now), bytes: 0 };
        }
        rests.then(|| now + REST)
    }
}
