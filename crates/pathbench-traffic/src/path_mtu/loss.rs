//! How many probes get lost that should not, and what that means for one that is.

/// The largest chance of being wrong with which a size is taken for too large.
pub(super) const DOUBT: f64 = 1e-5;

/// How far out of its way the bound goes for bad luck: one-sided, in standard deviations of a binomial distribution.
const DEVIATIONS: f64 = 1.64;

/// Fates of probes that are known to be short enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// Came through.
    pub(super) answered: u32,
    /// Did not.
    pub(super) lost: u32,
}

impl Loss {
    /// Part of them that was lost.
    pub(super) fn share(self) -> f64 {
        f64::from(self.lost) / f64::from(self.answered + self.lost).max(1.0)
    }

    /// What the next one's chance to be lost is (Laplace's rule of succession).
    pub(super) fn expected(self) -> f64 {
        (f64::from(self.lost) + 1.0) / f64::from(self.answered + self.lost + 2)
    }

    /// What that chance hardly exceeds: the upper end of Wilson's score interval ("Probable inference", JASA 1927),
    /// which is honest with few probes, too.
    pub(super) fn bound(self) -> f64 {
        let count = f64::from(self.answered + self.lost);
        if count < 1.0 {
            return 1.0;
        }
        let (share, z) = (self.share(), DEVIATIONS);
        let middle = share + z * z / (2.0 * count);
        let width = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
        ((middle + width) / (1.0 + z * z / count)).clamp(0.0, 1.0)
    }

    /// The chance that `times` probes of a size that passes were all lost.
    pub(super) fn chance_of_all(self, times: u32) -> f64 {
        self.bound().powi(times.min(10_000) as i32)
    }

    /// How many probes of a size must have been lost to take it for too large.
    pub(super) fn times_needed(self) -> u32 {
        let bound = self.bound();
        if bound >= 0.999 { 10_000 } else { ((DOUBT.ln() / bound.ln()).ceil() as u32).max(3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_probes_make_surer_and_losses_make_less_sure() {
        let loss = |answered, lost| Loss { answered, lost };
        assert!(loss(10, 0).bound() > loss(30, 0).bound());
        assert!(loss(20, 4).bound() > loss(24, 0).bound());
        assert!(loss(20, 4).bound() > loss(20, 4).share());
        assert!((4..=8).contains(&loss(12, 0).times_needed()), "{}", loss(12, 0).times_needed());
        assert!((9..=20).contains(&loss(16, 6).times_needed()), "{}", loss(16, 6).times_needed());
        for (answered, lost) in [(12, 0), (30, 3), (16, 6), (2, 8)] {
            let loss = loss(answered, lost);
            assert!(loss.chance_of_all(loss.times_needed()) <= DOUBT, "{loss:?}");
        }
        assert!(loss(0, 0).times_needed() > 1000, "nothing is known without a single answer");
    }
}
