//! The offset of the clocks of two captures, and delays without it.

use super::envelope::{Envelope, Sample};
use pathbench_record::trace::TracedDistribution;
use std::collections::HashMap;

/// Differences that are kept per direction of a flow. Beyond, every second, fourth, … is kept.
const KEPT: usize = 2_048;
/// Differences that the flows of a result keep together, as far as each has [`LEAST_KEPT`].
const KEPT_OF_RESULT: usize = 1 << 20;
const LEAST_KEPT: usize = 64;
/// The clocks of two hosts drift apart by at most this rate: each is within 100 ppm.
const MOST_DRIFT: f64 = 200e-6;
/// Pairs of captures.
const MOST_PAIRS: usize = 4_096;

/// Differences of the times of the packets of one direction of a flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Differences {
    kept: Vec<Sample>,
    /// One of 2^`thinning` is kept.
    thinning: u32,
    count: u64,
    least: i64,
    greatest: i64,
    envelope: Envelope,
}

impl Differences {
    pub(super) fn record(&mut self, sample: Sample) {
        let difference = sample.difference;
        (self.least, self.greatest) = match self.bounds() {
            Some((least, greatest)) => (least.min(difference), greatest.max(difference)),
            None => (difference, difference),
        };
        self.envelope.record(sample);
        if self.count.trailing_zeros() >= self.thinning {
            self.kept.push(sample);
            if self.kept.len() >= KEPT {
                self.thin();
            }
        }
        self.count += 1;
    }

    fn thin(&mut self) {
        let mut even = false;
        self.kept.retain(|_| {
            even = !even;
            even
        });
        self.thinning += 1;
    }

    /// Keeps no more than this flow's share of a result with so many flows.
    fn limit(&mut self, flows: usize) {
        let most = (KEPT_OF_RESULT / flows.max(1) / 2).max(LEAST_KEPT);
        while self.kept.len() > most {
            self.thin();
        }
        self.kept.shrink_to_fit();
    }

    /// Least and greatest, exact.
    pub(super) fn bounds(&self) -> Option<(i64, i64)> {
        (self.count > 0).then_some((self.least, self.greatest))
    }

    fn period(&self) -> Option<(u64, u64)> {
        let times = || self.kept.iter().map(|sample| sample.time_ns);
        Some((times().min()?, times().max()?))
    }
}

/// The clocks of two captures, from the packets of all flows at both.
///
/// With θ = time at the second minus time at the first of the pair, a packet toward the second has the difference
/// θ + delay, and one toward the first θ − delay. No delay is negative: the former are upper bounds of θ, the latter lower
/// ones. θ changes at a constant rate.
#[derive(Debug, Clone, Default)]
struct Pair {
    /// The capture whose time is that of the samples: the first of the first flow.
    first: u32,
    upper: Envelope,
    lower: Envelope,
}

/// A straight line between the bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    at_ns: u64,
    offset: f64,
    rate: f64,
}

impl Line {
    fn value(&self, time_ns: u64) -> f64 {
        self.offset + self.rate * time_ns.wrapping_sub(self.at_ns) as i64 as f64
    }
}

/// Bounds as time from an origin and value.
struct Constraints {
    upper: Vec<(f64, f64)>,
    lower: Vec<(f64, f64)>,
}

impl Constraints {
    /// Least upper and greatest lower bound of the offset at the origin, if it changes at a rate.
    fn interval(&self, rate: f64) -> (f64, f64) {
        let at_origin = |&(time, value): &(f64, f64)| value - rate * time;
        let upper = self.upper.iter().map(at_origin).fold(f64::INFINITY, f64::min);
        let lower = self.lower.iter().map(at_origin).fold(f64::NEG_INFINITY, f64::max);
        (lower, upper)
    }

    fn width(&self, rate: f64) -> f64 {
        let (lower, upper) = self.interval(rate);
        upper - lower
    }

    /// The rates at which an offset exists: the width is a concave function of the rate.
    fn rates(&self) -> Option<(f64, f64)> {
        const STEPS: usize = 60;
        let (mut low, mut high) = (-MOST_DRIFT, MOST_DRIFT);
        for _ in 0..STEPS {
            let (first, second) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if self.width(first) < self.width(second) {
                low = first;
            } else {
                high = second;
            }
        }
        let best = f64::midpoint(low, high);
        if self.width(best) < 0.0 {
            return None;
        }
        let edge = |outside: f64| {
            if self.width(outside) >= 0.0 {
                return outside;
            }
            let (mut inside, mut outside) = (best, outside);
            for _ in 0..STEPS {
                let middle = f64::midpoint(inside, outside);
                if self.width(middle) >= 0.0 {
                    inside = middle;
                } else {
                    outside = middle;
                }
            }
            inside
        };
        Some((edge(-MOST_DRIFT), edge(MOST_DRIFT)))
    }

    /// Extremes of the offset at the origin over all rates.
    fn extremes(&self, (least, greatest): (f64, f64)) -> (f64, f64) {
        const STEPS: usize = 60;
        // The least upper bound is concave in the rate, the greatest lower bound convex.
        let search = |value: &dyn Fn(f64) -> f64| {
            let (mut low, mut high) = (least, greatest);
            for _ in 0..STEPS {
                let (first, second) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
                if value(first) < value(second) {
                    low = first;
                } else {
                    high = second;
                }
            }
            value(low).max(value(high))
        };
        let upper = search(&|rate| self.interval(rate).1);
        let lower = -search(&|rate| -self.interval(rate).0);
        (lower, upper)
    }
}

impl Pair {
    /// Adds the packets of a flow of which point 0 is the first of the pair. `client` is the point nearer to the client.
    fn add(&mut self, [up, down]: [&Differences; 2], client: usize) {
        let (toward_second, toward_first) = if client == 0 { (up, down) } else { (down, up) };
        toward_second.envelope.least().for_each(|sample| self.upper.record(sample));
        toward_first.envelope.greatest().for_each(|sample| self.lower.record(sample));
    }

    /// As [`add`](Self::add), of which point 1 is the first of the pair.
    fn add_exchanged(&mut self, [up, down]: [&Differences; 2], client: usize) {
        let (toward_second, toward_first) = if client == 1 { (up, down) } else { (down, up) };
        let exchanged = |samples: Vec<Sample>| samples.into_iter().map(Sample::exchanged);
        exchanged(toward_second.envelope.greatest().collect()).for_each(|sample| self.upper.record(sample));
        exchanged(toward_first.envelope.least().collect()).for_each(|sample| self.lower.record(sample));
    }

    fn constraints(&self, origin_ns: u64) -> Constraints {
        let point =
            |sample: Sample| (sample.time_ns.wrapping_sub(origin_ns) as i64 as f64, sample.difference as f64);
        Constraints {
            upper: self.upper.least().map(point).collect(),
            lower: self.lower.greatest().map(point).collect(),
        }
    }

    /// The offset, and its bounds at a time; `None` without packets in both directions, or if a clock was set.
    fn estimate(&self, at_ns: u64) -> Option<(Line, f64)> {
        let times = || self.upper.least().chain(self.lower.greatest()).map(|sample| sample.time_ns);
        let middle_ns = u64::midpoint(times().min()?, times().max()?);
        let constraints = self.constraints(middle_ns);
        if constraints.upper.is_empty() || constraints.lower.is_empty() {
            return None;
        }
        let rates = constraints.rates()?;
        // A drift that the bounds do not show is none.
        let rate = if constraints.width(0.0) >= 0.0 { 0.0 } else { f64::midpoint(rates.0, rates.1) };
        let (lower, upper) = constraints.interval(rate);
        let line = Line { at_ns: middle_ns, offset: f64::midpoint(lower, upper), rate };
        let (lower, upper) = self.constraints(at_ns).extremes(rates);
        let offset = line.value(at_ns);
        Some((line, (upper - offset).max(offset - lower).max(0.0)))
    }
}

/// The clocks of all captures.
#[derive(Debug, Default)]
pub struct Clocks {
    pairs: HashMap<(u32, u32), Pair>,
}

/// The times of the packets of a flow at two points, which give its delays when the clocks are known.
#[derive(Debug, Clone)]
pub struct FlowTimes {
    captures: [u32; 2],
    /// The point nearer to the client.
    client: usize,
    /// By the sender's side.
    differences: [Differences; 2],
}

/// Offset of the server's clock, its uncertainty, and the delays of the upload and of the download.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowDelays {
    pub offset_ms: f64,
    pub uncertainty_ms: f64,
    pub delays_ms: [Option<TracedDistribution>; 2],
}

impl Clocks {
    /// Accounts for a flow that has ended.
    pub fn add(&mut self, flow: &FlowTimes) {
        let [first, second] = flow.captures;
        let key = (first.min(second), first.max(second));
        if self.pairs.len() >= MOST_PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        let pair = self.pairs.entry(key).or_insert_with(|| Pair { first, ..Pair::default() });
        let differences = flow.differences.each_ref();
        if first == pair.first {
            pair.add(differences, flow.client);
        } else {
            pair.add_exchanged(differences, flow.client);
        }
    }

    /// By the clocks of the two captures, or by the flow's own packets if a clock was set during the capture.
    pub fn delays(&self, flow: &FlowTimes) -> Option<FlowDelays> {
        let periods = || flow.differences.iter().filter_map(Differences::period);
        let first = periods().map(|period| period.0).min()?;
        let middle_ns = u64::midpoint(first, periods().map(|period| period.1).max()?);
        let [one, other] = flow.captures;
        let mut own = Pair::default();
        own.add(flow.differences.each_ref(), flow.client);
        let shared = self.pairs.get(&(one.min(other), one.max(other)));
        let line = match shared {
            Some(pair) if one == pair.first => pair.estimate(middle_ns),
            Some(pair) => {
                // The pair has the other capture's time.
                let exchanged = |flow: &FlowTimes| {
                    let sample = flow.differences.iter().find_map(|differences| differences.kept.first())?;
                    Some(middle_ns.wrapping_add_signed(sample.difference))
                };
                pair.estimate(exchanged(flow)?).map(|(line, uncertainty)| {
                    let at_ns = line.at_ns.wrapping_add_signed(line.offset as i64);
                    (Line { at_ns, offset: -line.offset, rate: -line.rate }, uncertainty)
                })
            }
            None => None,
        };
        let (line, uncertainty) = line.or_else(|| own.estimate(middle_ns))?;
        // From the server's to the client's point, or the other way round.
        let sign = if flow.client == 0 { 1.0 } else { -1.0 };
        let delays = [0, 1].map(|side: usize| {
            // Samples are point 1 minus point 0.
            let toward_first = (side == 0) == (flow.client == 1);
            flow.differences[side].delays(&line, if toward_first { -1.0 } else { 1.0 })
        });
        Some(FlowDelays {
            offset_ms: sign * line.value(middle_ns) / 1e6,
            uncertainty_ms: uncertainty / 1e6,
            delays_ms: delays,
        })
    }
}

impl FlowTimes {
    pub(super) fn new(captures: [u32; 2], client: usize, differences: [Differences; 2]) -> Self {
        Self { captures, client, differences }
    }

    /// Frees what exceeds the share of a flow in a result with so many flows.
    pub fn limit(&mut self, flows: usize) {
        self.differences.iter_mut().for_each(|differences| differences.limit(flows));
    }
}

impl Differences {
    /// Delays of packets toward point 1 (`direction` 1) or point 0 (−1).
    fn delays(&self, line: &Line, direction: f64) -> Option<TracedDistribution> {
        let ms = |sample: &Sample| {
            (direction * (sample.difference as f64 - line.value(sample.time_ns)) / 1e6).max(0.0)
        };
        let mut kept: Vec<f64> = self.kept.iter().map(ms).collect();
        kept.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let rank = (share * kept.len() as f64).ceil() as usize;
            kept.get(rank.saturating_sub(1)).copied()
        };
        let extremes = || self.envelope.least().chain(self.envelope.greatest()).map(|sample| ms(&sample));
        Some(TracedDistribution {
            count: self.count,
            min: extremes().min_by(f64::total_cmp)?,
            median: quantile(0.5)?,
            p95: quantile(0.95)?,
            max: extremes().max_by(f64::total_cmp)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_were_set_have_no_offset() {
        let (mut up, mut down) = (Differences::default(), Differences::default());
        for number in 0..100 {
            let time_ns = number * 1_000_000;
            // The second clock is set back by 50 ms in the middle.
            let second = |at_ns: u64| if number < 50 { at_ns + 100_000_000 } else { at_ns + 50_000_000 };
            up.record(Sample::new(0, time_ns, second(time_ns + 1_000_000)));
            down.record(Sample::new(0, time_ns + 1_000_000, second(time_ns)));
        }
        let mut pair = Pair::default();
        pair.add([&up, &down], 0);
        assert!(pair.estimate(50_000_000).is_none());
    }

    #[test]
    fn thinning_keeps_evenly_spaced_differences_and_the_exact_bounds() {
        let mut differences = Differences::default();
        for value in 0..1_000_000 {
            differences.record(Sample::new(0, 0, value));
        }
        assert_eq!(differences.bounds(), Some((0, 999_999)));
        assert!(differences.kept.len() < KEPT && differences.kept.len() >= KEPT / 2 - 1);
        let step = 1 << differences.thinning;
        assert!(differences.kept.windows(2).all(|pair| pair[1].difference - pair[0].difference == step));
    }

    #[test]
    fn the_order_of_the_captures_changes_the_sign_only() {
        let (mut up, mut down) = (Differences::default(), Differences::default());
        for number in 0..1_000_u64 {
            let time_ns = number * 100_000_000;
            let drifted = time_ns + 3_600_000_000_000 + time_ns / 20_000;
            up.record(Sample::new(0, time_ns, drifted + 1_000_000 + number % 7 * 100_000));
            down.record(Sample::new(0, time_ns + 2_000_000 + number % 5 * 100_000, drifted));
        }
        let flow = |captures, client, differences| FlowTimes::new(captures, client, differences);
        let exchanged = |differences: &Differences| {
            let mut result = Differences::default();
            differences.kept.iter().for_each(|sample| result.record(sample.exchanged()));
            result
        };
        let delays = |flow: &FlowTimes| {
            let mut clocks = Clocks::default();
            clocks.add(flow);
            clocks.delays(flow).unwrap()
        };
        let one = delays(&flow([0, 1], 0, [up.clone(), down.clone()]));
        let other = delays(&flow([1, 0], 1, [exchanged(&up), exchanged(&down)]));
        assert!((one.offset_ms - other.offset_ms).abs() < 0.01, "{one:?} {other:?}");
        assert!(one.offset_ms > 3_600_000.0 && (one.uncertainty_ms - other.uncertainty_ms).abs() < 0.01);
        let medians = |found: FlowDelays| found.delays_ms.map(|delay| delay.unwrap().median);
        let (one, other) = (medians(one), medians(other));
        assert!(one.iter().zip(other).all(|(one, other)| (one - other).abs() < 0.01), "{one:?} {other:?}");
    }
}
