//! The offset of two clocks, and delays without it.

use pathbench_record::trace::TracedDistribution;

/// Differences that are kept. Beyond, every second, fourth, … is kept.
const KEPT: usize = 2_048;

/// The times of one packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// At point 0.
    time_ns: u64,
    /// Time at point 1 minus time at point 0.
    difference: i64,
}

impl Sample {
    /// Of a packet that has the time `own_ns` at `point` and `other_ns` at the other.
    pub(super) fn new(point: usize, own_ns: u64, other_ns: u64) -> Self {
        let (time_ns, second) = if point == 0 { (own_ns, other_ns) } else { (other_ns, own_ns) };
        Self { time_ns, difference: second.wrapping_sub(time_ns) as i64 }
    }
}

/// Delay and clock offset of the packets of one direction.
#[derive(Debug, Default)]
pub(super) struct Differences {
    kept: Vec<Sample>,
    /// One of 2^`thinning` is kept.
    thinning: u32,
    count: u64,
    least: i64,
    greatest: i64,
}

impl Differences {
    pub(super) fn record(&mut self, sample: Sample) {
        let difference = sample.difference;
        (self.least, self.greatest) = match self.bounds() {
            Some((least, greatest)) => (least.min(difference), greatest.max(difference)),
            None => (difference, difference),
        };
        if self.count.trailing_zeros() >= self.thinning {
            self.kept.push(sample);
            if self.kept.len() >= KEPT {
                let mut even = false;
                self.kept.retain(|_| {
                    even = !even;
                    even
                });
                self.thinning += 1;
            }
        }
        self.count += 1;
    }

    /// Least and greatest, exact.
    pub(super) fn bounds(&self) -> Option<(i64, i64)> {
        (self.count > 0).then_some((self.least, self.greatest))
    }

    /// First and last time of the samples that are kept.
    fn period(&self) -> Option<(u64, u64)> {
        let times = || self.kept.iter().map(|sample| sample.time_ns);
        Some((times().min()?, times().max()?))
    }

    /// Change of the upper or the lower envelope per time: from its extreme in the first quarter to that in the last.
    fn slope(&self, upper: bool) -> Option<f64> {
        let (first, last) = self.period()?;
        let quarter = (last - first) / 4;
        let extreme = |from: u64, until: u64| {
            let within = self.kept.iter().filter(|sample| (from..=until).contains(&sample.time_ns));
            if upper {
                within.max_by_key(|sample| sample.difference)
            } else {
                within.min_by_key(|sample| sample.difference)
            }
        };
        let (early, late) = (extreme(first, first + quarter)?, extreme(last - quarter, last)?);
        let time = late.time_ns.checked_sub(early.time_ns).filter(|time| *time > 0)?;
        Some((late.difference as f64 - early.difference as f64) / time as f64)
    }
}

/// Point 1's clock gains on point 0's.
#[derive(Debug, Clone, Copy)]
struct Drift {
    rate: f64,
    /// Time at which the offset is stated.
    middle_ns: u64,
}

impl Drift {
    /// A change of the path's delay moves the differences of both directions apart, a drift moves them alike.
    fn estimate(up: &Differences, down: &Differences, client: usize) -> Option<Self> {
        let (one, other) = (up.slope(client == 1)?, down.slope(client == 0)?);
        let (first, last) = (up.period()?, down.period()?);
        let middle_ns = u64::midpoint(first.0.min(last.0), first.1.max(last.1));
        (one.signum() == other.signum()).then_some(Self { rate: f64::midpoint(one, other), middle_ns })
    }

    fn correct(&self, sample: &Sample) -> f64 {
        let time = sample.time_ns.wrapping_sub(self.middle_ns) as i64;
        sample.difference as f64 - self.rate * time as f64
    }

    fn bounds(&self, differences: &Differences) -> (f64, f64) {
        let extremes = (f64::INFINITY, f64::NEG_INFINITY);
        differences
            .kept
            .iter()
            .map(|sample| self.correct(sample))
            .fold(extremes, |(least, greatest), value| (least.min(value), greatest.max(value)))
    }
}

/// Server's clock minus client's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offset {
    pub(super) middle_ns: f64,
    pub(super) uncertainty_ns: f64,
    drift: Option<Drift>,
}

impl Offset {
    /// `None` if a direction has no packet at both points, or if no offset explains both directions. `client` is the point nearer to the client.
    pub(super) fn estimate(up: &Differences, down: &Differences, client: usize) -> Option<Self> {
        // Server's time minus client's time: the least of the upload is an upper bound of the offset, the greatest of
        // the download a lower one.
        let interval = |up: (f64, f64), down: (f64, f64)| {
            if client == 0 { (down.1, up.0) } else { (-down.0, -up.1) }
        };
        let exact = |differences: &Differences| {
            differences.bounds().map(|(least, greatest)| (least as f64, greatest as f64))
        };
        let (mut lower, mut upper) = interval(exact(up)?, exact(down)?);
        let mut drift = None;
        if lower > upper {
            // No constant offset explains both.
            drift = Drift::estimate(up, down, client);
            if let Some(drift) = drift {
                (lower, upper) = interval(drift.bounds(up), drift.bounds(down));
            }
        }
        // Clocks that were set during the capture have no offset.
        let uncertainty_ns = (upper - lower) / 2.0;
        (lower <= upper).then_some(Self { middle_ns: f64::midpoint(upper, lower), uncertainty_ns, drift })
    }

    /// Delays to point `receiver` of data that end `side` sent.
    pub(super) fn delays(
        &self,
        differences: &Differences,
        receiver: usize,
        side: usize,
    ) -> Option<TracedDistribution> {
        let toward_receiver = if receiver == 1 { 1.0 } else { -1.0 };
        // The receiver of the upload has the server's clock.
        let offset = if side == 0 { self.middle_ns } else { -self.middle_ns };
        let ms = |difference: f64| ((toward_receiver * difference - offset) / 1e6).max(0.0);
        let corrected =
            |sample: &Sample| self.drift.map_or(sample.difference as f64, |drift| drift.correct(sample));
        let mut kept: Vec<f64> = differences.kept.iter().map(|sample| ms(corrected(sample))).collect();
        kept.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let rank = (share * kept.len() as f64).ceil() as usize;
            kept.get(rank.saturating_sub(1)).copied()
        };
        let ends = if self.drift.is_some() {
            [*kept.first()?, *kept.last()?]
        } else {
            let (least, greatest) = differences.bounds()?;
            [ms(least as f64), ms(greatest as f64)]
        };
        Some(TracedDistribution {
            count: differences.count,
            min: ends[0].min(ends[1]),
            median: quantile(0.5)?,
            p95: quantile(0.95)?,
            max: ends[0].max(ends[1]),
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
        assert!(Offset::estimate(&up, &down, 0).is_none());
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
}
