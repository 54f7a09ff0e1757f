//! Loss of probes, and the probability that each size is the MTU, which determines the next sizes to try.
//!
//! A probe of a size is answered only if the MTU is at least that size, and it may be lost by chance. An answer
//! excludes smaller MTUs; a loss makes the MTUs from this size on less likely, in proportion to the random loss (Bayes'
//! theorem). The next sizes divide the remaining probability into equal parts: a binary search if nothing is known. It
//! starts with common sizes, tries reported ones, tolerates lost probes, and only guides the search: the result depends
//! on probes alone.

use std::collections::BTreeMap;

/// Common MTUs by relative frequency: minimums of IPv4 and IPv6, tunnels over Ethernet (VXLAN, GRE, ESP, 6in4, PPP,
/// MPLS, VLAN), Ethernet itself, FDDI, Token Ring, jumbo frames of several vendors.
const USUAL_BYTES: [(u32, &[u32]); 5] = [
    (8, &[1500]),
    (4, &[1492]),
    (3, &[1280, 1400, 1420, 9000]),
    (2, &[1450, 1480]),
    (
        1,
        &[
            576, 1006, 1358, 1380, 1390, 1410, 1412, 1428, 1436, 1440, 1442, 1446, 1454, 1458, 1460, 1462,
            1464, 1472, 1476, 1488, 2002, 4352, 4464, 9216,
        ],
    ),
];

/// Prior probability of the common sizes together, and of the largest possible size; all other sizes share the rest.
const USUAL_SHARE: f64 = 0.5;
const CEILING_SHARE: f64 = 0.3;

/// Lower bound of a probability, so that later answers can raise it again.
const LEAST: f64 = 1e-12;

#[derive(Debug, Clone, Copy)]
pub struct Observations<'a> {
    pub floor: u32,
    pub low: u32,
    pub ceiling: u32,
    pub losses: &'a BTreeMap<u32, u32>,
    pub loss: f64,
    pub reported: &'a [u32],
}

#[derive(Debug, Clone)]
pub struct SizeDistribution {
    low: u32,
    /// The sum of the weights is 1.
    weights: Vec<f64>,
}

impl SizeDistribution {
    pub fn from_observations(known: &Observations<'_>) -> Self {
        let Observations { floor, low, ceiling, .. } = *known;
        let usual = |from: u32| {
            let sizes =
                USUAL_BYTES.iter().flat_map(|(often, sizes)| sizes.iter().map(|size| (*size, *often)));
            sizes.filter(move |(size, _)| (from..=ceiling).contains(size))
        };
        let times = usual(floor).map(|(_, often)| often).sum::<u32>().max(1);
        // Prior: an MTU is as likely between 1000 and 2000 as between 2000 and 4000.
        let span = (f64::from(ceiling + 1) / f64::from(floor.min(ceiling).max(1))).ln();
        let others = (1.0 - USUAL_SHARE - CEILING_SHARE) / span;
        let mut weights: Vec<f64> =
            (low..=ceiling.max(low)).map(|size| others / f64::from(size.max(1))).collect();
        let mut add = |size: u32, share: f64| {
            if let Some(weight) = size.checked_sub(low).and_then(|at| weights.get_mut(at as usize)) {
                *weight += share;
            }
        };
        for (size, often) in usual(low) {
            add(size, USUAL_SHARE * f64::from(often) / f64::from(times));
        }
        add(ceiling, CEILING_SHARE);
        for mtu in known.reported {
            // As likely as all other sizes together.
            add(*mtu, 1.0);
        }
        let (mut factor, mut losses) = (1.0, known.losses.iter().peekable());
        for (size, weight) in (low..).zip(&mut weights) {
            while let Some((_, times)) = losses.next_if(|(lost, _)| **lost <= size) {
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

    pub fn is_low(&self) -> f64 {
        self.weights.first().copied().unwrap_or(1.0)
    }

    /// Sizes to try next, ascending: those that divide the remaining probability into about `parts` equal parts. A size
    /// that holds much of it is followed by one byte more.
    pub fn divisions(&self, parts: usize) -> Vec<u32> {
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

/// Largest error probability with which a size counts as too large.
pub const DOUBT: f64 = 1e-5;

/// Confidence of the bound: one-sided, in standard deviations of a binomial distribution.
const DEVIATIONS: f64 = 1.64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeLoss {
    pub answered: u32,
    pub lost: u32,
}

impl ProbeLoss {
    pub fn share(self) -> f64 {
        f64::from(self.lost) / f64::from(self.answered + self.lost).max(1.0)
    }

    /// Probability that the next probe is lost (Laplace's rule of succession).
    pub fn expected_loss(self) -> f64 {
        (f64::from(self.lost) + 1.0) / f64::from(self.answered + self.lost + 2)
    }

    /// Upper bound of that probability: the upper end of Wilson's score interval ("Probable inference", JASA 1927),
    /// which holds with few probes, too.
    pub fn bound(self) -> f64 {
        let count = f64::from(self.answered + self.lost);
        if count < 1.0 {
            return 1.0;
        }
        let (share, z) = (self.share(), DEVIATIONS);
        let middle = share + z * z / (2.0 * count);
        let width = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
        ((middle + width) / (1.0 + z * z / count)).clamp(0.0, 1.0)
    }

    pub fn chance_of_all(self, times: u32) -> f64 {
        self.bound().powi(times.min(10_000) as i32)
    }

    pub fn times_needed(self) -> u32 {
        let bound = self.bound();
        if bound >= 0.999 { 10_000 } else { ((DOUBT.ln() / bound.ln()).ceil() as u32).max(3) }
    }
}
