//! A bound on the rate of what one client sends and receives, over all its tests.

use crate::stream::lock;
use pathbench_record::time::Timestamp;
use std::sync::Mutex;
use std::time::Duration;

/// Rate that was not used is made up for by at most this much of it. Threads wake up late.
const CREDIT: Duration = Duration::from_millis(10);

/// A grant is no smaller than this, however many streams share the rate: each costs a system call.
const LEAST_GRANT_BYTES: usize = 512;

/// Each grant is at most this part of what may still be granted, so that many streams get small ones.
const PARTS: u64 = 4;

#[derive(Debug)]
pub(crate) struct Pacers {
    rate_bps: u64,
    pub(crate) sent: Pacer,
    pub(crate) received: Pacer,
}

/// Grants bytes to the streams of one client, in the order in which they ask. A token bucket that may be overdrawn: a
/// grant is due once the bucket is no longer so. In no period do all streams together move more than the rate allows,
/// plus a burst: twice the credit, and the least grant of each stream.
#[derive(Debug)]
pub(crate) struct Pacer {
    bucket: Mutex<Bucket>,
}

/// So many bytes may be moved, once they are due. What was not moved when this is dropped is given back.
#[derive(Debug)]
pub(crate) struct Grant<'a> {
    pacer: &'a Pacer,
    bytes: usize,
    moved: usize,
    due: Timestamp,
}

impl Pacers {
    pub(crate) fn new(rate_bps: u64) -> Self {
        Self { rate_bps, sent: Pacer::new(rate_bps), received: Pacer::new(rate_bps) }
    }

    pub(crate) fn rate_bps(&self) -> u64 {
        self.rate_bps
    }
}

impl Pacer {
    fn new(rate_bps: u64) -> Self {
        Self { bucket: Mutex::new(Bucket::new(rate_bps)) }
    }

    pub(crate) fn grant(&self, now: Timestamp, wanted: usize) -> Grant<'_> {
        let (bytes, due) = lock(&self.bucket).grant(now, wanted);
        Grant { pacer: self, bytes, moved: 0, due }
    }

    /// Charges bytes that had to be moved as a whole: when they are paid for, and further ones may be.
    pub(crate) fn charge(&self, now: Timestamp, bytes: usize) -> Timestamp {
        lock(&self.bucket).charge(now, bytes)
    }
}

impl Grant<'_> {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn due(&self) -> Timestamp {
        self.due
    }

    pub(crate) fn spend(mut self, moved: usize) {
        self.moved = moved.min(self.bytes);
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        lock(&self.pacer.bucket).settle(self.bytes, self.moved);
    }
}

/// The arithmetic, in bits times nanoseconds per second, so that nothing is lost by rounding.
#[derive(Debug)]
struct Bucket {
    rate_bps: u64,
    /// What may be moved at `at`; below zero, what has been granted ahead.
    level: i128,
    at: Timestamp,
    outstanding: u64,
}

/// One byte, in the units of [`Bucket::level`].
const BYTE: i128 = 8_000_000_000;

impl Bucket {
    fn new(rate_bps: u64) -> Self {
        Self { rate_bps: rate_bps.max(1), level: 0, at: Timestamp::default(), outstanding: 0 }
    }

    fn grant(&mut self, now: Timestamp, wanted: usize) -> (usize, Timestamp) {
        let room = self.credit_bytes().saturating_sub(self.outstanding) / PARTS;
        let bytes = usize::try_from(room).unwrap_or(usize::MAX).max(LEAST_GRANT_BYTES).min(wanted);
        self.outstanding += bytes as u64;
        (bytes, self.charge(now, bytes))
    }

    fn charge(&mut self, now: Timestamp, bytes: usize) -> Timestamp {
        if now > self.at {
            let most = i128::from(self.credit_bytes()) * BYTE;
            let gained = i128::from(self.rate_bps) * now.since(self.at).as_nanos() as i128;
            self.level = (self.level + gained).min(most);
            self.at = now;
        }
        self.level -= bytes as i128 * BYTE;
        let debt = self.level.min(0).unsigned_abs();
        let nanos = debt.div_ceil(u128::from(self.rate_bps));
        now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn settle(&mut self, granted: usize, moved: usize) {
        self.outstanding = self.outstanding.saturating_sub(granted as u64);
        // The next charge bounds the level.
        self.level += (granted - moved) as i128 * BYTE;
    }

    fn credit_bytes(&self) -> u64 {
        let bits = u128::from(self.rate_bps) * CREDIT.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// What `streams` streams move at most beyond the rate, in any period.
    fn burst_bytes(rate_bps: u64, streams: usize) -> u64 {
        2 * Bucket::new(rate_bps).credit_bytes() + (streams * LEAST_GRANT_BYTES) as u64
    }

    #[derive(Debug, Clone, Copy)]
    struct Habits {
        wanted: usize,
        moves: usize,
        /// From a grant's time to the move (a socket that blocks), and from there to the next question.
        holds_us: u64,
        rests_us: u64,
    }

    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Act {
        Ask,
        Move,
    }

    /// The moves of all streams in virtual time, in order: when, which stream, how many bytes.
    fn simulate(rate_bps: u64, streams: &[Habits], span: Duration) -> Vec<(Timestamp, usize, u64)> {
        let mut bucket = Bucket::new(rate_bps);
        let mut moves = Vec::new();
        let mut granted = vec![0; streams.len()];
        let micros = |us: u64| Duration::from_micros(us);
        let begin = Timestamp::from_nanos(1_000_000_000);
        let mut agenda: BinaryHeap<_> =
            (0..streams.len()).map(|stream| Reverse((begin, Act::Ask, stream))).collect();
        while let Some(Reverse((now, act, stream))) = agenda.pop() {
            if now > begin + span {
                break;
            }
            let habits = streams[stream];
            match act {
                Act::Ask => {
                    let (bytes, due) = bucket.grant(now, habits.wanted);
                    granted[stream] = bytes;
                    agenda.push(Reverse((due + micros(habits.holds_us), Act::Move, stream)));
                }
                Act::Move => {
                    let bytes = granted[stream] * habits.moves / 100;
                    bucket.settle(granted[stream], bytes);
                    moves.push((now, stream, bytes as u64));
                    // A move takes a little, or a stream that moves nothing would never let time pass.
                    agenda.push(Reverse((now + micros(habits.rests_us.max(1)), Act::Ask, stream)));
                }
            }
        }
        moves
    }

    fn worst_excess(rate_bps: u64, moves: &[(Timestamp, usize, u64)]) -> i128 {
        // Kadane's algorithm: the excess of the worst period that ends with this move.
        let (mut worst, mut excess, mut before) = (0, 0_i128, None::<Timestamp>);
        for &(at, _, bytes) in moves {
            let passed = before.map_or(0, |before| at.since(before).as_nanos() as i128);
            excess = (excess - passed * i128::from(rate_bps)).max(0) + i128::from(bytes) * BYTE;
            worst = worst.max(excess);
            before = Some(at);
        }
        worst / BYTE
    }

    fn habits() -> impl Strategy<Value = Habits> {
        let wanted = prop_oneof![1_usize..2000, Just(131_072), Just(4 * 1024 * 1024)];
        let delay = || prop_oneof![Just(0), 0_u64..200, 0_u64..100_000];
        (wanted, prop_oneof![Just(100_usize), Just(0), 0_usize..=100], delay(), delay())
            .prop_map(|(wanted, moves, holds_us, rests_us)| Habits { wanted, moves, holds_us, rests_us })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_period_has_more_than_rate_and_burst(
            streams in prop::collection::vec(habits(), 1..129),
            rate_bps in prop_oneof![10_000_u64..10_000_000, Just(100_000_000), Just(10_000_000_000)],
        ) {
            let moves = simulate(rate_bps, &streams, Duration::from_millis(500));
            let excess = worst_excess(rate_bps, &moves);
            let most = burst_bytes(rate_bps, streams.len());
            prop_assert!(excess <= i128::from(most), "{excess} bytes beyond the rate, {most} allowed");
        }

        #[test]
        fn greedy_streams_get_all_of_the_rate_in_similar_parts(
            count in 1_usize..129,
            wanted in 512_usize..4_000_000,
            rate_bps in 1_000_000_u64..1_000_000_000,
        ) {
            let habits = Habits { wanted, moves: 100, holds_us: 60, rests_us: 5 };
            let span = Duration::from_secs(2);
            let moves = simulate(rate_bps, &vec![habits; count], span);
            let mut parts = vec![0; count];
            // The first grants of all are larger: no other stream had one yet.
            let settled = Timestamp::from_nanos(1_500_000_000);
            for (_, stream, bytes) in moves.into_iter().filter(|(at, ..)| *at >= settled) {
                parts[stream] += bytes;
            }
            let all: u64 = parts.iter().sum();
            let due = rate_bps * 3 / 2 / 8;
            prop_assert!(all as f64 > 0.95 * due as f64, "{all} of {due} bytes");
            let fair = all as f64 / count as f64;
            let (least, most) = (*parts.iter().min().unwrap() as f64, *parts.iter().max().unwrap() as f64);
            // Grants differ in size; no stream waits for ever, and none takes the rate of another.
            prop_assert!(least > 0.5 * fair && most < 2.0 * fair, "{least} to {most}, not {fair}");
        }
    }

    #[test]
    fn what_is_not_moved_is_given_back_and_each_direction_has_a_bound_of_its_own() {
        // 8 Mbit/s are 1000 bytes a millisecond; the credit is 10,000 bytes.
        let pacers = Pacers::new(8_000_000);
        let ms = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let first = pacers.sent.grant(ms(100), 1_000_000);
        assert_eq!((first.bytes(), first.due()), (2500, ms(100)));
        drop(first);
        let again = pacers.sent.grant(ms(100), 1_000_000);
        assert_eq!((again.bytes(), again.due()), (2500, ms(100)));
        again.spend(2500);
        // A message is sent as a whole, and paid for then.
        assert_eq!(pacers.sent.charge(ms(100), 17_500), ms(110));
        assert_eq!(pacers.sent.grant(ms(100), 1000).due(), ms(111));
        assert_eq!(pacers.received.grant(ms(100), 1000).due(), ms(100));
        // A pause is made up for by the credit alone.
        assert_eq!(pacers.sent.charge(ms(1000), 11_000), ms(1001));
        assert!(pacers.sent.charge(ms(u64::MAX / 1_000_000), usize::MAX) > ms(1001));
    }
}
