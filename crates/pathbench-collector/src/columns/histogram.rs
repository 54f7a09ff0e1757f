//! Counts of buckets of both signs: distributions that add up.

use crate::facts::Bucket;
use crate::facts::bucket::BUCKETS;

/// The distribution of a figure over results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Negative buckets from the furthest to the nearest, then the others.
    counts: Vec<u32>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 2 * BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Absent figures do not count.
    #[inline]
    pub fn add(&mut self, bucket: Bucket) {
        if bucket.is_present() {
            let index =
                if bucket.is_negative() { BUCKETS - 1 - bucket.index() } else { BUCKETS + bucket.index() };
            if let Some(count) = self.counts.get_mut(index) {
                *count += 1;
                self.total += 1;
            }
        }
    }

    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The middle of each bucket with its count, from the lowest.
    pub fn entries(&self) -> impl Iterator<Item = (f64, u64)> {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(index, count)| {
            let value = if index < BUCKETS {
                Bucket((BUCKETS - 1 - index) as u16).value().map(|value| -value)
            } else {
                Bucket((index - BUCKETS) as u16).value()
            };
            (value.unwrap_or_default(), u64::from(*count))
        })
    }

    /// The lowest value with at least the part `q` of all values at or below it.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = ((self.total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        self.entries().find_map(|(value, count)| {
            below += count;
            (below >= wanted).then_some(value)
        })
    }

    /// Values, each with the part of all values up to it.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let of = |(value, count): (f64, u64)| {
            below += count;
            (value, below as f64 / self.total as f64)
        };
        self.entries().map(of).collect()
    }

    /// The part of all values that `is_wanted` accepts; `None` without values.
    pub fn part(&self, is_wanted: impl Fn(f64) -> bool) -> Option<f64> {
        let wanted: u64 = self.entries().filter(|(value, _)| is_wanted(*value)).map(|(_, count)| count).sum();
        (self.total > 0).then(|| wanted as f64 / self.total as f64)
    }
}
