//! Statistics over repetitions: quantiles and a distribution-free interval of the median.
//!
//! Contract: a sample contains only finite numbers. A function returns `None` for a NaN, an infinity or too few values;
//! it never drops a value silently and never panics.

use crate::document::Distribution;

/// Smallest number of values with a 95 % interval of the median: with five, even the interval from the smallest to the
/// largest covers the median with only 1 − 2/2⁵ = 93.75 %.
pub const FEWEST_FOR_INTERVAL: usize = 6;

/// The sample in ascending order, or `None` if it is empty or contains a value that is not finite.
fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    Some(values)
}

fn quantile_sorted(sorted: &[f64], p: f64) -> f64 {
    let rank = (sorted.len() - 1) as f64 * p;
    let below = rank.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (low, high) = (sorted[below], sorted[above]);
    // Written as a weighted mean and bounded by its neighbours so that rounding cannot leave the range.
    let weight = rank - below as f64;
    (low * (1.0 - weight) + high * weight).clamp(low, high)
}

/// The `p`-quantile, 0 ≤ `p` ≤ 1, by linear interpolation between order statistics: type 7 of Hyndman and Fan,
/// "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996), the default of R and `NumPy`.
///
/// `None` for an empty sample, a value that is not finite, or `p` outside 0 to 1.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    Some(quantile_sorted(&sorted(values)?, p))
}

/// The `p`-quantile, 0 < `p` ≤ 1, by nearest rank: the smallest value that is at least as large as the fraction `p` of
/// the sample. It is always a value of the sample, as a percentile of delays should be.
///
/// `None` for an empty sample, a value that is not finite, or `p` outside 0 to 1.
pub fn nearest_rank(values: &[f64], p: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    let sorted = sorted(values)?;
    // 0.95 × 20 is slightly above 19 in binary; the tolerance keeps the exact rank.
    let rank = (sorted.len() as f64 * p - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// The median: the middle value, or the mean of the two in the middle. `None` as for [`quantile`].
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Smallest and largest value. `None` as for [`quantile`].
pub fn range(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values)?;
    Some([*sorted.first()?, *sorted.last()?])
}

/// Ranks (from 1) of the order statistics that enclose the median with at least 95 % confidence, for any
/// distribution: the largest `k` with P(Binomial(n, ½) < k) ≤ 2.5 %, and its mirror `n + 1 − k`.
///
/// David and Nagaraja, Order Statistics, 3rd ed. (2003), section 7.1. `None` for fewer than
/// [`FEWEST_FOR_INTERVAL`] values.
pub fn median_interval_ranks(n: usize) -> Option<[usize; 2]> {
    if n < FEWEST_FOR_INTERVAL {
        return None;
    }
    // In logarithms, since 2⁻ⁿ underflows for n > 1074.
    let mut log_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut rank = 0;
    for successes in 0..n {
        below += log_probability.exp();
        if below > 0.025 {
            break;
        }
        rank = successes + 1;
        log_probability += ((n - successes) as f64 / (successes + 1) as f64).ln();
    }
    Some([rank, n + 1 - rank])
}

/// Distribution-free 95 % confidence interval of the median ([`median_interval_ranks`]).
///
/// `None` for fewer than [`FEWEST_FOR_INTERVAL`] values or a value that is not finite.
///
/// ```rust
/// use pathbench_record::statistics::{median, median_interval};
///
/// let stalls_ms = [210.0, 190.0, 230.0, 200.0, 220.0, 250.0];
/// assert_eq!(median(&stalls_ms), Some(215.0));
/// assert_eq!(median_interval(&stalls_ms), Some([190.0, 250.0]));
/// assert_eq!(median_interval(&stalls_ms[1..]), None, "five values are too few");
/// ```
pub fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values)?;
    let [low, high] = median_interval_ranks(sorted.len())?;
    Some([sorted[low - 1], sorted[high - 1]])
}

/// The distribution of one figure over repetitions. `None` for an empty sample or a value that is not finite.
pub fn distribution(values: &[f64]) -> Option<Distribution> {
    let [min, max] = range(values)?;
    Some(Distribution {
        n: u32::try_from(values.len()).ok()?,
        median: median(values)?,
        min,
        max,
        ci95: median_interval(values),
    })
}

/// `SplitMix64`: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. Small,
/// seedable, and good enough to draw indices. The same seed gives the same draws in every version.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound` (`bound` > 0) by multiplication; its bias, below `bound` ÷ 2⁶⁴, is negligible.
    pub const fn draw_below(&mut self, bound: usize) -> usize {
        ((self.draw() as u128 * bound as u128) >> 64) as usize
    }
}
