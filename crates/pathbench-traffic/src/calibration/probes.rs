//! Small packets in one direction: their delays and losses.

use super::plan::{CalibrationPlan, OneWayDelays, overhead_bytes};
use crate::datagram::HEADER_BYTES;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

const SPAN: Duration = Duration::from_millis(300);

const SHARE: u64 = 10;

/// Smallest useful sample. At very low rates, these probes take more than a tenth of the rate.
const FEWEST: u64 = 8;
const MOST: u64 = 4096;

/// Number and spacing of the probes for a direction of this rate; `None` when no probes are wanted.
pub(super) fn probe_series(plan: &CalibrationPlan, rate_bps: Option<u64>) -> Option<(u32, Duration)> {
    let wire_bits = (HEADER_BYTES as u64 + overhead_bytes(AddressFamily::from_address(plan.far.ip()))) * 8;
    let most = rate_bps.or(plan.probed_bps).map_or(MOST, |rate_bps| {
        let bits = u128::from(rate_bps / SHARE) * SPAN.as_nanos() / 1_000_000_000;
        (u64::try_from(bits).unwrap_or(u64::MAX) / wire_bits).clamp(FEWEST, MOST)
    });
    let count = plan.probes.min(most as u32);
    (count > 0).then(|| (count, SPAN / count))
}

#[derive(Debug, Clone, Default)]
pub struct ProbeTally {
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
    /// Counts a probe that was sent at `sent` (nanoseconds), timestamped by the kernel and read at `now`. Each number
    /// counts once.
    pub fn take(&mut self, number: u32, sent: u64, stamped: Option<u64>, now: Timestamp) {
        if u64::from(number) < MOST && self.seen.insert(number) {
            self.arrivals.push(ProbeArrival { sent, stamped, taken: now.as_nanos() });
        }
    }

    pub fn received_probes(&self) -> u32 {
        self.arrivals.len() as u32
    }

    /// The kernel's timestamps are on the wall clock, which this crate does not read. The offset to the test's clock is
    /// taken from the arrival with the shortest time from timestamp to read: both clocks were read within microseconds.
    pub fn delays(&self) -> Option<OneWayDelays> {
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
