//! Descriptions of effects. They take no part in a verdict.

/// Cliff's δ: the probability that a value of `candidate` is larger than one of `baseline`, less the probability that it is
/// smaller; −1 to 1. Cliff, "Dominance Statistics", Psychological Bulletin 114 (1993).
///
/// Cliff's δ describes and never decides: with 30 values each of the same distribution, |δ| exceeds 0.147 ("small") in a third of
/// all experiments. `None` if a sample is empty or has a value that is not finite.
pub fn cliffs_delta(baseline: &[f64], candidate: &[f64]) -> Option<f64> {
    let finite = |values: &[f64]| !values.is_empty() && values.iter().all(|value| value.is_finite());
    if !finite(baseline) || !finite(candidate) {
        return None;
    }
    let mut sorted = baseline.to_vec();
    sorted.sort_by(f64::total_cmp);
    let balance: f64 = candidate
        .iter()
        .map(|value| {
            let below = sorted.partition_point(|other| other < value);
            let not_above = sorted.partition_point(|other| other <= value);
            below as f64 - (sorted.len() - not_above) as f64
        })
        .sum();
    Some(balance / (baseline.len() as f64 * candidate.len() as f64))
}

/// Jain's index of the utilisations xᵢ = bytes or rate ÷ capacity of path i: (Σx)² ÷ (n Σx²), 1/n to 1; 1 if all paths are
/// filled to the same degree. Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301
/// (1984).
///
/// Without the division by capacity, a perfect use of a 900 and a 100 Mbit/s path would read 0.61. `None` with fewer than two
/// paths, without traffic, or with a capacity that is not positive.
///
/// ```rust
/// use pathbench_analysis::comparison::jains_index;
///
/// // 9 and 1 Mbit/s fill paths of 90 and 10 Mbit/s to the same degree.
/// assert_eq!(jains_index(&[(9e6, 90e6), (1e6, 10e6)]), Some(1.0));
/// assert_eq!(jains_index(&[(9e6, 90e6), (0.0, 10e6)]), Some(0.5));
/// assert_eq!(jains_index(&[(9e6, 90e6)]), None, "one path");
/// ```
pub fn jains_index(paths: &[(f64, f64)]) -> Option<f64> {
    let usable = |(carried, capacity): &(f64, f64)| {
        carried.is_finite() && *carried >= 0.0 && capacity.is_finite() && *capacity > 0.0
    };
    if paths.len() < 2 || !paths.iter().all(usable) {
        return None;
    }
    let used: Vec<f64> = paths.iter().map(|(carried, capacity)| carried / capacity).collect();
    let (sum, squares) = (used.iter().sum::<f64>(), used.iter().map(|x| x * x).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (used.len() as f64 * squares))
}
