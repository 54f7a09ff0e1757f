//! Sending a train, and metering one.

use super::datagram::{Arrival, DatagramSocket};
use super::message::{Kind, MESSAGE_BYTES, Message};
use super::{ETHERNET_BYTES, RateMeter, header_bytes};
use pathbench_record::time::Clock;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Datagrams of one system call (linux/udp.h: `UDP_MAX_SEGMENTS` was 64 before 6.9), and their bytes.
const MOST_SEGMENTS: u64 = 44;
const MOST_BATCH_BYTES: u64 = 65_000;

/// At a lower rate, a system call sends not more than this much time of it.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// A train has at least about this many datagrams, if need be smaller ones.
const FEW_DATAGRAMS: u64 = 60;
const SMALLEST_PAYLOAD: u64 = 200;

/// Trains that anyone may ask a responder for.
const MOST_BPS: u64 = 100_000_000_000;
const LONGEST: Duration = Duration::from_millis(500);
const DEEPEST_BUCKET: u64 = 4 * 1024 * 1024;

/// A train to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Train {
    pub(super) session: u64,
    pub(super) cookie: u64,
    pub(super) number: u64,
    /// Wire rate of the bottleneck to be measured.
    pub(super) asked_bps: u64,
    pub(super) duration: Duration,
    pub(super) payload_bytes: u64,
    pub(super) bucket_bytes: u64,
}

/// Wire bytes of a datagram beyond its payload.
pub(super) fn overhead_bytes(address: SocketAddr) -> u64 {
    u64::from(header_bytes(address.ip()) + ETHERNET_BYTES)
}

/// Largest payload that suits the rate and the MTU.
pub(super) fn payload_bytes(asked_bps: u64, duration: Duration, mtu_bytes: u32, to: SocketAddr) -> u64 {
    let whole = u128::from(asked_bps) * duration.as_nanos() / 8_000_000_000;
    let share = u64::try_from(whole).unwrap_or(u64::MAX) / FEW_DATAGRAMS;
    let most = u64::from(mtu_bytes.saturating_sub(header_bytes(to.ip()))).max(MESSAGE_BYTES as u64);
    share.saturating_sub(overhead_bytes(to)).clamp(SMALLEST_PAYLOAD.min(most), most)
}

impl Train {
    /// The request for a train, as sent to a responder.
    pub(super) fn request(&self) -> Message {
        let duration = u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX);
        self.message(
            Kind::TrainRequest,
            [self.number, self.asked_bps, duration, self.payload_bytes, self.bucket_bytes],
        )
    }

    /// The train that a request asks for; `None` when it is beyond all bounds.
    pub(super) fn from_request(message: &Message) -> Option<Self> {
        let [number, asked_bps, duration, payload_bytes, bucket_bytes] = message.values;
        let train = Self {
            session: message.session,
            cookie: message.cookie,
            number,
            asked_bps,
            duration: Duration::from_nanos(duration),
            payload_bytes,
            bucket_bytes,
        };
        let sane = (1000..=MOST_BPS).contains(&asked_bps)
            && train.duration <= LONGEST
            && (MESSAGE_BYTES as u64..=MOST_BATCH_BYTES).contains(&payload_bytes)
            && bucket_bytes <= DEEPEST_BUCKET;
        sane.then_some(train)
    }

    /// What its receiver needs.
    pub(super) fn meter(&self) -> RateMeter {
        RateMeter::new(self.asked_bps, self.bucket_bytes)
    }

    /// Sends it. Blocks for at most about twice its duration.
    pub(super) fn send(&self, socket: &DatagramSocket, to: SocketAddr, clock: &dyn Clock) -> io::Result<()> {
        let wire = self.payload_bytes + overhead_bytes(to);
        let most = (MOST_BATCH_BYTES / self.payload_bytes).clamp(1, MOST_SEGMENTS);
        // Empties the bucket, so that what follows passes at the rate and not at the bucket's mercy.
        let fill = (self.bucket_bytes + self.bucket_bytes / 20) / wire + 4;
        let batch = self.batch(Kind::Fill, most);
        let mut left = fill;
        while left > 0 {
            let count = left.min(most);
            self.send_batch(socket, &batch, count, to)?;
            left -= count;
        }
        let offered = self.asked_bps + self.asked_bps / 4;
        let in_time = |time: Duration| {
            u64::try_from(u128::from(offered) * time.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX) / wire
        };
        let per_batch = in_time(BATCH_TIME).clamp(1, most);
        let total = in_time(self.duration).max(16);
        let batch = self.batch(Kind::Train, per_batch);
        let start = clock.now();
        let mut sent = 0;
        while sent < total {
            let due_ns = u128::from(sent * wire) * 8_000_000_000 / u128::from(offered);
            let due = start + Duration::from_nanos(due_ns as u64);
            let now = clock.now();
            if now.since(start) > self.duration * 2 {
                break;
            }
            if now < due {
                clock.sleep_until(due);
            }
            self.send_batch(socket, &batch, per_batch, to)?;
            sent += per_batch;
        }
        Ok(())
    }

    /// Says that it is over; thrice, because the queue behind it may be full.
    pub(super) fn send_end(
        &self,
        socket: &DatagramSocket,
        to: SocketAddr,
        clock: &dyn Clock,
    ) -> io::Result<()> {
        let end = self.message(Kind::TrainEnd, [self.number, 0, 0, 0, 0]).encode();
        for _ in 0..3 {
            socket.send(&end, to)?;
            clock.sleep_until(clock.now() + Duration::from_millis(3));
        }
        Ok(())
    }

    pub(super) fn message(&self, kind: Kind, values: [u64; 5]) -> Message {
        Message { kind, session: self.session, cookie: self.cookie, values }
    }

    fn batch(&self, kind: Kind, count: u64) -> Vec<u8> {
        let message = self.message(kind, [self.number, self.asked_bps, 0, 0, self.bucket_bytes]);
        message.encode_padded(self.payload_bytes as usize).repeat(count as usize)
    }

    fn send_batch(
        &self,
        socket: &DatagramSocket,
        batch: &[u8],
        count: u64,
        to: SocketAddr,
    ) -> io::Result<()> {
        let bytes = &batch[..(self.payload_bytes * count) as usize];
        let result = if count == 1 {
            socket.send(bytes, to)
        } else {
            socket.send_segments(bytes, self.payload_bytes as u16, to)
        };
        match result {
            // A queue on the own interface is full: lost like anything else of the surplus.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => Ok(()),
            result => result,
        }
    }
}

/// Meters a batch of a train that arrived.
pub(super) fn meter(rate: &mut RateMeter, arrival: &Arrival, clock: &dyn Clock) {
    let segments = arrival.length.div_ceil(arrival.segment.max(1)) as u64;
    let wire = arrival.length as u64 + segments * overhead_bytes(arrival.from);
    let at_ns = arrival.at_ns.unwrap_or_else(|| clock.now().as_nanos());
    rate.arrived(at_ns, wire, arrival.drops);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_fit_the_mtu_and_get_smaller_at_low_rates() {
        let to: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let to6: SocketAddr = "[fd00::1]:1".parse().unwrap();
        let train = Duration::from_millis(150);
        assert_eq!(payload_bytes(1_000_000_000, train, 1500, to), 1472);
        assert_eq!(payload_bytes(1_000_000_000, train, 1500, to6), 1452);
        assert_eq!(payload_bytes(10_000_000_000, train, 9000, to), 8972);
        assert_eq!(payload_bytes(1_000_000, train, 1500, to), 270);
        assert_eq!(payload_bytes(10_000, train, 1500, to), 200);
    }

    #[test]
    fn requests_round_trip_within_bounds_only() {
        let train = Train {
            session: 1,
            cookie: 2,
            number: 3,
            asked_bps: 1_000_000,
            duration: Duration::from_millis(150),
            payload_bytes: 1472,
            bucket_bytes: 262_144,
        };
        assert_eq!(Train::from_request(&train.request()), Some(train));
        for excessive in [
            Train { asked_bps: MOST_BPS + 1, ..train },
            Train { duration: LONGEST * 2, ..train },
            Train { payload_bytes: 1, ..train },
            Train { bucket_bytes: u64::MAX, ..train },
        ] {
            assert_eq!(Train::from_request(&excessive.request()), None);
        }
    }
}
