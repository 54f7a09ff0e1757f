//! Correction of p values where many comparisons are made at once.

/// The level of all verdicts: 95 % intervals.
const ALPHA: f64 = 0.05;

/// Which hypotheses of a family can be rejected so that one false rejection among all of them has a probability of 5 % at
/// most: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979).
///
/// ```rust
/// use pathbench_analysis::comparison::holm;
///
/// // 0.03 is below 5 %, but not below 5 % / 2.
/// assert_eq!(holm(&[0.03, 0.001, 0.2]), [false, true, false]);
/// ```
pub fn holm(p: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut rejected = vec![false; p.len()];
    for (step, index) in order.into_iter().enumerate() {
        // A NaN is the largest in this order.
        if p[index].is_nan() || p[index] > ALPHA / (p.len() - step) as f64 {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

/// The largest family in which [`holm`] can reject anything with `pairs` pairs, whose smallest p value is 2/2ⁿ.
pub fn largest_family(pairs: u32) -> u64 {
    let smallest = 2.0_f64.powi(1 - i32::try_from(pairs.min(64)).unwrap_or(64));
    (ALPHA / smallest).floor() as u64
}
