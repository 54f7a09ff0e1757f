//! The content of the test data, which lets the receiver detect a wrong byte: each stream of each test has its own
//! content, computed by both ends.

use pathbench_record::end::TestId;

/// A pseudo-random byte stream that can be computed at any offset.
///
/// Word `i` (8 bytes, little-endian) is the `i`-th output of `SplitMix64` (Steele, Lea and Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014) from a seed of the test, the stream and the kind. Bytes of another
/// test, stream or offset are therefore wrong bytes. The generator is not a cipher: it detects errors, not forgeries.
/// One core computes or verifies several gigabytes per second (benchmark in docs/performance.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum ContentKind {
    Download = 1,
    Requests = 2,
    Answers = 3,
    Upload = 4,
}

/// 2^64 / golden ratio: `SplitMix64`'s increment.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Size of a block that is computed and compared at once; it fits into the L1 cache.
const COMPARED_BYTES: usize = 4096;

/// `SplitMix64`'s output function.
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Content {
    pub fn of(test: TestId, stream: u32, kind: ContentKind) -> Self {
        let test = u128::from_be_bytes(test.0);
        let seed = mix(test as u64 ^ mix((test >> 64) as u64));
        Self { seed: mix(seed ^ (u64::from(stream) << 8 | kind as u64)) }
    }

    const fn word(self, index: u64) -> u64 {
        mix(self.seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    const fn byte(self, offset: u64) -> u8 {
        self.word(offset / 8).to_le_bytes()[(offset % 8) as usize]
    }

    pub fn fill(self, offset: u64, bytes: &mut [u8]) {
        let head = bytes.len().min((offset.wrapping_neg() % 8) as usize);
        let (head, rest) = bytes.split_at_mut(head);
        for (byte, at) in head.iter_mut().zip(offset..) {
            *byte = self.byte(at);
        }
        let aligned = offset + head.len() as u64;
        let (words, tail) = rest.as_chunks_mut::<8>();
        let behind = aligned + words.len() as u64 * 8;
        for (word, index) in words.iter_mut().zip(aligned / 8..) {
            *word = self.word(index).to_le_bytes();
        }
        for (byte, at) in tail.iter_mut().zip(behind..) {
            *byte = self.byte(at);
        }
    }

    /// The offset of the first wrong byte in `bytes`, which begin at `offset`.
    pub fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; COMPARED_BYTES];
        bytes.chunks(COMPARED_BYTES).zip((offset..).step_by(COMPARED_BYTES)).find_map(|(found, from)| {
            let expected = &mut expected[..found.len()];
            self.fill(from, expected);
            if expected == found {
                return None;
            }
            let wrong = found.iter().zip(expected.iter()).position(|(found, expected)| found != expected);
            wrong.map(|place| from + place as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_splitmix64s() {
        // Published outputs of the generator from the seed 1234567.
        let content = Content { seed: 1_234_567 };
        assert_eq!(content.word(0), 6_457_827_717_110_365_317);
        assert_eq!(content.word(1), 3_203_168_211_198_807_973);
    }
}
