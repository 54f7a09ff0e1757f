//! The Internet checksum (RFC 1071), which is a sum in ones' complement of 16-bit words.

/// The sum of `bytes` on top of `sum`, not folded; an odd last byte counts as the upper half of a word.
pub(super) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let whole: u64 =
        words.by_ref().map(|word| word.try_into().map_or(0, u32::from_be_bytes)).map(u64::from).sum();
    let rest = words.remainder();
    let mut last = [0; 4];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    sum + whole + u64::from(u32::from_be_bytes(last))
}

/// A sum as 16 bits.
pub(super) const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A checksum after a word that it covers has changed (RFC 1624, equation 3).
pub(super) const fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !fold((!checksum) as u64 + (!old) as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn examples_of_the_rfcs() {
        // RFC 1071, section 3.
        assert_eq!(fold(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        // RFC 1624, section 4.
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn a_sum_is_that_of_its_words(bytes: Vec<u8>) {
            let words = bytes.chunks(2).map(|word| {
                u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0))
            });
            let (found, expected) = (fold(add(0, &bytes)), fold(words.sum()));
            // Ones' complement has two zeros, and only a sum of nothing is the first.
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn an_update_is_what_a_new_sum_would_be(mut words in proptest::collection::vec(1..=u16::MAX, 2..20), new in 1..=u16::MAX) {
            let sum = |words: &[u16]| !fold(words.iter().map(|&word| u64::from(word)).sum());
            let before = sum(&words);
            let old = std::mem::replace(&mut words[0], new);
            prop_assert_eq!(updated(before, old, new), sum(&words));
        }
    }
}
