//! The rule: *different*, *same* or *cannot tell*.

use super::estimate::Estimate;
use pathbench_record::document::Verdict;
use pathbench_record::statistics::FEWEST_FOR_INTERVAL;

/// The smallest effect that counts, as a part of the baseline.
pub const MARGIN: f64 = 0.05;

/// An equivalence margin on the scale of an [`Estimate`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub margin: f64,
}

impl Rule {
    /// For logarithms of ratios: the margin reaches from 1/(1 + `margin`) to 1 + `margin`, so that an exchange of baseline and
    /// candidate does not change the verdict.
    pub fn of_ratios(margin: f64) -> Self {
        Self { margin: margin.ln_1p() }
    }
}

/// *Different*: the interval excludes zero, and the effect is at least the margin. *Same*: the interval is within the margin.
/// Otherwise, and without an interval, the runs cannot tell.
///
/// The confidence-interval rule of equivalence tests with a smallest effect of interest: Schuirmann, "A Comparison of the Two
/// One-Sided Tests Procedure and the Power Approach", Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), here with
/// the wider two-sided 95 % interval for both verdicts.
pub fn judge(estimate: &Estimate, rule: Rule) -> Verdict {
    let Some([low, high]) = estimate.ci95 else { return Verdict::CannotTell };
    let excludes_zero = low > 0.0 || high < 0.0;
    if excludes_zero && estimate.shift.abs() >= rule.margin {
        Verdict::Different
    } else if -rule.margin <= low && high <= rule.margin {
        Verdict::Same
    } else {
        Verdict::CannotTell
    }
}

/// More repetitions are not worth naming: the effect is at the margin.
const MOST_NAMED: f64 = 10_000.0;

/// How many pairs decide with a probability of 80 %, if the effect and spread are those seen so far:
/// n = (z₀.₉₇₅ + z₀.₈₀)² · s² / h² · π/3, where `s` is the standard deviation of the pairs' differences and `h` the distance
/// that the interval's half width has to undercut: the effect itself if it reaches the margin, else its distance to the margin.
///
/// Sample size of a one-sample normal test, divided by the asymptotic efficiency 3/π of the signed-rank test against it:
/// Noether, "Sample Size Determination for Some Common Nonparametric Tests", Journal of the American Statistical Association
/// 82 (1987); Lehmann, Nonparametrics: Statistical Methods Based on Ranks (2006), section 4.3.
///
/// `None` if it is more than 10 000.
pub fn repetitions_needed(estimate: &Estimate, rule: Rule) -> Option<u32> {
    const QUANTILES: f64 = 1.959_964 + 0.841_621;
    let effect = estimate.shift.abs();
    let distance = if effect >= rule.margin { effect } else { rule.margin - effect };
    let needed = (QUANTILES * estimate.spread / distance).powi(2) * std::f64::consts::FRAC_PI_3;
    // A verdict is open, so more than those that exist are needed.
    let least = FEWEST_FOR_INTERVAL.max(estimate.n + 1) as f64;
    let needed = needed.max(least).ceil();
    (needed <= MOST_NAMED.max(least)).then_some(needed as u32)
}
