//! Sending a train, and metering one.

use super::datagram::{Arrival, DatagramSocket};
use super::message::{Kind, MESSAGE_BYTES, Message};
use super::{ETHERNET_BYTES, RateMeter, SequenceMeter, header_bytes};
use pathbench_record::time::Clock;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Datagrams of one system call (linux/udp.h: `UDP_MAX_SEGMENTS` was 64 before 6.9), and their bytes.
const MOST_SEGMENTS: u64 = 44;
const MOST_BATCH_BYTES: u64 = 65_000;

/// At a lower rate, a system call sends not more than this much time of it.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// What a numbered train puts into the queue before it begins: so much that a sender that is held up for a moment does
/// not let the bottleneck run dry.
const HEAD_START: Duration = Duration::from_millis(2);
const HEAD_START_PACKETS: u64 = 4;

/// A train has at least about this many datagrams, if need be smaller ones.
const FEW_DATAGRAMS: u64 = 60;
const SMALLEST_PAYLOAD: u64 = 200;

/// Trains that anyone may ask a responder for.
const MOST_BPS: u64 = 100_000_000_000;
pub(super) const LONGEST: Duration = Duration::from_secs(1);
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
    /// For an emulated link: its packets are numbered, and there is no bucket.
    pub(super) numbered: bool,
}

/// Takes what arrives of a train.
#[derive(Debug, Clone)]
pub(super) enum Meter {
    /// Of a shaper with a token bucket.
    Shaper(RateMeter),
    /// Of an emulated link.
    Emulated(SequenceMeter),
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
        let kind = if self.numbered { Kind::NumberedTrainRequest } else { Kind::TrainRequest };
        self.message(kind, [self.number, self.asked_bps, duration, self.payload_bytes, self.bucket_bytes])
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
            numbered: message.kind == Kind::NumberedTrainRequest,
        };
        let sane = (1000..=MOST_BPS).contains(&asked_bps)
            && train.duration <= LONGEST
            && (MESSAGE_BYTES as u64..=MOST_BATCH_BYTES).contains(&payload_bytes)
            && bucket_bytes <= DEEPEST_BUCKET;
        sane.then_some(train)
    }

    /// What its receiver needs.
    pub(super) fn meter(&self) -> Meter {
        let kind = if self.numbered { Kind::NumberedTrain } else { Kind::Train };
        Meter::for_part(&self.message(kind, self.values()))
    }

    /// Sends it. Blocks for at most about twice its duration.
    pub(super) fn send(&self, socket: &DatagramSocket, to: SocketAddr, clock: &dyn Clock) -> io::Result<()> {
        let wire = self.payload_bytes + overhead_bytes(to);
        let most = (MOST_BATCH_BYTES / self.payload_bytes).clamp(1, MOST_SEGMENTS);
        let in_time = |bps: u64, time: Duration| {
            u64::try_from(u128::from(bps) * time.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX) / wire
        };
        // Empties the bucket, so that what follows passes at the rate and not at the bucket's mercy.
        let fill = if self.numbered {
            in_time(self.asked_bps, HEAD_START).max(HEAD_START_PACKETS)
        } else {
            (self.bucket_bytes + self.bucket_bytes / 20) / wire + 4
        };
        let batch = self.batch(Kind::Fill, most);
        let mut left = fill;
        while left > 0 {
            let count = left.min(most);
            self.send_batch(socket, &batch, count, to)?;
            left -= count;
        }
        let offered = self.asked_bps + self.asked_bps / if self.numbered { 10 } else { 4 };
        let per_batch = in_time(offered, BATCH_TIME).clamp(1, most);
        let total = in_time(offered, self.duration).max(16);
        let mut batch = self.batch(if self.numbered { Kind::NumberedTrain } else { Kind::Train }, per_batch);
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
            if self.numbered {
                self.number_batch(&mut batch, sent, clock.now().as_nanos());
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

    fn values(&self) -> [u64; 5] {
        [self.number, self.asked_bps, 0, 0, self.bucket_bytes]
    }

    /// Writes numbers from `first` on and the time of sending into the packets of a batch.
    fn number_batch(&self, batch: &mut [u8], first: u64, sent_ns: u64) {
        for (packet, number) in batch.chunks_exact_mut(self.payload_bytes as usize).zip(first..) {
            packet[Message::place_of_value(2)].copy_from_slice(&number.to_be_bytes());
            packet[Message::place_of_value(3)].copy_from_slice(&sent_ns.to_be_bytes());
        }
    }

    fn batch(&self, kind: Kind, count: u64) -> Vec<u8> {
        let message = self.message(kind, self.values());
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

impl Meter {
    /// What suits a train of which this is a part.
    pub(super) fn for_part(message: &Message) -> Self {
        let [_, asked_bps, _, _, bucket_bytes] = message.values;
        if message.kind == Kind::NumberedTrain {
            Self::Emulated(SequenceMeter::new(asked_bps, HEAD_START.as_nanos() as u64))
        } else {
            Self::Shaper(RateMeter::new(asked_bps, bucket_bytes))
        }
    }

    /// Meters a batch that arrived.
    pub(super) fn take(&mut self, bytes: &[u8], arrival: &Arrival, clock: &dyn Clock) {
        let overhead = overhead_bytes(arrival.from);
        let at_ns = arrival.at_ns.unwrap_or_else(|| clock.now().as_nanos());
        match self {
            Self::Shaper(rate) => {
                let segments = arrival.length.div_ceil(arrival.segment.max(1)) as u64;
                rate.arrived(at_ns, arrival.length as u64 + segments * overhead, arrival.drops);
            }
            Self::Emulated(rate) => {
                let mut run: Option<(u64, u64, u64)> = None;
                let wire = arrival.segment as u64 + overhead;
                for segment in bytes.chunks_exact(arrival.segment.max(1)) {
                    let Some(Message {
                        kind: Kind::NumberedTrain, values: [_, _, number, sent_ns, _], ..
                    }) = Message::decode(segment)
                    else {
                        continue;
                    };
                    run = match run {
                        Some((first, count, sent)) if first.checked_add(count) == Some(number) => {
                            Some((first, count + 1, sent))
                        }
                        other => {
                            if let Some((first, count, sent)) = other {
                                rate.arrived(first, count, wire, sent, at_ns);
                            }
                            Some((number, 1, sent_ns))
                        }
                    };
                }
                if let Some((first, count, sent)) = run {
                    rate.arrived(first, count, wire, sent, at_ns);
                }
            }
        }
    }

    /// Bits per second; `None` when there is too little to say.
    pub(super) fn rate_bps(&self) -> Option<u64> {
        match self {
            Self::Shaper(rate) => rate.rate_bps(),
            Self::Emulated(rate) => rate.rate_bps(),
        }
    }

    /// Number of arrivals taken.
    pub(super) const fn arrivals(&self) -> u64 {
        match self {
            Self::Shaper(rate) => rate.arrivals(),
            Self::Emulated(rate) => rate.arrivals(),
        }
    }
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
            numbered: false,
        };
        for train in [train, Train { numbered: true, ..train }] {
            assert_eq!(Train::from_request(&train.request()), Some(train));
        }
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
