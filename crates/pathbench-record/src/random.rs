//! Pseudorandom draws that a seed decides: for shuffling and resampling, not for secrets.

/// `SplitMix64`: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. Small,
/// seedable, and good enough to draw indices. The same seed gives the same draws in every version.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose draws `seed` decides.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound` (`bound` > 0) by multiplication; its bias, below `bound` ÷ 2⁶⁴, is of no account.
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.draw() as u128 * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_are_those_of_the_reference() {
        // The generator of java.util.SplittableRandom and of Vigna's splitmix64.c.
        let mut random = SplitMix64::new(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn every_index_is_drawn_and_none_beyond() {
        let mut random = SplitMix64::new(1);
        let mut drawn = [0; 5];
        for _ in 0..5_000 {
            drawn[random.below(5)] += 1;
        }
        assert!(drawn.iter().all(|count| (850..1_150).contains(count)), "{drawn:?}");
    }
}
