//! Random bytes from the kernel's cryptographic source, for test names, keys and seeds.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// `N` random bytes.
///
/// # Panics
/// If getrandom(2) fails, as in a sandbox that forbids it.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
    bytes
}

/// A seed of 32 bits, short enough to type.
pub fn seed() -> u64 {
    u64::from(u32::from_ne_bytes(bytes()))
}

/// A number from 0 to below 1.
pub fn fraction() -> f64 {
    f64::from(u32::from_ne_bytes(bytes())) / (f64::from(u32::MAX) + 1.0)
}
