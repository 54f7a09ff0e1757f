//! Counts of buckets of both signs: distributions that add up.

use crate::facts::Bucket;
use crate::facts::bucket::BUCKETS;

/// Slots for the buckets of one sign.
const HALF: usize = 4096;

const _: () = assert!(BUCKETS <= HALF);

/// The distribution of a figure over results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketHistogram {
    /// By bucket, then by negative bucket. Absent figures are in slot 0, so that counting needs no branch.
    counts: Box<[u32; 2 * HALF]>,
}

#[expect(clippy::large_stack_arrays, reason = "32 KiB; the length of the type saves a check for each value")]
impl Default for BucketHistogram {
    fn default() -> Self {
        Self { counts: Box::new([0; 2 * HALF]) }
    }
}

impl BucketHistogram {
    /// Absent figures do not count.
    #[inline]
    pub fn add(&mut self, bucket: Bucket) {
        let sign = if bucket.is_negative() { HALF } else { 0 };
        self.counts[(bucket.index() & (HALF - 1)) | sign] += 1;
    }

    pub fn total(&self) -> u64 {
        self.entries().map(|(_, count)| count).sum()
    }

    /// The middle of each bucket with its count, from the lowest.
    pub fn entries(&self) -> impl Iterator<Item = (f64, u64)> {
        let slots = (HALF + 1..2 * HALF).rev().chain(1..HALF);
        let used = slots.map(|slot| (slot, self.counts[slot])).filter(|(_, count)| *count > 0);
        used.map(|(slot, count)| {
            let value = Bucket((slot & (HALF - 1)) as u16).value().unwrap_or_default();
            (if slot > HALF { -value } else { value }, u64::from(count))
        })
    }

    /// The lowest value with at least the part `q` of all values at or below it.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = ((self.total() as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        self.entries().find_map(|(value, count)| {
            below += count;
            (below >= wanted).then_some(value)
        })
    }

    /// Values, each with the part of all values up to it.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let (mut below, total) = (0, self.total());
        let of = |(value, count): (f64, u64)| {
            below += count;
            (value, below as f64 / total as f64)
        };
        self.entries().map(of).collect()
    }

    /// The part of all values that `is_wanted` accepts; `None` without values.
    pub fn part(&self, is_wanted: impl Fn(f64) -> bool) -> Option<f64> {
        let wanted: u64 = self.entries().filter(|(value, _)| is_wanted(*value)).map(|(_, count)| count).sum();
        let total = self.total();
        (total > 0).then(|| wanted as f64 / total as f64)
    }
}
