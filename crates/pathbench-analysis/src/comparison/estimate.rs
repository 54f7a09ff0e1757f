//! Hodges–Lehmann estimates of a shift with their distribution-free intervals.

use super::null::Null;
use pathbench_record::statistics::FEWEST_FOR_INTERVAL;

/// A shift between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Pairs, or the smaller of two samples.
    pub n: usize,
    /// The Hodges–Lehmann estimate of the shift.
    pub shift: f64,
    /// 95 % confidence interval; `None` with fewer than [`FEWEST_FOR_INTERVAL`] pairs or values.
    pub ci95: Option<[f64; 2]>,
    /// Two-sided p value of the hypothesis that there is no shift. Ties with zero count as evidence for the hypothesis, so
    /// that p < 0.05 exactly if `ci95` excludes zero.
    pub p: f64,
    /// Standard deviation of the pairs' differences; of unpaired samples that of a difference of two values.
    pub spread: f64,
}

/// The shift of paired `differences`: the median of the Walsh averages (dᵢ + dⱼ)/2, i ≤ j, and the interval between the
/// `k`-th of them from either end, where `k` is the critical value of Wilcoxon's signed-rank statistic.
///
/// Hodges and Lehmann, "Estimates of Location Based on Rank Tests", Annals of Mathematical Statistics 34 (1963); Tukey's
/// interval as in Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed. (2014), sections 3.2 and 3.3.
///
/// `None` without values or with one that is not finite. Exact in O(n log n) time without a list of the averages.
///
/// The ratio of two goodputs in six repetitions, from the differences of their logarithms:
///
/// ```rust
/// use pathbench_analysis::comparison::{MARGIN, Rule, judge, paired};
/// use pathbench_record::document::Verdict;
///
/// let tcp_mbps = [40.0_f64, 42.0, 41.0, 39.0, 40.0, 43.0];
/// let mptcp_mbps = [80.0_f64, 85.0, 81.0, 79.0, 82.0, 86.0];
/// let differences: Vec<f64> = tcp_mbps.iter().zip(mptcp_mbps).map(|(tcp, mptcp)| (mptcp / tcp).ln()).collect();
/// let estimate = paired(&differences).unwrap();
/// let [low, high] = estimate.ci95.unwrap().map(f64::exp);
/// assert!(1.9 < low && low < estimate.shift.exp() && estimate.shift.exp() < high && high < 2.1);
/// assert_eq!(judge(&estimate, Rule::of_ratios(MARGIN)), Verdict::Different);
/// ```
pub fn paired(differences: &[f64]) -> Option<Estimate> {
    let sorted = sorted(differences)?;
    let n = sorted.len();
    let averages = (n as u64) * (n as u64 + 1) / 2;
    let null = Null::signed_rank(n);
    Some(estimate(n, averages, &null, spread(&sorted), |limit| walsh_at_most(&sorted, limit)))
}

/// The shift from `baseline` to `candidate`, independent samples: the median of all differences, and the interval
/// between the `k`-th of them from either end, where `k` is the critical value of Mann and Whitney's U.
///
/// Hodges and Lehmann (1963); Moses' interval as in Hollander, Wolfe and Chicken, sections 4.2 and 4.3.
///
/// `None` if a sample is empty or has a value that is not finite.
pub fn unpaired(baseline: &[f64], candidate: &[f64]) -> Option<Estimate> {
    let (baseline, candidate) = (sorted(baseline)?, sorted(candidate)?);
    let (m, n) = (baseline.len(), candidate.len());
    let null = Null::mann_whitney(m, n);
    let spread = spread(&baseline).hypot(spread(&candidate));
    let at_most = |limit| differences_at_most(&baseline, &candidate, limit);
    Some(estimate(m.min(n), m as u64 * n as u64, &null, spread, at_most))
}

/// The estimate from the multiset of `size` averages or differences that `at_most` counts.
fn estimate(n: usize, size: u64, null: &Null, spread: f64, at_most: impl Fn(f64) -> u64) -> Estimate {
    let element = |rank: u64| order_statistic(rank, &at_most);
    let enough = n >= FEWEST_FOR_INTERVAL;
    let ci95 = null.rank_of_interval().filter(|_| enough).map(|k| [element(k), element(size + 1 - k)]);
    let (not_above, below) = (at_most(0.0), at_most(0.0_f64.next_down()));
    // One-sided probabilities, ties with zero on the side of the hypothesis.
    let p = null.at_most(not_above).min(null.at_most(size - below));
    Estimate {
        n,
        shift: f64::midpoint(element(size.div_ceil(2)), element(size / 2 + 1)),
        ci95,
        p: (2.0 * p).min(1.0),
        spread,
    }
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // −0 and 0 are the same value here.
    let mut values: Vec<f64> = values.iter().map(|value| value + 0.0).collect();
    values.sort_by(f64::total_cmp);
    Some(values)
}

fn spread(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if n < 2.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// The number of Walsh averages of `sorted` up to `limit`.
fn walsh_at_most(sorted: &[f64], limit: f64) -> u64 {
    let mut count = 0;
    let mut end = sorted.len();
    for (start, low) in sorted.iter().enumerate() {
        while end > start && f64::midpoint(*low, sorted[end - 1]) > limit {
            end -= 1;
        }
        if end <= start {
            break;
        }
        count += (end - start) as u64;
    }
    count
}

/// The number of differences `candidate − baseline` up to `limit`.
fn differences_at_most(baseline: &[f64], candidate: &[f64], limit: f64) -> u64 {
    let mut end = 0;
    let mut count = 0;
    for low in baseline {
        while candidate.get(end).is_some_and(|high| high - low <= limit) {
            end += 1;
        }
        count += end as u64;
    }
    count
}

/// The `rank`-th smallest element (from 1) of a multiset of which only the number of elements up to a limit is known: a
/// binary search over all numbers of f64.
fn order_statistic(rank: u64, at_most: &impl Fn(f64) -> u64) -> f64 {
    let (mut low, mut high) = (key(f64::MIN), key(f64::MAX));
    while low < high {
        let middle = low + (high - low) / 2;
        if at_most(number(middle)) >= rank { high = middle } else { low = middle + 1 }
    }
    number(low) + 0.0
}

const SIGN: u64 = 1 << 63;

/// Integers in the order of their numbers.
const fn key(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

const fn number(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
}
