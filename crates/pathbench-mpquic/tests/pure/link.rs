//! A link between the two hosts of a simulation.

use pathbench_record::time::Timestamp;
use std::time::Duration;

/// The parameters of a link, the same in both directions.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkModel {
    pub(super) rate_bps: u64,
    pub(super) delay: Duration,
    pub(super) queue_bytes: u64,
    /// Packet loss ratio, 0 to 1.
    pub(super) loss: f64,
    /// Longer UDP payloads are dropped silently, before the queue.
    pub(super) mtu_bytes: usize,
    /// Longer UDP payloads are dropped silently at a hop after the queue.
    pub(super) hop_mtu_bytes: usize,
}

impl LinkModel {
    /// A link of this rate in Mbit/s, with a queue of 50 ms.
    pub(super) const fn new(megabits: u64, delay_ms: u64) -> Self {
        let rate_bps = megabits * 1_000_000;
        Self {
            rate_bps,
            delay: Duration::from_millis(delay_ms),
            queue_bytes: rate_bps / 8 / 20,
            loss: 0.0,
            mtu_bytes: 1472,
            hop_mtu_bytes: usize::MAX,
        }
    }
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) model: LinkModel,
    pub(super) cut: bool,
    busy_until: Timestamp,
    /// UDP payload delivered to the other end.
    pub(super) delivered_bytes: u64,
}

impl Wire {
    pub(super) fn new(model: LinkModel) -> Self {
        Self { model, cut: false, busy_until: Timestamp::default(), delivered_bytes: 0 }
    }

    /// When the queue has drained to at most `room`.
    pub(super) fn has_room_at(&self, room: Duration) -> Timestamp {
        Timestamp::default() + self.busy_until.since(Timestamp::default() + room)
    }

    /// The arrival time of a datagram sent `now`; `None` if it is dropped. `chance` is a random number from 0 to 1.
    pub(super) fn send(&mut self, now: Timestamp, bytes: usize, chance: f64) -> Option<Timestamp> {
        if self.cut || bytes > self.model.mtu_bytes {
            return None;
        }
        let waiting = self.busy_until.since(now);
        let queued = waiting.as_nanos() * u128::from(self.model.rate_bps) / 8_000_000_000;
        if queued + bytes as u128 > u128::from(self.model.queue_bytes) {
            return None;
        }
        let serialisation = Duration::from_nanos(bytes as u64 * 8_000_000_000 / self.model.rate_bps);
        self.busy_until = now + waiting + serialisation;
        if chance < self.model.loss || bytes > self.model.hop_mtu_bytes {
            return None;
        }
        self.delivered_bytes += bytes as u64;
        Some(self.busy_until + self.model.delay)
    }
}

/// Random numbers that are the same in each run (xorshift64*).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number from 0 to 1, excluding 1.
    pub(super) fn roll(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
