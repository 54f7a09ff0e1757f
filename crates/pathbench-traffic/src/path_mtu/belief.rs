//! Where the MTU may lie, as a probability of each size, and which sizes to try next.
//!
//! A probe of a size is answered only if the MTU is at least that, and may get lost even so. So an answer rules out
//! everything below, and a loss makes everything from there on less likely, by as much as probes get lost by chance
//! (Bayes' theorem). What to try next are the sizes that divide what is left into equal parts. That is a binary search
//! where nothing is known, goes to the usual sizes first, takes a router's word for what it may be worth, and does not go
//! astray when a probe is lost. It only guides the search: what is found rests on probes alone.

use super::size::USUAL_BYTES;

/// What the usual sizes together, and the largest possible size, get before anything was tried; the rest is for all
/// others.
const USUAL_SHARE: f64 = 0.5;
const CEILING_SHARE: f64 = 0.3;

/// Nothing gets so unlikely that it could not come back.
const LEAST: f64 = 1e-12;

/// How likely each size is the MTU.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    /// The size that `weights` begins with.
    from: u32,
    /// Not normalised.
    weights: Vec<f64>,
}

impl Belief {
    /// What to expect of an MTU between `from` and `to`.
    pub(super) fn new(from: u32, to: u32) -> Self {
        let sizes = from..=to.max(from);
        let within = USUAL_BYTES.iter().filter(|(size, _)| sizes.contains(size));
        let usual = within.map(|(_, times)| *times).sum::<u32>().max(1);
        // An MTU is as likely between 1000 and 2000 as between 2000 and 4000.
        let scale: f64 = sizes.clone().map(|size| 1.0 / f64::from(size)).sum();
        let others = 1.0 - USUAL_SHARE - CEILING_SHARE;
        let mut weights: Vec<f64> = sizes.map(|size| others / scale / f64::from(size)).collect();
        for (size, times) in USUAL_BYTES {
            if let Some(weight) = size.checked_sub(from).and_then(|at| weights.get_mut(at as usize)) {
                *weight += USUAL_SHARE * f64::from(times) / f64::from(usual);
            }
        }
        if let Some(last) = weights.last_mut() {
            *last += CEILING_SHARE;
        }
        Self { from, weights }
    }

    /// A probe of `size` was answered.
    pub(super) fn passed(&mut self, size: u32) {
        let below = (size.saturating_sub(self.from) as usize).min(self.weights.len());
        self.weights[..below].fill(0.0);
    }

    /// A probe of `size` was lost, where probes get lost by chance with probability `chance`.
    pub(super) fn lost(&mut self, size: u32, chance: f64) {
        let from = (size.saturating_sub(self.from) as usize).min(self.weights.len());
        for weight in &mut self.weights[from..] {
            *weight *= chance;
        }
    }

    /// Nothing larger than `size` can be sent.
    pub(super) fn limit(&mut self, size: u32) {
        self.weights.truncate((size + 1).saturating_sub(self.from).max(1) as usize);
        let total: f64 = self.weights.iter().sum();
        if let Some(last) = self.weights.last_mut() {
            *last += total * CEILING_SHARE / (1.0 - CEILING_SHARE);
        }
        self.normalise();
    }

    /// Somebody says that it is `size`: as likely as all else together.
    pub(super) fn hint(&mut self, size: u32) {
        let total: f64 = self.weights.iter().sum();
        if let Some(weight) = size.checked_sub(self.from).and_then(|at| self.weights.get_mut(at as usize)) {
            *weight += total;
        }
    }

    /// Probability that it is `size`.
    pub(super) fn probability(&self, size: u32) -> f64 {
        let total: f64 = self.weights.iter().sum();
        let weight = size.checked_sub(self.from).and_then(|at| self.weights.get(at as usize));
        weight.map_or(0.0, |weight| weight / total.max(f64::MIN_POSITIVE))
    }

    /// Sizes above `low` to try next, ascending: those that divide what is left into about `parts` equal parts. Where
    /// one size is much of it, that size and one byte more.
    pub(super) fn divisions(&mut self, low: u32, parts: usize) -> Vec<u32> {
        self.normalise();
        let total: f64 = self.weights.iter().sum();
        let (step, to) = (total / (parts + 1) as f64, self.from + self.weights.len() as u32 - 1);
        let (mut sum, mut next) = (0.0, step);
        let mut sizes = Vec::with_capacity(2 * parts);
        for (size, weight) in (self.from..).zip(&self.weights) {
            sum += weight;
            if sum < next || sizes.len() >= 2 * parts {
                continue;
            }
            while next <= sum {
                next += step;
            }
            sizes.push(size);
            if *weight > step / 2.0 {
                sizes.push(size + 1);
            }
        }
        sizes.retain(|size| (low + 1..=to).contains(size));
        sizes.dedup();
        sizes
    }

    fn normalise(&mut self) {
        let total: f64 = self.weights.iter().sum();
        for weight in self.weights.iter_mut().filter(|weight| **weight > 0.0) {
            *weight = (*weight / total.max(f64::MIN_POSITIVE)).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_sizes_come_first_and_what_is_answered_divides_the_rest() {
        let mut belief = Belief::new(1280, 9000);
        let first = belief.divisions(1280, 12);
        assert!(first.contains(&1500) || first.contains(&1492), "{first:?}");
        belief.passed(1492);
        belief.lost(1500, 0.05);
        let next = belief.divisions(1492, 12);
        assert!(next.iter().all(|size| *size > 1492) && next.contains(&1493), "{next:?}");
        assert!(belief.probability(1492) > 0.3, "{}", belief.probability(1492));
    }

    #[test]
    fn a_word_is_tried_with_one_byte_more_and_forgotten_when_it_is_wrong() {
        let mut belief = Belief::new(576, 9000);
        belief.hint(1337);
        let sizes = belief.divisions(576, 8);
        assert!(sizes.contains(&1337) && sizes.contains(&1338), "{sizes:?}");
        belief.passed(1400);
        assert!(belief.probability(1337) < 1e-9);
        belief.hint(300);
        belief.hint(70_000);
        assert!(belief.divisions(1400, 8).iter().all(|size| (1401..=9000).contains(size)));
    }

    #[test]
    fn every_size_is_found_by_dividing_in_few_rounds() {
        for (ceiling, mtu) in [(1500, 1281), (1500, 1499), (9000, 1501), (9000, 7777), (65_535, 33_333)] {
            let mut belief = Belief::new(1280, ceiling);
            let (mut low, mut rounds) = (1280, 0);
            loop {
                let sizes = belief.divisions(low, 12);
                for size in sizes {
                    if size <= mtu {
                        belief.passed(size);
                        low = low.max(size);
                    } else {
                        belief.lost(size, 0.05);
                    }
                }
                rounds += 1;
                if low == mtu && belief.probability(mtu) > 0.9 {
                    break;
                }
            }
            assert!(rounds <= 7, "{mtu} below {ceiling}: {rounds} rounds");
        }
    }
}
