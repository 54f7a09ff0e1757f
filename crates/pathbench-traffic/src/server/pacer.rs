//! A bound on the rate of what one client sends and receives, over all its tests.

use crate::stream::lock;
use pathbench_record::time::Timestamp;
use std::sync::Mutex;
use std::time::Duration;

/// One bound for each direction.
#[derive(Debug)]
pub(crate) struct Pacers {
    rate_bps: u64,
    sent: Mutex<Pacer>,
    received: Mutex<Pacer>,
}

impl Pacers {
    /// At most `rate_bps` bits of payload per second in each direction.
    pub(crate) fn new(rate_bps: u64) -> Self {
        Self { rate_bps, sent: Mutex::default(), received: Mutex::default() }
    }

    /// The bound.
    pub(crate) fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// `bytes` were sent: when more may be.
    pub(crate) fn sent(&self, now: Timestamp, bytes: usize) -> Timestamp {
        lock(&self.sent).charge(now, bytes, self.rate_bps)
    }

    /// `bytes` were received: when more may be. Until then the transport's own flow control holds the sender back.
    pub(crate) fn received(&self, now: Timestamp, bytes: usize) -> Timestamp {
        lock(&self.received).charge(now, bytes, self.rate_bps)
    }
}

/// The moment up to which everything is paid for. Time that was not used is not made up for.
#[derive(Debug, Default)]
struct Pacer {
    paid_until: Timestamp,
}

impl Pacer {
    fn charge(&mut self, now: Timestamp, bytes: usize, rate_bps: u64) -> Timestamp {
        let nanos = bytes as u128 * 8 * 1_000_000_000 / u128::from(rate_bps.max(1));
        let price = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.paid_until = self.paid_until.max(now) + price;
        self.paid_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_users_together_do_not_exceed_the_rate() {
        // 8 Mbit/s are 1000 bytes a millisecond.
        let pacers = Pacers::new(8_000_000);
        let ms = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        assert_eq!(pacers.sent(ms(10), 5000), ms(15));
        assert_eq!(pacers.sent(ms(11), 5000), ms(20));
        // The other direction is free.
        assert_eq!(pacers.received(ms(11), 1000), ms(12));
        // A pause is not made up for.
        assert_eq!(pacers.sent(ms(100), 1000), ms(101));
        assert!(pacers.sent(ms(u64::MAX / 1_000_000), usize::MAX) > ms(101));
    }
}
