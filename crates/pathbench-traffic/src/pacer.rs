//! The rate limit of one client in each direction, for all its tests together.

use pathbench_record::time::Timestamp;
use pathbench_transport::lock;
use std::sync::Mutex;
use std::time::Duration;

/// Unused rate can be made up for by at most this time of it, because threads wake up late.
const CREDIT: Duration = Duration::from_millis(10);

/// Smallest grant, for any number of streams that share the rate: each grant costs a system call.
const LEAST_GRANT_BYTES: usize = 512;

/// Each grant is at most this fraction of the available bytes, so that many streams get small grants.
const PARTS: u64 = 4;

#[derive(Debug)]
pub struct Pacers {
    pub rate_bps: u64,
    pub sent: Pacer,
    pub received: Pacer,
}

/// Grants bytes to the streams of one client in the order of their requests. The token bucket may be overdrawn: a grant
/// is due when its level is no longer negative. In any period, all streams together move at most the bytes that the
/// rate allows plus a burst: twice the credit, and the smallest grant of each stream.
#[derive(Debug)]
pub struct Pacer {
    bucket: Mutex<Bucket>,
}

/// Permission to move `bytes` at `due`. Its drop returns the unused bytes to the bucket.
#[derive(Debug)]
pub struct Grant<'a> {
    pacer: &'a Pacer,
    pub bytes: usize,
    moved: usize,
    pub due: Timestamp,
}

impl Pacers {
    pub fn new(rate_bps: u64) -> Self {
        let pacer = || Pacer { bucket: Mutex::new(Bucket::new(rate_bps)) };
        Self { rate_bps, sent: pacer(), received: pacer() }
    }
}

impl Pacer {
    pub fn grant(&self, now: Timestamp, wanted: usize) -> Grant<'_> {
        let (bytes, due) = lock(&self.bucket).grant(now, wanted);
        Grant { pacer: self, bytes, moved: 0, due }
    }

    /// Charges bytes that had to be moved as a whole. Returns the time when the level is no longer negative.
    pub fn charge(&self, now: Timestamp, bytes: usize) -> Timestamp {
        lock(&self.bucket).charge(now, bytes)
    }

    /// Charges bytes that have arrived, unless it would take longer than `most` until the level is no longer negative;
    /// whether they were charged.
    pub fn charge_within(&self, now: Timestamp, bytes: usize, most: Duration) -> bool {
        lock(&self.bucket).charge_within(now, bytes, most)
    }
}

impl Grant<'_> {
    pub fn spend(mut self, moved: usize) {
        self.moved = moved.min(self.bytes);
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        lock(&self.pacer.bucket).settle(self.bytes, self.moved);
    }
}

/// The bucket of a pacer in bits, and the granted bytes that are not settled yet.
#[derive(Debug)]
struct Bucket {
    bits: TokenBucket,
    outstanding: u64,
}

impl Bucket {
    fn new(rate_bps: u64) -> Self {
        let credit = u128::from(rate_bps) * CREDIT.as_nanos() / 1_000_000_000;
        let credit_bytes = u64::try_from(credit / 8).unwrap_or(u64::MAX / 8);
        let bits =
            TokenBucket { capacity: credit_bytes * 8, ..TokenBucket::full(rate_bps, Timestamp::default()) };
        Self { bits, outstanding: 0 }
    }

    fn grant(&mut self, now: Timestamp, wanted: usize) -> (usize, Timestamp) {
        let free = (self.bits.capacity / 8).saturating_sub(self.outstanding) / PARTS;
        let bytes = usize::try_from(free).unwrap_or(usize::MAX).max(LEAST_GRANT_BYTES).min(wanted);
        self.outstanding += bytes as u64;
        (bytes, self.charge(now, bytes))
    }

    fn charge(&mut self, now: Timestamp, bytes: usize) -> Timestamp {
        self.bits.charge(bytes as i128 * 8, now)
    }

    fn charge_within(&mut self, now: Timestamp, bytes: usize, most: Duration) -> bool {
        // Without a charge, the due time is that of the present debt.
        let is_within = self.charge(now, 0) <= now + most;
        if is_within {
            self.charge(now, bytes);
        }
        is_within
    }

    fn settle(&mut self, granted: usize, moved: usize) {
        self.outstanding = self.outstanding.saturating_sub(granted as u64);
        // The next charge limits the level to the capacity.
        self.bits.level += (granted - moved) as i128 * 8 * UNIT;
    }
}

/// A token bucket with a steady refill rate. The level is in tokens times nanoseconds per second, so that rounding
/// loses nothing; it is negative when more was charged than was available.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    per_second: u64,
    capacity: u64,
    level: i128,
    at: Timestamp,
}

/// One token, in the units of [`TokenBucket::level`].
const UNIT: i128 = 1_000_000_000;

impl TokenBucket {
    /// A full bucket with a capacity of one second's tokens.
    pub fn full(per_second: u64, now: Timestamp) -> Self {
        let per_second = per_second.max(1);
        Self { per_second, capacity: per_second, level: i128::from(per_second) * UNIT, at: now }
    }

    /// A full bucket of `capacity` tokens.
    pub fn with_capacity(per_second: u64, capacity: u64, now: Timestamp) -> Self {
        let bucket = Self::full(per_second, now);
        Self { capacity, level: i128::from(capacity) * UNIT, ..bucket }
    }

    fn refill(&mut self, now: Timestamp) {
        let gained = i128::from(self.per_second) * now.duration_since(self.at).as_nanos() as i128;
        self.level = (self.level + gained).min(i128::from(self.capacity) * UNIT);
        self.at = self.at.max(now);
    }

    /// Takes `units` if they are available.
    pub fn take(&mut self, units: u64, now: Timestamp) -> bool {
        self.refill(now);
        let cost = i128::from(units) * UNIT;
        let allowed = self.level >= cost;
        self.level -= if allowed { cost } else { 0 };
        allowed
    }

    /// Takes `units` even if they are not available; returns the time when the level is no longer negative.
    pub fn charge(&mut self, units: i128, now: Timestamp) -> Timestamp {
        self.refill(now);
        self.level -= units * UNIT;
        let debt = self.level.min(0).unsigned_abs();
        let nanos = debt.div_ceil(u128::from(self.per_second));
        now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(crate) fn last_use(&self) -> Timestamp {
        self.at
    }
}
