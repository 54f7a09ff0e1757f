//! Random bytes of the kernel's cryptographic source, for names of tests, keys and seeds.

use rustix::rand::{GetRandomFlags, getrandom};

/// `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        // getrandom(2): once its pool is initialised, which it is long before a login, it fails for signals only.
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes
}

/// A seed that is easy to type again.
pub(crate) fn seed() -> u64 {
    u64::from(u32::from_ne_bytes(bytes()))
}
