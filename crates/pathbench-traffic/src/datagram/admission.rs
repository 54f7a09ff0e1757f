//! Admission of clients: the server answers clients that return a cookie, within budgets of messages and bytes.

use crate::pacer::TokenBucket;
use pathbench_record::network::{Client, ClientNetwork};
use pathbench_record::time::Timestamp;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Probes per second of one client, and the size of a burst: four interfaces behind one NAT at 20 ms.
const CLIENT_PROBES: u64 = 200;

/// Messages of path MTU searches per second of one client: searches of four paths.
const CLIENT_SIZES: u64 = 1000;
/// Bytes per second of the packets that one client requests. The address of a cookie can change hands while the cookie
/// is valid, so the rate is that of repeated searches, and the burst that of the searches of four paths at once.
const CLIENT_BYTES: u64 = 200_000;
const CLIENT_BURST_BYTES: u64 = 1_200_000;
/// As `CLIENT_BYTES`, for all clients together.
const ALL_BYTES: u64 = 4_000_000;
const ALL_BURST_BYTES: u64 = 8_000_000;

/// Hellos per second that are answered in total, and the size of a burst.
const HELLOS: u64 = 5000;
/// As `HELLOS`, per network, so that forged sources of some networks do not exhaust the budget of the others.
const NETWORK_HELLOS: u64 = 50;
/// Number of token buckets for networks. Clients cannot determine which networks share a bucket.
const NETWORKS: usize = 1024;
/// A client that was silent for this long may be evicted in favour of another.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct ClientBudget {
    probes: TokenBucket,
    sizes: TokenBucket,
    bytes: TokenBucket,
}

impl ClientBudget {
    fn full(now: Timestamp) -> Self {
        Self {
            probes: TokenBucket::full(CLIENT_PROBES, now),
            sizes: TokenBucket::full(CLIENT_SIZES, now),
            bytes: TokenBucket::with_capacity(CLIENT_BYTES, CLIENT_BURST_BYTES, now),
        }
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        now.duration_since(self.probes.last_use().max(self.sizes.last_use())) >= IDLE
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Cost {
    Probe,
    Size,
    Bytes(u64),
}

/// Clients that have returned their cookies do not use the budget of hellos; sources of hellos are easily forged.
#[derive(Debug)]
pub struct DatagramBudget {
    hellos: TokenBucket,
    networks: Vec<TokenBucket>,
    slot_hash: RandomState,
    clients: HashMap<Client, ClientBudget>,
    most_clients: usize,
    bytes: TokenBucket,
}

impl DatagramBudget {
    pub fn new(most_clients: usize, now: Timestamp) -> Self {
        Self {
            hellos: TokenBucket::full(HELLOS, now),
            networks: vec![TokenBucket::full(NETWORK_HELLOS, now); NETWORKS],
            slot_hash: RandomState::new(),
            clients: HashMap::new(),
            most_clients: most_clients.max(1),
            bytes: TokenBucket::with_capacity(ALL_BYTES, ALL_BURST_BYTES, now),
        }
    }

    pub fn take_hello(&mut self, from: IpAddr, now: Timestamp) -> bool {
        let network = ClientNetwork::from(from);
        let slot = self.slot_hash.hash_one(network) as usize % NETWORKS;
        // The network's bucket first: a flood from one network does not exhaust the total budget.
        self.networks[slot].take(1, now) && self.hellos.take(1, now)
    }

    /// Whether the number of active clients without this one has reached its limit.
    pub fn is_full(&self, from: IpAddr, now: Timestamp) -> bool {
        let active = self.clients.values().filter(|client| !client.is_idle(now));
        !self.clients.contains_key(&Client::from(from)) && active.count() >= self.most_clients
    }

    pub fn take(&mut self, from: IpAddr, cost: Cost, now: Timestamp) -> bool {
        let client = Client::from(from);
        if !self.clients.contains_key(&client) && self.clients.len() >= self.most_clients {
            self.clients.retain(|_, client| !client.is_idle(now));
            if self.clients.len() >= self.most_clients {
                return false;
            }
        }
        let client = self.clients.entry(client).or_insert_with(|| ClientBudget::full(now));
        match cost {
            Cost::Probe => client.probes.take(1, now),
            Cost::Size => client.sizes.take(1, now),
            Cost::Bytes(bytes) => client.bytes.take(bytes, now) && self.bytes.take(bytes, now),
        }
    }
}

/// A key is used this long, then accepted for the same time again: a cookie is valid for 2.5 to 5 minutes, longer than a
/// search of a path MTU. A holder of a cookie can direct packets at the next user of its address for that long.
const KEY_TIME: Duration = Duration::from_secs(150);
/// Age at which a client requests a new cookie, with several attempts before the old one expires.
pub(crate) const COOKIE_RENEWAL: Duration = Duration::from_secs(60);
/// Age up to which a client uses a cookie.
pub(crate) const COOKIE_VALIDITY: Duration = Duration::from_secs(140);
const _: () = assert!(COOKIE_VALIDITY.as_secs() < KEY_TIME.as_secs());

/// Makes and checks cookies: HMAC-SHA256 over address and session, truncated to 64 bits, under a random key of this
/// process.
#[derive(Debug)]
pub struct Cookies {
    current: hmac::Key,
    previous: Option<hmac::Key>,
    since: Timestamp,
}

impl Cookies {
    /// Cookies under a fresh key.
    ///
    /// # Panics
    /// If the kernel provides no random bytes: cookies would not prove an address.
    pub fn new(now: Timestamp) -> Self {
        Self { current: hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>()), previous: None, since: now }
    }

    pub fn cookie(&mut self, now: Timestamp, address: SocketAddr, session: u64) -> u64 {
        self.change_key(now);
        cookie(&self.current, address, session)
    }

    /// Whether this is a cookie for that address and session, made at most 2.5 to 5 minutes ago.
    pub fn is_valid(&mut self, now: Timestamp, address: SocketAddr, session: u64, given: u64) -> bool {
        self.change_key(now);
        let keys = [Some(&self.current), self.previous.as_ref()];
        keys.into_iter().flatten().any(|key| cookie(key, address, session) == given)
    }

    fn change_key(&mut self, now: Timestamp) {
        let used = now.duration_since(self.since);
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

/// A session number that an off-path attacker cannot guess.
///
/// # Panics
/// If the kernel provides no random bytes.
pub(crate) fn random_session() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

/// getrandom(2) fails only in a sandbox that forbids it.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    assert!(SystemRandom::new().fill(&mut bytes).is_ok(), "the kernel gives no random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_is_fixed() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        // printf '\xc0\0\x02\x01\x03\xe8\0\0\0\0\0\0\0\x4d' | openssl dgst -sha256 -hmac key
        assert_eq!(cookie(&key, "192.0.2.1:1000".parse().unwrap(), 77), EXPECTED);
        assert_eq!(cookie(&key, "[::ffff:192.0.2.1]:1000".parse().unwrap(), 77), EXPECTED);
    }

    const EXPECTED: u64 = 0xfc7f_8148_f43d_e0d4;
}
