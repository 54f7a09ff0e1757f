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

/// `SplitMix64`'s output function.
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Content {
    pub fn new(test: TestId, stream: u32, kind: ContentKind) -> Self {
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
        let (head, rest) = bytes.split_at_mut(head_bytes(offset, bytes.len()));
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
        let wrong = |bytes: &[u8], from: u64| {
            bytes.iter().zip(from..).find(|(byte, at)| **byte != self.byte(*at)).map(|(_, at)| at)
        };
        let (head, rest) = bytes.split_at(head_bytes(offset, bytes.len()));
        let first = offset + head.len() as u64;
        let (words, tail) = rest.as_chunks::<8>();
        let mut compared = words.iter().zip(first / 8..);
        wrong(head, offset)
            .or_else(|| {
                compared
                    .find(|(word, index)| u64::from_le_bytes(**word) != self.word(*index))
                    .and_then(|(word, index)| wrong(word, index * 8))
            })
            .or_else(|| wrong(tail, first + words.len() as u64 * 8))
    }
}

/// Bytes before the first whole word.
fn head_bytes(offset: u64, length: usize) -> usize {
    length.min((offset.wrapping_neg() % 8) as usize)
}
