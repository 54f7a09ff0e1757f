//! Reports of the data plane about a link, and its errors.

use pathbench_link::packet::PipeStatistics;
use pathbench_record::time::Timestamp;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A request to the data plane was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    #[error("cannot start the thread that moves the packets of emulated links: {source}")]
    Thread { source: std::io::Error },
    #[error("cannot {action} the event descriptor of the emulated links: {errno}")]
    Wake { action: &'static str, errno: Errno },
    #[error("the thread that moves the packets of emulated links has ended; this is a bug in Pathbench")]
    Ended,
    #[error("there is no emulated link with number {link}")]
    NoSuchLink { link: usize },
    #[error(
        "cannot write the capture of link {link} to {path:?}: {source}; check that the directory exists and the disk has free space"
    )]
    Capture { link: String, path: PathBuf, source: std::io::Error },
}

/// The report of a link since it began or was restarted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkReport {
    pub directions: [DirectionReport; 2],
    /// The reason why the capture is incomplete, if it is.
    pub capture_error: Option<String>,
}

/// The report of one direction of a link.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectionReport {
    pub statistics: PipeStatistics,
    pub lateness: Lateness,
    /// Wire packets that the pipe delivered and the far device rejected, because the device was down or the packet was
    /// invalid (a bit error in its IP version).
    pub refused_packets: u64,
    /// Packets that overran the sending device's queue, because they were not read in time (the kernel's counter); a
    /// GSO packet counts once.
    pub overrun_packets: u64,
    /// One sample every 100 ms, if a value differs from the previous sample.
    pub series: Vec<QueueSample>,
    /// Length of the IP packet in bytes → wire packets offered, delivered or not.
    pub offered_sizes: BTreeMap<u32, u64>,
}

/// The state of one direction of a link at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSample {
    pub at: Timestamp,
    pub queue_bytes: u64,
    pub queue_packets: u64,
    /// Offered since the start, overhead included.
    pub offered_bytes: u64,
    /// Delivered since the start, overhead included.
    pub delivered_bytes: u64,
    /// Dropped since the start, by all causes.
    pub dropped_packets: u64,
    /// The current rate; `None` if it is unlimited or consists of delivery opportunities.
    pub rate_bps: Option<u64>,
    /// The current loss probability; `None` if it depends on the previous packet.
    pub loss: Option<f64>,
    pub delay: Duration,
}

/// Each power of two has this many buckets, so a percentile is at most 1/32 too high.
const BUCKETS_BITS: u32 = 5;
const BUCKETS: usize = 1 << BUCKETS_BITS;

/// Actual departure time of packets minus the departure time of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    pub count: u64,
    /// The median. All percentiles are at most 1/32 above the true value.
    pub p50: Duration,
    pub p90: Duration,
    pub p99: Duration,
    /// The 99.9th percentile.
    pub p999: Duration,
    /// The exact maximum.
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

    /// The upper bound of the bucket with this quantile, but at most the maximum.
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

/// The bucket of a number of nanoseconds: one bucket for each number below 32, then 32 for each power of two.
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
