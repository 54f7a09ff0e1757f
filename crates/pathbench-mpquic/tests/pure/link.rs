//! A link between the two hosts of a simulation: the model that the emulator applies, too.

use pathbench_link::packet::{Ecn, Fate, PacketFlow, PipePacket};
use pathbench_link::pipe::{Pipe, PipeCondition};
use pathbench_link::{BaseDelay, LinkChange, LinkModel, LossModel, RateModel};
use pathbench_record::time::Timestamp;
use pathbench_record::units::QueueLimit;
use std::time::Duration;

const IP_AND_UDP_BYTES: usize = 28;

/// A link of this rate in Mbit/s, with a queue of 50 ms.
pub(super) fn link(megabits: u64, delay_ms: u64) -> LinkModel {
    let rate_bps = megabits * 1_000_000;
    LinkModel {
        rate: RateModel::Constant(rate_bps),
        delay: BaseDelay::Constant(Duration::from_millis(delay_ms)),
        queue: QueueLimit::Bytes(rate_bps / 8 / 20),
        overhead_bytes: 0,
        ..LinkModel::default()
    }
}

pub(super) fn delay_change(delay: Duration) -> LinkChange {
    LinkChange { delay: Some(BaseDelay::Constant(delay)), ..LinkChange::default() }
}

pub(super) fn loss_change(loss: f64) -> LinkChange {
    LinkChange { loss: Some(LossModel::Independent(loss)), ..LinkChange::default() }
}

pub(super) fn mtu_change(mtu_bytes: usize) -> LinkChange {
    LinkChange { mtu_bytes: Some(mtu_bytes as u32), ..LinkChange::default() }
}

/// One direction of a link.
pub(super) struct Wire {
    pub(super) pipe: Pipe<Vec<u8>>,
    /// Longer packets are dropped silently at a hop after the queue.
    pub(super) hop_mtu_bytes: usize,
    /// UDP payload delivered to the other end.
    pub(super) delivered_bytes: u64,
}

impl Wire {
    pub(super) fn new(model: &LinkModel, seed: u64, now: Timestamp) -> Self {
        Self { pipe: Pipe::new(model.clone(), seed, now), hop_mtu_bytes: usize::MAX, delivered_bytes: 0 }
    }

    /// With `cut`, the direction drops all packets silently.
    pub(super) fn set_cut(&mut self, now: Timestamp, cut: bool) {
        self.pipe.set_condition(now, if cut { PipeCondition::Blackhole } else { PipeCondition::Carrying });
    }

    /// The time at which the queue has drained to at most `room`.
    pub(super) fn room_time(&self, now: Timestamp, room: Duration) -> Timestamp {
        let bits = self.pipe.statistics().queue_bytes * 8;
        let rate_bps = self.pipe.model().rate_bps().unwrap();
        let queued = Duration::from_nanos((u128::from(bits) * 1_000_000_000 / u128::from(rate_bps)) as u64);
        now + queued.saturating_sub(room)
    }

    pub(super) fn send(&mut self, now: Timestamp, datagram: Vec<u8>) {
        let ip_bytes = (datagram.len() + IP_AND_UDP_BYTES) as u32;
        let flow = PacketFlow::default();
        self.pipe.offer(now, PipePacket { ip_bytes, segments: 1, ecn: Ecn::NotEct, flow, payload: datagram });
    }

    /// The next datagram that has arrived by `now`.
    pub(super) fn receive(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        // A host can have sent at a later time, up to which the pipe has run.
        while self.pipe.next_deadline().is_some_and(|due| due <= now) {
            let Some(outcome) = self.pipe.poll(now) else { continue };
            let datagram = outcome.packet.payload;
            let arrives = matches!(outcome.fate, Fate::Delivered(_));
            if arrives && datagram.len() + IP_AND_UDP_BYTES <= self.hop_mtu_bytes {
                self.delivered_bytes += datagram.len() as u64;
                return Some(datagram);
            }
        }
        None
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
