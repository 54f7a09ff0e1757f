//! Cookies: a peer that returns one receives at the address that it was sent to.

use pathbench_record::time::Timestamp;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A key is used this long, and accepted as long again: a cookie is good for one to two hours.
const KEY_TIME: Duration = Duration::from_secs(3600);

/// Makes and checks cookies: HMAC-SHA256 over address and session, cut to 64 bits, under a random key of this
/// process.
#[derive(Debug)]
pub(crate) struct Cookies {
    current: hmac::Key,
    previous: Option<hmac::Key>,
    since: Timestamp,
}

impl Cookies {
    /// Cookies under a fresh key.
    ///
    /// # Panics
    /// Where the kernel gives no random bytes: nothing would prove an address then.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { current: hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()), previous: None, since: now }
    }

    pub(crate) fn cookie(&mut self, now: Timestamp, address: SocketAddr, session: u64) -> u64 {
        self.change_key(now);
        cookie(&self.current, address, session)
    }

    /// Whether this is a cookie for that address and session, made one to two hours ago at most.
    pub(crate) fn is_valid(&mut self, now: Timestamp, address: SocketAddr, session: u64, given: u64) -> bool {
        self.change_key(now);
        let keys = [Some(&self.current), self.previous.as_ref()];
        keys.into_iter().flatten().any(|key| cookie(key, address, session) == given)
    }

    fn change_key(&mut self, now: Timestamp) {
        let used = now.since(self.since);
        if used >= KEY_TIME {
            let fresh = Self::new(now);
            let last = std::mem::replace(self, fresh).current;
            self.previous = (used < KEY_TIME * 2).then_some(last);
        }
    }
}

fn cookie(key: &hmac::Key, address: SocketAddr, session: u64) -> u64 {
    let mut context = hmac::Context::with_key(key);
    match address.ip().to_canonical() {
        IpAddr::V4(address) => context.update(&address.octets()),
        IpAddr::V6(address) => context.update(&address.octets()),
    }
    context.update(&address.port().to_be_bytes());
    context.update(&session.to_be_bytes());
    let tag = context.sign();
    tag.as_ref().iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The number of a session, which an off-path attacker cannot guess.
///
/// # Panics
/// Where the kernel gives no random bytes.
pub(crate) fn random_session() -> u64 {
    u64::from_ne_bytes(random())
}

/// getrandom(2) fails only in a sandbox that forbids it.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    assert!(SystemRandom::new().fill(&mut bytes).is_ok(), "the kernel gives no random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_nanos(minutes * 60_000_000_000)
    }

    #[test]
    fn the_algorithm_is_fixed() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        // printf '\xc0\0\x02\x01\x03\xe8\0\0\0\0\0\0\0\x4d' | openssl dgst -sha256 -hmac key
        assert_eq!(cookie(&key, "192.0.2.1:1000".parse().unwrap(), 77), EXPECTED);
        assert_eq!(cookie(&key, "[::ffff:192.0.2.1]:1000".parse().unwrap(), 77), EXPECTED);
    }

    const EXPECTED: u64 = 0xfc7f_8148_f43d_e0d4;

    #[test]
    fn a_cookie_outlives_one_change_of_the_key() {
        let address = "192.0.2.1:1000".parse().unwrap();
        let mut cookies = Cookies::new(at(0));
        let early = cookies.cookie(at(0), address, 1);
        let late = cookies.cookie(at(59), address, 1);
        assert_eq!(early, late);
        assert!(cookies.is_valid(at(60), address, 1, early), "the previous key");
        assert_ne!(cookies.cookie(at(61), address, 1), early);
        assert!(cookies.is_valid(at(119), address, 1, early));
        assert!(!cookies.is_valid(at(120), address, 1, early));
        let last = cookies.cookie(at(121), address, 1);
        assert!(!cookies.is_valid(at(300), address, 1, last), "after hours of silence");
        assert!(!Cookies::new(at(0)).is_valid(at(0), address, 1, early), "of another start");
    }

    #[test]
    fn a_cookie_is_for_one_address_and_session() {
        let mut cookies = Cookies::new(at(0));
        let given = cookies.cookie(at(0), "192.0.2.1:1000".parse().unwrap(), 1);
        for (address, session) in [("192.0.2.1:1001", 1), ("192.0.2.2:1000", 1), ("192.0.2.1:1000", 2)] {
            assert!(!cookies.is_valid(at(0), address.parse().unwrap(), session, given));
        }
    }
}
