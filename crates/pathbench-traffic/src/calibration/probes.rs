//! Small packets in one direction: their delays, and which were lost.

use super::socket::Arrival;
use super::{CalibrationPlan, OneWayDelays, overhead_bytes};
use crate::datagram::{Family, HEADER_BYTES};
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the probes of one direction take.
const SPAN: Duration = Duration::from_millis(300);

/// The part of the rate that probes may take, as a divisor.
const SHARE: u64 = 10;

/// Fewer would say nothing; where the rate is so low, they take a larger part of it.
const FEWEST: u64 = 8;
const MOST: u64 = 4096;

/// Number and spacing of the probes for a direction of this rate; `None` when no probes are wanted.
pub(super) fn probe_series(plan: &CalibrationPlan, rate_bps: Option<u64>) -> Option<(u32, Duration)> {
    let wire_bits = (HEADER_BYTES as u64 + overhead_bytes(Family::of(plan.far.ip()))) * 8;
    let most = rate_bps.or(plan.probed_bps).map_or(MOST, |rate_bps| {
        let bits = u128::from(rate_bps / SHARE) * SPAN.as_nanos() / 1_000_000_000;
        (u64::try_from(bits).unwrap_or(u64::MAX) / wire_bits).clamp(FEWEST, MOST)
    });
    let count = plan.probes.min(most as u32);
    (count > 0).then(|| (count, SPAN / count))
}

#[derive(Debug, Clone, Default)]
pub(super) struct ProbeTally {
    seen: BTreeSet<u32>,
    arrivals: Vec<ProbeArrival>,
}

#[derive(Debug, Clone, Copy)]
struct ProbeArrival {
    sent: u64,
    /// On the kernel's wall clock.
    stamped: Option<u64>,
    taken: u64,
}

impl ProbeTally {
    /// Takes a probe that was sent at `sent` (nanoseconds) and handed over at `now`; each number counts once.
    pub(super) fn take(&mut self, number: u32, sent: u64, arrival: &Arrival, now: Timestamp) {
        if u64::from(number) < MOST && self.seen.insert(number) {
            self.arrivals.push(ProbeArrival { sent, stamped: arrival.at_ns, taken: now.as_nanos() });
        }
    }

    pub(super) fn received(&self) -> u32 {
        self.arrivals.len() as u32
    }

    /// The kernel's stamps are on the wall clock, which this crate does not read. Its offset to the clock of the test
    /// shows in the arrival that was taken soonest after its stamp: then both were read within microseconds.
    pub(super) fn delays(&self) -> Option<OneWayDelays> {
        let difference = |arrival: &ProbeArrival| {
            arrival.stamped.map(|stamped| i128::from(arrival.taken) - i128::from(stamped))
        };
        let offset = self.arrivals.iter().filter_map(difference).min();
        let delay = |arrival: &ProbeArrival| {
            let at = match (arrival.stamped, offset) {
                (Some(stamped), Some(offset)) => i128::from(stamped) + offset,
                _ => i128::from(arrival.taken),
            };
            let delay = (at - i128::from(arrival.sent)).max(0);
            Duration::from_nanos(u64::try_from(delay).unwrap_or(u64::MAX))
        };
        let mut delays: Vec<Duration> = self.arrivals.iter().map(delay).collect();
        delays.sort_unstable();
        let at = |percent: usize| delays.get((delays.len() * percent).div_ceil(100).max(1) - 1).copied();
        Some(OneWayDelays { min: *delays.first()?, p50: at(50)?, p95: at(95)?, max: *delays.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(probes: u32, probed_bps: Option<u64>) -> CalibrationPlan {
        let address = "10.0.0.1:1".parse().unwrap();
        CalibrationPlan { probes, probed_bps, ..CalibrationPlan::new(address, address, 1500) }
    }

    #[test]
    fn probes_take_at_most_a_tenth_of_the_rate() {
        for (probes, rate_bps, probed_bps, count) in [
            (0, None, None, None),
            (300, None, None, Some(300)),
            (100_000, None, None, Some(4096)),
            (1000, Some(10_000_000), None, Some(457)),
            (100, Some(10_000_000), None, Some(100)),
            (1000, None, Some(1_000_000), Some(45)),
            (1000, Some(10_000), None, Some(8)),
        ] {
            let series = probe_series(&plan(probes, probed_bps), rate_bps);
            assert_eq!(series.map(|(count, _)| count), count, "{probes} {rate_bps:?} {probed_bps:?}");
            if let Some((count, spacing)) = series {
                assert!(spacing * count <= SPAN);
            }
        }
    }

    #[test]
    fn delays_are_on_one_clock_though_the_kernel_stamps_by_another() {
        let wall = 1_700_000_000_000_000_000_u64;
        let mut tally = ProbeTally::default();
        for number in 0..100_u32 {
            let sent = 1_000_000_000 + u64::from(number) * 1_000_000;
            // 20 ms and a little; the receiving thread sleeps up to 5 ms too long.
            let arrived = sent + 20_000_000 + u64::from(number) * 1000;
            let arrival = Arrival { length: 40, segment: 40, at_ns: Some(wall + arrived), drops: 0 };
            let taken = Timestamp::from_nanos(arrived + 10_000 + u64::from(number) % 7 * 700_000);
            tally.take(number, sent, &arrival, taken);
            tally.take(number, sent, &arrival, taken + Duration::from_millis(1));
        }
        assert_eq!(tally.received(), 100);
        let us = |us| Duration::from_micros(us);
        assert_eq!(
            tally.delays(),
            Some(OneWayDelays { min: us(20_010), p50: us(20_059), p95: us(20_104), max: us(20_109) })
        );
    }

    #[test]
    fn without_stamps_the_taking_counts() {
        let mut tally = ProbeTally::default();
        let arrival = Arrival { length: 80, segment: 40, at_ns: None, drops: 0 };
        for number in 0..2 {
            tally.take(number, 5_000_000, &arrival, Timestamp::from_nanos(7_000_000));
        }
        assert_eq!(tally.received(), 2);
        assert_eq!(tally.delays().unwrap().max, Duration::from_millis(2));
        assert_eq!(ProbeTally::default().delays(), None);
    }
}
