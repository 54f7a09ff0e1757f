//! A network on a simulated clock.

use pathbench_record::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// So many milliseconds after the beginning.
pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// One way through a network that stands still now and then: bytes come out in order, `delay` after they went in,
/// and none while it stands still. What its sender may have under way is bounded, as a socket's buffer is.
pub(crate) struct Way {
    delay: Duration,
    /// From, until.
    standstills: Vec<(Timestamp, Timestamp)>,
    buffer_bytes: usize,
    in_flight: VecDeque<(Timestamp, Vec<u8>)>,
}

impl Way {
    pub(crate) fn new(delay: Duration, standstills: &[(u64, u64)], buffer_bytes: usize) -> Self {
        let standstills = standstills.iter().map(|(from, until)| (at(*from), at(*until))).collect();
        Self { delay, standstills, buffer_bytes, in_flight: VecDeque::new() }
    }

    /// How many of `bytes` it takes.
    pub(crate) fn take(&mut self, now: Timestamp, bytes: &[u8]) -> usize {
        let held: usize = self.in_flight.iter().map(|(_, bytes)| bytes.len()).sum();
        let count = bytes.len().min(self.buffer_bytes.saturating_sub(held));
        if count > 0 {
            self.in_flight.push_back((now + self.delay, bytes[..count].to_vec()));
        }
        count
    }

    fn stands_still(&self, now: Timestamp) -> bool {
        self.standstills.iter().any(|(from, until)| (*from..*until).contains(&now))
    }

    pub(crate) fn give(&mut self, now: Timestamp) -> Vec<u8> {
        let mut out = Vec::new();
        while !self.stands_still(now)
            && let Some((due, _)) = self.in_flight.front()
            && *due <= now
        {
            out.extend(self.in_flight.pop_front().unwrap().1);
        }
        out
    }
}
