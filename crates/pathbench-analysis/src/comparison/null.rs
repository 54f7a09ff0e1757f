//! Distributions of rank statistics under the null hypothesis.

/// Exact up to this number of pairs, and of values in each of two samples.
///
/// Beyond it the normal approximation differs from the exact probability 0.025 by less than 0.0003.
const MOST_EXACT_PAIRS: usize = 100;
const MOST_EXACT_VALUES: usize = 50;

/// The probability of each value of a symmetric rank statistic without ties, cumulated.
pub(super) enum Null {
    /// Element `k` is P(T ≤ k).
    Exact(Vec<f64>),
    Normal {
        mean: f64,
        sd: f64,
    },
}

impl Null {
    /// Wilcoxon's signed-rank statistic of `n` pairs: the sum of a random subset of the ranks 1 to n.
    ///
    /// Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1 (1945); Hollander, Wolfe and Chicken,
    /// Nonparametric Statistical Methods, 3rd ed. (2014), section 3.1 (also the normal approximation).
    pub(super) fn signed_rank(n: usize) -> Self {
        if n > MOST_EXACT_PAIRS {
            let n = n as f64;
            return Self::Normal {
                mean: n * (n + 1.0) / 4.0,
                sd: (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(),
            };
        }
        let mut probability = vec![0.0; n * (n + 1) / 2 + 1];
        probability[0] = 1.0;
        for rank in 1..=n {
            for sum in (0..probability.len()).rev() {
                let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
                probability[sum] = 0.5 * (probability[sum] + with);
            }
        }
        Self::Exact(cumulated(probability))
    }

    /// Mann and Whitney's U of samples of `m` and `n` values: the number of pairs in order.
    ///
    /// Mann and Whitney, "On a Test of Whether One of Two Random Variables is Stochastically Larger than the Other", Annals
    /// of Mathematical Statistics 18 (1947), with their recurrence; Hollander, Wolfe and Chicken, section 4.1.
    pub(super) fn mann_whitney(m: usize, n: usize) -> Self {
        if m.max(n) > MOST_EXACT_VALUES {
            let (m, n) = (m as f64, n as f64);
            return Self::Normal { mean: m * n / 2.0, sd: (m * n * (m + n + 1.0) / 12.0).sqrt() };
        }
        // P(U = u; i, j) = i/(i+j) · P(U = u − j; i−1, j) + j/(i+j) · P(U = u; i, j−1): the largest value is of the first
        // sample, or of the second.
        let length = m * n + 1;
        let mut of_first: Vec<Vec<f64>> = vec![point(length); m + 1];
        for j in 1..=n {
            let mut next = vec![point(length)];
            for i in 1..=m {
                let (first, second) = (i as f64 / (i + j) as f64, j as f64 / (i + j) as f64);
                let row = (0..length).map(|u| {
                    let above = if u >= j { next[i - 1][u - j] } else { 0.0 };
                    first * above + second * of_first[i][u]
                });
                let row = row.collect();
                next.push(row);
            }
            of_first = next;
        }
        Self::Exact(cumulated(of_first.pop().unwrap_or_default()))
    }

    /// P(T ≤ `count`).
    pub(super) fn at_most(&self, count: u64) -> f64 {
        match self {
            Self::Exact(cumulated) => {
                let index = usize::try_from(count).unwrap_or(usize::MAX);
                cumulated.get(index).copied().unwrap_or(1.0)
            }
            Self::Normal { mean, sd } => normal_below((count as f64 + 0.5 - mean) / sd),
        }
    }

    /// The largest `k` with P(T < k) ≤ 2.5 %; `None` if there is none above zero.
    pub(super) fn rank_of_interval(&self) -> Option<u64> {
        const TAIL: f64 = 0.025;
        let rank = match self {
            // The tolerance absorbs the rounding of exact dyadic probabilities.
            Self::Exact(cumulated) => {
                cumulated.iter().take_while(|below| **below <= TAIL + 1e-12).count() as u64
            }
            Self::Normal { mean, sd } => (mean - 1.959_963_984_540_054 * sd + 0.5).floor().max(0.0) as u64,
        };
        (rank > 0).then_some(rank)
    }
}

fn point(length: usize) -> Vec<f64> {
    let mut row = vec![0.0; length];
    row[0] = 1.0;
    row
}

fn cumulated(mut probability: Vec<f64>) -> Vec<f64> {
    let mut sum = 0.0;
    for one in &mut probability {
        sum += *one;
        *one = sum;
    }
    probability
}

/// The standard normal distribution function, with an error below 7.5·10⁻⁸: Abramowitz and Stegun, Handbook of Mathematical
/// Functions (1964), 26.2.17.
fn normal_below(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial;
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 3e-4, "{a} is not {b}");
    }

    #[test]
    fn the_signed_rank_distribution_is_that_of_the_printed_tables() {
        // Hollander, Wolfe and Chicken, table A.4: P(T+ ≥ x) at n = 6 (21: 0.016), 10 (47: 0.024), 15 (95: 0.0240).
        for (n, at_most, p) in [(6, 0, 0.015_625), (10, 8, 0.024_41), (15, 25, 0.023_99)] {
            close(Null::signed_rank(n).at_most(at_most), p);
        }
        // R: qsignrank(0.025, n).
        for (n, rank) in [(6, 1), (7, 3), (8, 4), (10, 9), (20, 53), (30, 138)] {
            assert_eq!(Null::signed_rank(n).rank_of_interval(), Some(rank), "n {n}");
        }
        assert_eq!(Null::signed_rank(5).rank_of_interval(), None);
    }

    #[test]
    fn the_mann_whitney_distribution_is_that_of_the_printed_tables() {
        // Mann and Whitney 1947, table I (m = n = 6): P(U ≤ 5) = 0.021, P(U ≤ 7) = 0.047.
        close(Null::mann_whitney(6, 6).at_most(5), 0.020_56);
        close(Null::mann_whitney(6, 6).at_most(7), 0.046_54);
        // R: qwilcox(0.025, m, n).
        for ((m, n), rank) in [((6, 6), 6), ((10, 10), 24), ((8, 12), 23), ((20, 20), 128)] {
            assert_eq!(Null::mann_whitney(m, n).rank_of_interval(), Some(rank), "{m}, {n}");
        }
        assert_eq!(Null::mann_whitney(3, 3).rank_of_interval(), None);
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        let n = MOST_EXACT_PAIRS;
        let exact = Null::signed_rank(n).rank_of_interval().unwrap() as f64;
        let next = Null::signed_rank(n + 1).rank_of_interval().unwrap() as f64;
        // The rank grows by about n/2 − 0.98·n/√(3n) per pair.
        assert!((30.0..50.0).contains(&(next - exact)), "{exact} {next}");
        let Null::Exact(cumulated) = Null::signed_rank(n) else { panic!() };
        let (mean, sd) = (2525.0, (100.0 * 101.0 * 201.0 / 24.0_f64).sqrt());
        let normal = Null::Normal { mean, sd };
        for rank in (1850..=1955).step_by(15) {
            close(cumulated[rank as usize], normal.at_most(rank));
        }
    }
}
