//! Small packets one way: how long each was under way, and how many got lost.

use super::datagram::Arrival;
use super::message::{Kind, MESSAGE_BYTES, Message};
use super::train::overhead_bytes;
use super::{CalibrationPlan, OneWayDelays, ProbedDirection};
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the probes of one direction take.
const SPAN: Duration = Duration::from_millis(300);
/// The longest that anyone may ask a responder for.
const LONGEST_SPAN: Duration = Duration::from_millis(500);

/// The part of the rate that probes may take, as a divisor.
const SHARE: u64 = 10;

/// Fewer would say nothing; where the rate is so low, they take a larger part of it.
const FEWEST: u64 = 8;
const MOST: u64 = 4096;

/// Probes to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProbeSeries {
    /// Tells a series from one that was asked for before it.
    pub(super) series: u64,
    pub(super) count: u64,
    pub(super) spacing: Duration,
}

impl ProbeSeries {
    /// What suits a direction of this rate; `None` when no probes are wanted.
    pub(super) fn suiting(plan: &CalibrationPlan, rate_bps: Option<u64>) -> Option<Self> {
        let wire_bits = (MESSAGE_BYTES as u64 + overhead_bytes(plan.remote)) * 8;
        let most = rate_bps.or(plan.probed_bps).map_or(MOST, |rate_bps| {
            let bits = u128::from(rate_bps / SHARE) * SPAN.as_nanos() / 1_000_000_000;
            (u64::try_from(bits).unwrap_or(u64::MAX) / wire_bits).clamp(FEWEST, MOST)
        });
        let count = u64::from(plan.probes).min(most);
        (count > 0).then(|| Self { series: 0, count, spacing: SPAN / count as u32 })
    }

    /// The request for it, as values of a message.
    pub(super) fn values(&self) -> [u64; 5] {
        let spacing_ns = u64::try_from(self.spacing.as_nanos()).unwrap_or(u64::MAX);
        [self.series, self.count, spacing_ns, 0, 0]
    }

    /// What a request asks for; `None` when it is beyond all bounds.
    pub(super) fn from_values(values: [u64; 5]) -> Option<Self> {
        let [series, count, spacing_ns, ..] = values;
        let series = Self { series, count, spacing: Duration::from_nanos(spacing_ns) };
        let sane = (1..=MOST).contains(&count)
            && series.spacing <= LONGEST_SPAN
            && series.spacing * count as u32 <= LONGEST_SPAN;
        sane.then_some(series)
    }

    /// From the first probe to one spacing after the last.
    pub(super) fn span(&self) -> Duration {
        self.spacing * self.count as u32
    }
}

/// Which probes of a series arrived, and when.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeTally {
    series: u64,
    seen: BTreeSet<u64>,
    arrivals: Vec<ProbeArrival>,
}

/// Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct ProbeArrival {
    sent: u64,
    /// On the kernel's wall clock.
    stamped: Option<u64>,
    taken: u64,
}

impl ProbeTally {
    pub(super) fn of(series: u64) -> Self {
        Self { series, ..Self::default() }
    }

    /// Takes the probes of an arrival that was handed over at `now`.
    pub(super) fn take(&mut self, bytes: &[u8], arrival: &Arrival, now: Timestamp) {
        for segment in bytes.chunks(arrival.segment.max(1)) {
            let Some(Message { kind: Kind::Probe, values: [series, number, sent, ..], .. }) =
                Message::decode(segment)
            else {
                continue;
            };
            if series == self.series && number < MOST && self.seen.insert(number) {
                self.arrivals.push(ProbeArrival { sent, stamped: arrival.at_ns, taken: now.as_nanos() });
            }
        }
    }

    pub(super) fn received(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// The delays, sorted into figures.
    ///
    /// The kernel's stamps are on the wall clock, which this room does not read. How far that is from the clock of the
    /// test shows in the arrival that was taken soonest after its stamp: then both were read within microseconds.
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

    /// What it comes down to when `sent` were sent.
    pub(super) fn figures(&self, sent: u64) -> ProbedDirection {
        ProbedDirection { sent: sent as u32, received: self.received() as u32, delays: self.delays() }
    }
}

impl OneWayDelays {
    /// As values of a message, in nanoseconds.
    pub(super) fn values(&self) -> [u64; 4] {
        [self.min, self.p50, self.p95, self.max]
            .map(|delay| u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn from_values(values: [u64; 4]) -> Self {
        let [min, p50, p95, max] = values.map(Duration::from_nanos);
        Self { min, p50, p95, max }
    }
}

/// A probe of a series.
pub(super) fn probe(of: &Message, series: u64, number: u64, now: Timestamp) -> [u8; MESSAGE_BYTES] {
    Message { kind: Kind::Probe, values: [series, number, now.as_nanos(), 0, 0], ..*of }.encode()
}

/// Where probes come from.
pub(super) type Source = (SocketAddr, u64);

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
            (1000, Some(10_000_000), None, Some(353)),
            (100, Some(10_000_000), None, Some(100)),
            (1000, None, Some(1_000_000), Some(35)),
            (1000, Some(10_000), None, Some(8)),
        ] {
            let series = ProbeSeries::suiting(&plan(probes, probed_bps), rate_bps);
            assert_eq!(series.map(|series| series.count), count, "{probes} {rate_bps:?} {probed_bps:?}");
            if let Some(series) = series {
                assert!(series.span() <= SPAN);
                assert_eq!(ProbeSeries::from_values(series.values()), Some(series));
            }
        }
    }

    #[test]
    fn nobody_makes_a_responder_send_without_end() {
        for values in [
            [0, 0, 0, 0, 0],
            [0, MOST + 1, 0, 0, 0],
            [0, 2, 300_000_000, 0, 0],
            [0, 1, u64::MAX, 0, 0],
            [0, u64::MAX, u64::MAX, 0, 0],
        ] {
            assert_eq!(ProbeSeries::from_values(values), None, "{values:?}");
        }
    }

    fn message() -> Message {
        Message { kind: Kind::Probe, session: 1, cookie: 2, values: [0; 5] }
    }

    #[test]
    fn delays_are_on_one_clock_though_the_kernel_stamps_by_another() {
        let wall = 1_700_000_000_000_000_000_u64;
        let from = "10.0.0.1:1".parse().unwrap();
        let mut tally = ProbeTally::of(3);
        for number in 0..100_u64 {
            let sent = 1_000_000_000 + number * 1_000_000;
            let bytes = probe(&message(), 3, number, Timestamp::from_nanos(sent));
            // 20 ms and a little; whoever takes it sleeps up to 5 ms too long.
            let arrived = sent + 20_000_000 + number * 1000;
            let arrival = Arrival {
                length: bytes.len(),
                segment: bytes.len(),
                from,
                at_ns: Some(wall + arrived),
                drops: 0,
            };
            let taken = Timestamp::from_nanos(arrived + 10_000 + number % 7 * 700_000);
            tally.take(&bytes, &arrival, taken);
            tally.take(&bytes, &arrival, taken + Duration::from_millis(1));
        }
        let figures = tally.figures(125);
        assert_eq!((figures.sent, figures.received), (125, 100));
        assert!((figures.loss().unwrap() - 0.2).abs() < 1e-9);
        let delays = figures.delays.unwrap();
        let us = |us| Duration::from_micros(us);
        assert_eq!(
            delays,
            OneWayDelays { min: us(20_010), p50: us(20_059), p95: us(20_104), max: us(20_109) }
        );
        assert_eq!(OneWayDelays::from_values(delays.values()), delays);
    }

    #[test]
    fn without_stamps_the_taking_counts_and_strangers_do_not() {
        let from = "10.0.0.1:1".parse().unwrap();
        let mut tally = ProbeTally::of(1);
        let two: Vec<u8> = (0..2)
            .flat_map(|number| probe(&message(), 1, number, Timestamp::from_nanos(5_000_000)))
            .collect();
        let arrival = Arrival { length: two.len(), segment: 64, from, at_ns: None, drops: 0 };
        tally.take(&two, &arrival, Timestamp::from_nanos(7_000_000));
        let other = probe(&message(), 2, 7, Timestamp::from_nanos(0));
        tally.take(&other, &Arrival { length: 64, ..arrival }, Timestamp::from_nanos(7_000_000));
        assert_eq!(tally.received(), 2);
        assert_eq!(tally.delays().unwrap().max, Duration::from_millis(2));
        assert_eq!(ProbeTally::of(0).figures(5).delays, None);
    }
}
