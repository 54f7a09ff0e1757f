//! The offset of two clocks, and delays without it.

use pathbench_record::trace::Distribution;

/// Differences that are kept. Beyond, every second, fourth, … is kept.
const KEPT: usize = 2_048;

/// Time at point 1 minus time at point 0 of a packet whose time is `own_ns` at `point` and `other_ns` at the other.
pub(super) fn difference(point: usize, own_ns: u64, other_ns: u64) -> i64 {
    let (first, second) = if point == 0 { (own_ns, other_ns) } else { (other_ns, own_ns) };
    second.wrapping_sub(first) as i64
}

/// Time at point 1 minus time at point 0 of the packets of one direction: delay and clock offset, with sign.
#[derive(Debug, Default)]
pub(super) struct Differences {
    kept: Vec<i64>,
    /// One of 2^`thinning` is kept.
    thinning: u32,
    count: u64,
    least: i64,
    greatest: i64,
}

impl Differences {
    pub(super) fn record(&mut self, difference: i64) {
        (self.least, self.greatest) = match self.bounds() {
            Some((least, greatest)) => (least.min(difference), greatest.max(difference)),
            None => (difference, difference),
        };
        if self.count.trailing_zeros() >= self.thinning {
            self.kept.push(difference);
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
}

/// Server's clock minus client's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offset {
    pub(super) middle_ns: f64,
    pub(super) uncertainty_ns: f64,
}

impl Offset {
    /// `None` if a direction has no packet at both points. `client` is the point nearer to the client.
    pub(super) fn estimate(up: &Differences, down: &Differences, client: usize) -> Option<Self> {
        let (up, down) = (up.bounds()?, down.bounds()?);
        // Server's time minus client's time: the least of the upload is an upper bound of the offset, the greatest of
        // the download a lower one.
        let (upper, lower) =
            if client == 0 { (up.0, down.1) } else { (up.1.saturating_neg(), down.0.saturating_neg()) };
        let (upper, lower) = (upper as f64, lower as f64);
        Some(Self { middle_ns: f64::midpoint(upper, lower), uncertainty_ns: ((upper - lower) / 2.0).abs() })
    }

    /// Delays to point `receiver` of data that end `side` sent.
    pub(super) fn delays(
        &self,
        differences: &Differences,
        receiver: usize,
        side: usize,
    ) -> Option<Distribution> {
        let (least, greatest) = differences.bounds()?;
        let toward_receiver = if receiver == 1 { 1.0 } else { -1.0 };
        // The receiver of the upload has the server's clock.
        let offset = if side == 0 { self.middle_ns } else { -self.middle_ns };
        let ms = |difference: i64| ((toward_receiver * difference as f64 - offset) / 1e6).max(0.0);
        let mut kept: Vec<f64> = differences.kept.iter().map(|difference| ms(*difference)).collect();
        kept.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let rank = (share * kept.len() as f64).ceil() as usize;
            kept.get(rank.saturating_sub(1)).copied()
        };
        let ends = [ms(least), ms(greatest)];
        Some(Distribution {
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
    fn thinning_keeps_evenly_spaced_differences_and_the_exact_bounds() {
        let mut differences = Differences::default();
        for value in 0..1_000_000 {
            differences.record(value);
        }
        assert_eq!(differences.bounds(), Some((0, 999_999)));
        assert!(differences.kept.len() < KEPT && differences.kept.len() >= KEPT / 2 - 1);
        let step = 1 << differences.thinning;
        assert!(differences.kept.windows(2).all(|pair| pair[1] - pair[0] == step));
    }
}
