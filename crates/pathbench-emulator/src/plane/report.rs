//! Reports of the data plane about a link.

use crate::packet::PipeStatistics;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a link has done since it began or was restarted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkReport {
    pub directions: [DirectionReport; 2],
    /// Why the capture is not complete, if it is not.
    pub capture_error: Option<String>,
}

/// What one way of a link has done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectionReport {
    pub statistics: PipeStatistics,
    /// Time by which packets left later than the model's times.
    pub lateness: Lateness,
    /// Wire packets that the pipe delivered and the far device did not take, because it was down or the packet no
    /// longer made sense (a bit of its IP version was flipped).
    pub refused_packets: u64,
    /// Packets that overran the sending device's queue, because they were not read in time; a GSO packet counts once. By
    /// the kernel's counter.
    pub overrun_packets: u64,
    /// Every 100 ms, where something differs from the sample before.
    pub series: Vec<QueueSample>,
    /// Length of the IP packet in bytes → wire packets put in, whatever became of them.
    pub offered_sizes: BTreeMap<u32, u64>,
}

/// The state of one way of a link at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSample {
    pub at: Timestamp,
    pub queue_bytes: u64,
    pub queue_packets: u64,
    /// Put in since the beginning, overhead included.
    pub offered_bytes: u64,
    /// Left by the far end since the beginning, overhead included.
    pub delivered_bytes: u64,
    /// Dropped since the beginning, whatever the cause.
    pub dropped_packets: u64,
    /// The rate in force; `None` where it is unlimited or made of opportunities.
    pub rate_bps: Option<u64>,
    /// The probability of loss in force; `None` where it depends on the packet before.
    pub loss: Option<f64>,
    pub delay: Duration,
}

/// Each power of two has this many buckets, so a percentile is at most 1/32 too high.
const BUCKETS_BITS: u32 = 5;
const BUCKETS: usize = 1 << BUCKETS_BITS;

/// Time by which packets left later than the model's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    pub count: u64,
    /// Half of them were not later than this; like all percentiles at most 1/32 above the true value.
    pub p50: Duration,
    /// 90 % were not later.
    pub p90: Duration,
    /// 99 % were not later.
    pub p99: Duration,
    /// 99.9 % were not later.
    pub p999: Duration,
    /// The latest, exactly.
    pub max: Duration,
}

#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max_nanos: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; (64 - BUCKETS_BITS as usize + 1) * BUCKETS], count: 0, max_nanos: 0 }
    }

    pub(super) fn add(&mut self, lateness: Duration, times: u64) {
        let nanos = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += times;
        }
        self.count += times;
        self.max_nanos = self.max_nanos.max(nanos);
    }

    pub(super) fn lateness(&self) -> Lateness {
        Lateness {
            count: self.count,
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: Duration::from_nanos(self.max_nanos),
        }
    }

    /// The upper bound of the bucket that holds the packet of this rank, but never more than the largest.
    fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.count as f64).ceil() as u64;
        let mut passed = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            passed += count;
            if passed >= rank && passed > 0 {
                return Duration::from_nanos(largest(bucket).min(self.max_nanos));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a number of nanoseconds: below 32 one each, then 32 for each power of two.
fn bucket(nanos: u64) -> usize {
    if nanos < BUCKETS as u64 {
        return nanos as usize;
    }
    let octave = nanos.ilog2() - BUCKETS_BITS;
    let within = (nanos >> octave) as usize & (BUCKETS - 1);
    (octave as usize + 1) * BUCKETS + within
}

fn largest(bucket: usize) -> u64 {
    let (octave, within) = (bucket / BUCKETS, (bucket % BUCKETS) as u64);
    if octave == 0 {
        return within;
    }
    let width = 1_u64 << (octave - 1);
    ((BUCKETS as u64 + within) << (octave - 1)) + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_thousand_and_one() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.lateness(), Lateness::default());
        for micros in 0..=1_000 {
            histogram.add(Duration::from_micros(micros), 1);
        }
        let lateness = histogram.lateness();
        assert_eq!((lateness.count, lateness.max), (1_001, Duration::from_millis(1)));
        for (found, true_micros) in
            [(lateness.p50, 500.0), (lateness.p90, 900.0), (lateness.p99, 990.0), (lateness.p999, 999.0)]
        {
            let micros = found.as_secs_f64() * 1e6;
            assert!(micros >= true_micros && micros <= true_micros * (1.0 + 1.0 / 32.0), "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_numbers_and_is_narrow(nanos: u64) {
            let upper = largest(bucket(nanos));
            prop_assert!(upper >= nanos);
            prop_assert!(upper - nanos <= nanos / 32);
            prop_assert_eq!(bucket(upper), bucket(nanos));
        }
    }
}
