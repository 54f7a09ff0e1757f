//! Loss of probes, and the probability of each size to be the MTU, which proposes the sizes to try next.
//!
//! A probe of a size is answered only if the MTU is at least that, and may get lost even so. So an answer rules out
//! everything below, and a loss makes everything from there on less likely, by as much as probes get lost by chance
//! (Bayes' theorem). What to try next are the sizes that divide what is left into equal parts. That is a binary search
//! where nothing is known, goes to the usual sizes first, tries what a router reports, and does not go
//! astray when a probe is lost. It only guides the search: what is found rests on probes alone.

use std::collections::BTreeMap;

/// MTUs that are met, and how often in proportion: minimums of IPv4 and IPv6, tunnels over Ethernet (VXLAN, GRE, ESP,
/// 6in4, PPP, MPLS, VLAN), Ethernet itself, FDDI, token ring, jumbo frames of several makers.
const USUAL_BYTES: [(u32, u32); 32] = [
    (576, 1),
    (1006, 1),
    (1280, 3),
    (1358, 1),
    (1380, 1),
    (1390, 1),
    (1400, 3),
    (1410, 1),
    (1412, 1),
    (1420, 3),
    (1428, 1),
    (1436, 1),
    (1440, 1),
    (1442, 1),
    (1446, 1),
    (1450, 2),
    (1454, 1),
    (1458, 1),
    (1460, 1),
    (1462, 1),
    (1464, 1),
    (1472, 1),
    (1476, 1),
    (1480, 2),
    (1488, 1),
    (1492, 4),
    (1500, 8),
    (2002, 1),
    (4352, 1),
    (4464, 1),
    (9000, 3),
    (9216, 1),
];

/// What the usual sizes together, and the largest possible size, get before anything was tried; the rest is for all
/// others.
const USUAL_SHARE: f64 = 0.5;
const CEILING_SHARE: f64 = 0.3;

/// Nothing gets so unlikely that it could not come back.
const LEAST: f64 = 1e-12;

#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) floor: u32,
    pub(super) low: u32,
    pub(super) ceiling: u32,
    pub(super) vanished: &'a BTreeMap<u32, u32>,
    pub(super) loss: f64,
    pub(super) said: &'a [u32],
}

#[derive(Debug, Clone)]
pub(super) struct SizeDistribution {
    low: u32,
    /// They add up to 1.
    weights: Vec<f64>,
}

impl SizeDistribution {
    pub(super) fn of(known: &Known<'_>) -> Self {
        let Known { floor, low, ceiling, .. } = *known;
        let usual_times =
            |from: u32| USUAL_BYTES.iter().filter(move |(size, _)| (from..=ceiling).contains(size));
        let times = usual_times(floor).map(|(_, times)| *times).sum::<u32>().max(1);
        // An MTU is as likely between 1000 and 2000 as between 2000 and 4000.
        let span = (f64::from(ceiling + 1) / f64::from(floor.min(ceiling).max(1))).ln();
        let others = (1.0 - USUAL_SHARE - CEILING_SHARE) / span;
        let mut weights: Vec<f64> =
            (low..=ceiling.max(low)).map(|size| others / f64::from(size.max(1))).collect();
        let mut add = |size: u32, share: f64| {
            if let Some(weight) = size.checked_sub(low).and_then(|at| weights.get_mut(at as usize)) {
                *weight += share;
            }
        };
        for (size, often) in usual_times(low) {
            add(*size, USUAL_SHARE * f64::from(*often) / f64::from(times));
        }
        add(ceiling, CEILING_SHARE);
        for said in known.said {
            // As likely as all else together.
            add(*said, 1.0);
        }
        let (mut factor, mut vanished) = (1.0, known.vanished.iter().peekable());
        for (size, weight) in (low..).zip(&mut weights) {
            while let Some((_, times)) = vanished.next_if(|(lost, _)| **lost <= size) {
                factor = (factor * known.loss.powi(*times as i32)).max(LEAST);
            }
            *weight *= factor;
        }
        let total: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight = (*weight / total).max(LEAST);
        }
        Self { low, weights }
    }

    pub(super) fn is_low(&self) -> f64 {
        self.weights.first().copied().unwrap_or(1.0)
    }

    /// Sizes to try next, ascending: those that divide what is left into about `parts` equal parts. Where one size is
    /// much of it, that size and one byte more.
    pub(super) fn divisions(&self, parts: usize) -> Vec<u32> {
        let total: f64 = self.weights.iter().sum();
        let step = total / (parts + 1) as f64;
        let to = self.low + self.weights.len() as u32 - 1;
        let (mut sum, mut next) = (0.0, step);
        let mut sizes = Vec::with_capacity(2 * parts);
        for (size, weight) in (self.low..).zip(&self.weights) {
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
        sizes.retain(|size| (self.low + 1..=to).contains(size));
        sizes.dedup();
        sizes
    }
}

/// The largest chance of being wrong with which a size is taken for too large.
pub(super) const DOUBT: f64 = 1e-5;

/// Confidence of the bound: one-sided, in standard deviations of a binomial distribution.
const DEVIATIONS: f64 = 1.64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) answered: u32,
    pub(super) lost: u32,
}

impl Loss {
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

    pub(super) fn chance_of_all(self, times: u32) -> f64 {
        self.bound().powi(times.min(10_000) as i32)
    }

    pub(super) fn times_needed(self) -> u32 {
        let bound = self.bound();
        if bound >= 0.999 { 10_000 } else { ((DOUBT.ln() / bound.ln()).ceil() as u32).max(3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<'a>(low: u32, ceiling: u32, vanished: &'a BTreeMap<u32, u32>, said: &'a [u32]) -> Known<'a> {
        Known { floor: 1280.min(low), low, ceiling, vanished, loss: 0.05, said }
    }

    #[test]
    fn the_usual_sizes_come_first_and_what_is_answered_divides_the_rest() {
        let mut vanished = BTreeMap::new();
        let first = SizeDistribution::of(&known(1280, 9000, &vanished, &[])).divisions(12);
        assert!([1500, 1501, 9000].iter().all(|size| first.contains(size)), "{first:?}");
        vanished.insert(1500, 1);
        let distribution = SizeDistribution::of(&known(1492, 9000, &vanished, &[]));
        let next = distribution.divisions(12);
        assert!(next.iter().all(|size| *size > 1492) && next.contains(&1493), "{next:?}");
        assert!(distribution.is_low() > 0.3, "{}", distribution.is_low());
    }

    #[test]
    fn a_word_is_tried_with_one_byte_more_and_forgotten_when_it_is_wrong() {
        let mut vanished = BTreeMap::new();
        let sizes = SizeDistribution::of(&known(576, 9000, &vanished, &[1337])).divisions(8);
        assert!(sizes.contains(&1337) && sizes.contains(&1338), "{sizes:?}");
        vanished.insert(1300, 3);
        let sizes = SizeDistribution::of(&known(576, 9000, &vanished, &[1337])).divisions(8);
        assert!(!sizes.contains(&1337), "{sizes:?}");
        for said in [0, 300, 70_000, u32::MAX] {
            let sizes = SizeDistribution::of(&known(1400, 9000, &vanished, &[said])).divisions(8);
            assert!(sizes.iter().all(|size| (1401..=9000).contains(size)), "{sizes:?}");
        }
        // Nothing left to try, and nothing to trip over.
        assert!(SizeDistribution::of(&known(1400, 1400, &vanished, &[])).divisions(8).is_empty());
    }

    #[test]
    fn every_size_is_found_by_dividing_in_few_rounds() {
        for (ceiling, mtu) in [(1500, 1281), (1500, 1499), (9000, 1501), (9000, 7777), (65_535, 33_333)] {
            let (mut low, mut rounds, mut vanished) = (1280, 0, BTreeMap::new());
            loop {
                let distribution = SizeDistribution::of(&known(low, ceiling, &vanished, &[]));
                if low == mtu && distribution.is_low() > 0.9 {
                    break;
                }
                for size in distribution.divisions(12) {
                    if size <= mtu {
                        low = low.max(size);
                    } else {
                        *vanished.entry(size).or_insert(0) += 1;
                    }
                }
                rounds += 1;
            }
            assert!(rounds <= 7, "{mtu} below {ceiling}: {rounds} rounds");
        }
    }

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
