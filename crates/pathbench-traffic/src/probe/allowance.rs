//! What may still be given to somebody, refilled over time.

use pathbench_record::time::Timestamp;

/// A token bucket of one second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    per_second: u64,
    /// In thousandths of a unit.
    left: u64,
    at: Timestamp,
}

impl Allowance {
    /// A full one, of so many units per second.
    pub(super) const fn full(per_second: u64, now: Timestamp) -> Self {
        Self { per_second, left: per_second * 1000, at: now }
    }

    /// Takes so many units, if they are there.
    pub(super) fn take(&mut self, units: u64, now: Timestamp) -> bool {
        let elapsed_ns = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        let gained = u128::from(elapsed_ns) * u128::from(self.per_second) / 1_000_000;
        // Time is not taken off before it has become a whole thousandth.
        if gained > 0 {
            let full = self.per_second * 1000;
            self.left =
                u64::try_from(gained).map_or(full, |gained| self.left.saturating_add(gained).min(full));
            self.at = now;
        }
        let cost = units.saturating_mul(1000);
        let allowed = self.left >= cost;
        self.left -= if allowed { cost } else { 0 };
        allowed
    }

    /// When something was last asked for, nearly.
    pub(super) const fn used_at(&self) -> Timestamp {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_what_it_gains_and_no_more_than_a_second_of_it_at_once() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let mut allowance = Allowance::full(1000, at(0));
        assert!(allowance.take(1000, at(0)));
        assert!(!allowance.take(1, at(0)));
        assert!(allowance.take(10, at(10)));
        assert!(!allowance.take(1001, at(1_000_000)));
        assert!(allowance.take(1000, at(1_000_000)));
    }
}
