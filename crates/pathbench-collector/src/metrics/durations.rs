//! Durations that are counted as they occur.

use super::Buckets;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in milliseconds: from a page in memory to a submission that waits for the writer (30 s).
const BOUNDS_MS: [u64; 14] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];

#[derive(Debug, Default)]
pub struct Durations {
    /// By the first bound that holds; the last one is for longer durations.
    counts: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    pub fn add(&self, duration: Duration) {
        let holds = |bound: &u64| duration <= Duration::from_millis(*bound);
        let index = BOUNDS_MS.iter().position(holds).unwrap_or(BOUNDS_MS.len());
        self.counts[index].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub fn buckets(&self) -> Buckets {
        let mut count = 0;
        let mut bounds = Vec::with_capacity(BOUNDS_MS.len());
        for (bound, of_bound) in BOUNDS_MS.iter().zip(&self.counts) {
            count += of_bound.load(Relaxed);
            bounds.push((*bound as f64 / 1e3, count));
        }
        count += self.counts[BOUNDS_MS.len()].load(Relaxed);
        Buckets { bounds, sum: self.sum_us.load(Relaxed) as f64 / 1e6, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_its_bucket_and_all_wider_ones() {
        let durations = Durations::default();
        for micros in [1_000, 1_001, 40_000_000] {
            durations.add(Duration::from_micros(micros));
        }
        let buckets = durations.buckets();
        assert_eq!(buckets.bounds[..2], [(0.001, 1), (0.002, 2)]);
        assert_eq!(buckets.bounds.last(), Some(&(30.0, 2)));
        assert_eq!((buckets.count, buckets.sum), (3, 40.002_001));
    }
}
