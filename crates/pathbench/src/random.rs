//! Random bytes of the kernel's cryptographic source, for names of tests, keys and seeds.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// `N` random bytes.
///
/// # Panics
/// Where the kernel gives none (a sandbox that forbids getrandom(2)): nothing may be named, then.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
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

/// A seed that is easy to type again.
pub(crate) fn seed() -> u64 {
    u64::from(u32::from_ne_bytes(bytes()))
}
