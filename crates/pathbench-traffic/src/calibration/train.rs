//! Sending and metering a train.

use super::plan::{CalibrationPlan, overhead_bytes};
use super::rate::RateMeter;
use super::sequence_meter::SequenceMeter;
use crate::datagram::{
    DatagramKind, DatagramMessage, DatagramSocket, HEADER_BYTES, ReceivedDatagram, Unsent,
};
use pathbench_record::network::AddressFamily;
use pathbench_record::time::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// Datagrams per system call (linux/udp.h: `UDP_MAX_SEGMENTS` was 64 before 6.9), and their bytes.
const MOST_SEGMENTS: u64 = 44;
const MOST_BATCH_BYTES: u64 = 65_000;

/// At lower rates, one system call sends at most this much time of the rate.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// Data queued before a numbered train, to keep the bottleneck busy while the sender is descheduled for a moment.
const HEAD_START: Duration = Duration::from_millis(2);
const HEAD_START_PACKETS: u64 = 4;

/// A train has at least about this many datagrams; at low rates they are smaller.
const FEW_DATAGRAMS: u64 = 60;
const SMALLEST_PAYLOAD: u64 = 200;

const LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketTrain {
    /// Wire rate of the bottleneck to be measured.
    asked_bps: u64,
    duration: Duration,
    pub payload_bytes: u64,
    /// 0: the bottleneck is emulated and has no token bucket.
    bucket_bytes: u64,
}

#[derive(Debug, Clone)]
pub(super) enum TrainMeter {
    TokenBucket(RateMeter),
    Even(SequenceMeter),
}

fn payload_bytes(asked_bps: u64, duration: Duration, mtu_bytes: u32, family: AddressFamily) -> u64 {
    let whole = u128::from(asked_bps) * duration.as_nanos() / 8_000_000_000;
    let share = u64::try_from(whole).unwrap_or(u64::MAX) / FEW_DATAGRAMS;
    let most = (family.udp_payload_bytes(mtu_bytes) as u64).clamp(HEADER_BYTES as u64, MOST_BATCH_BYTES);
    share.saturating_sub(overhead_bytes(family)).clamp(SMALLEST_PAYLOAD.min(most), most)
}

impl PacketTrain {
    /// A train of the direction `from`: 0 is forward, 1 reverse.
    pub(super) fn new(plan: &CalibrationPlan, from: usize, asked_bps: u64, mtu_bytes: u32) -> Self {
        let duration = plan.train.min(LONGEST);
        let bucket_bytes = plan.bucket_bytes.get(from).copied().unwrap_or_default();
        Self {
            asked_bps,
            duration,
            payload_bytes: payload_bytes(
                asked_bps,
                duration,
                mtu_bytes,
                AddressFamily::from_address(plan.far.ip()),
            ),
            bucket_bytes: if plan.emulated { bucket_bytes } else { bucket_bytes.max(1) },
        }
    }

    const fn has_no_bucket(&self) -> bool {
        self.bucket_bytes == 0
    }

    pub(super) fn meter(&self) -> TrainMeter {
        if self.has_no_bucket() {
            TrainMeter::Even(SequenceMeter::new(self.asked_bps, HEAD_START.as_nanos() as u64))
        } else {
            TrainMeter::TokenBucket(RateMeter::new(self.asked_bps, self.bucket_bytes))
        }
    }

    /// Blocks for at most about twice its duration.
    pub(super) fn send(&self, session: u64, socket: &DatagramSocket, clock: &dyn Clock) -> io::Result<()> {
        let wire = self.payload_bytes + overhead_bytes(socket.family);
        let most = (MOST_BATCH_BYTES / self.payload_bytes).clamp(1, MOST_SEGMENTS);
        let in_time = |bps: u64, time: Duration| {
            u64::try_from(u128::from(bps) * time.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX) / wire
        };
        // Empties the bucket, so that the rate and not the bucket's depth limits the train.
        let fill = if self.has_no_bucket() {
            in_time(self.asked_bps, HEAD_START).max(HEAD_START_PACKETS)
        } else {
            (self.bucket_bytes + self.bucket_bytes / 20) / wire + 4
        };
        let batch = self.batch(DatagramKind::Fill, session, most);
        let mut left = fill;
        while left > 0 {
            let count = left.min(most);
            self.send_batch(socket, &batch, count)?;
            left -= count;
        }
        let offered = self.asked_bps + self.asked_bps / if self.has_no_bucket() { 10 } else { 4 };
        let per_batch = in_time(offered, BATCH_TIME).clamp(1, most);
        let total = in_time(offered, self.duration).max(16);
        let mut batch = self.batch(DatagramKind::Train, session, per_batch);
        let start = clock.now();
        let mut sent = 0;
        while sent < total {
            let due_ns = u128::from(sent * wire) * 8_000_000_000 / u128::from(offered);
            let due = start + Duration::from_nanos(due_ns as u64);
            let now = clock.now();
            if now.duration_since(start) > self.duration * 2 {
                break;
            }
            if now < due {
                clock.sleep_until(due);
            }
            if self.has_no_bucket() {
                self.number_batch(&mut batch, sent, clock.now().as_nanos());
            }
            self.send_batch(socket, &batch, per_batch)?;
            sent += per_batch;
        }
        // Three times, because the queue may be full after the train.
        for _ in 0..3 {
            send(socket, &DatagramMessage::new(DatagramKind::TrainEnd, session, 0).encode(0), None)?;
            clock.sleep_until(clock.now() + Duration::from_millis(3));
        }
        Ok(())
    }

    fn number_batch(&self, batch: &mut [u8], first: u64, sent_ns: u64) {
        for (packet, number) in batch.chunks_exact_mut(self.payload_bytes as usize).zip(first..) {
            DatagramMessage::stamp(packet, number as u32, sent_ns);
        }
    }

    fn batch(&self, kind: DatagramKind, session: u64, count: u64) -> Vec<u8> {
        DatagramMessage::new(kind, session, 0).encode(self.payload_bytes as usize).repeat(count as usize)
    }

    fn send_batch(&self, socket: &DatagramSocket, batch: &[u8], count: u64) -> io::Result<()> {
        let bytes = &batch[..(self.payload_bytes * count) as usize];
        send(socket, bytes, (count > 1).then_some(self.payload_bytes as u16))
    }
}

/// Sends one datagram or several. Datagrams dropped by a full queue of this host count as lost.
pub(super) fn send(socket: &DatagramSocket, bytes: &[u8], segment: Option<u16>) -> io::Result<()> {
    match socket.send(bytes, segment, &mut Vec::new()) {
        Ok(()) | Err(Unsent::Full) => Ok(()),
        Err(Unsent::TooLong { .. }) => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
        Err(Unsent::Failed { reason }) => Err(io::Error::other(reason)),
    }
}

impl TrainMeter {
    pub(super) fn take(
        &mut self,
        session: u64,
        bytes: &[u8],
        arrival: &ReceivedDatagram,
        family: AddressFamily,
        now: Timestamp,
    ) {
        let overhead = overhead_bytes(family);
        let at_ns = arrival.at_ns.unwrap_or_else(|| now.as_nanos());
        let is_part =
            |message: &DatagramMessage| message.kind == DatagramKind::Train && message.session == session;
        match self {
            Self::TokenBucket(rate) => {
                // The kernel coalesces datagrams of equal size, also the first of a train with the datagram before it.
                if DatagramMessage::decode(&bytes[..arrival.length]).is_some_and(|message| is_part(&message))
                {
                    let segments = arrival.length.div_ceil(arrival.segment.max(1)) as u64;
                    rate.arrived(at_ns, arrival.length as u64 + segments * overhead, arrival.drops);
                }
            }
            Self::Even(rate) => {
                let wire = arrival.segment as u64 + overhead;
                let messages = arrival.messages(bytes).filter(|(message, _)| is_part(message));
                let packets: Vec<(u64, u64)> =
                    messages.map(|(message, _)| (message.sequence.into(), message.value)).collect();
                for run in packets.chunk_by(|(left, _), (right, _)| left + 1 == *right) {
                    rate.arrived(run[0].0, run.len() as u64, wire, run[0].1, at_ns);
                }
            }
        }
    }

    /// Bits per second; `None` with too few arrivals.
    pub(super) fn rate_bps(&self) -> Option<u64> {
        match self {
            Self::TokenBucket(rate) => rate.rate_bps(),
            Self::Even(rate) => rate.rate_bps(),
        }
    }
}
