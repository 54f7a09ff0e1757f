//! How often, and with how many bytes, clients are answered.

use crate::server::Client;
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::time::Duration;

/// Probes per second of one client, and how many it may send at once: four interfaces behind one NAT at 20 ms.
const CLIENT_PROBES: u64 = 200;

/// Messages of path MTU searches per second of one client: searches of four paths.
const CLIENT_SIZES: u64 = 1000;
/// Bytes per second of the packets that one client requests, and how many at once.
const CLIENT_BYTES: u64 = 2_000_000;
/// The same of all clients together.
const ALL_BYTES: u64 = 8_000_000;

/// Hellos per second that are answered in all, and how many at once.
const HELLOS: u64 = 5000;
/// The same of one network, so that datagrams with forged sources of some networks do not keep the others out.
const NETWORK_HELLOS: u64 = 50;
/// Token buckets of networks. Clients cannot know which networks share one.
const NETWORKS: usize = 1024;
/// Prefix lengths: what one source can usually forge within.
const IPV4_PREFIX: u32 = 24;
const IPV6_PREFIX: u32 = 48;

/// A client that was silent for so long may be forgotten for another.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    per_second: u64,
    left: u64,
    at: Timestamp,
}

impl TokenBucket {
    const fn full(per_second: u64, now: Timestamp) -> Self {
        Self { per_second, left: per_second * 1000, at: now }
    }

    fn take(&mut self, units: u64, now: Timestamp) -> bool {
        let elapsed_ns = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        let gained = u128::from(elapsed_ns) * u128::from(self.per_second) / 1_000_000;
        // Time is not taken off before it has become a whole thousandth.
        if gained > 0 {
            let full = self.per_second * 1000;
            self.left =
                u64::try_from(gained).map_or(full, |gained| self.left.saturating_add(gained).min(full));
            self.at = now;
        }
        let cost = units.saturating_mul(1000);
        let allowed = self.left >= cost;
        self.left -= if allowed { cost } else { 0 };
        allowed
    }
}

#[derive(Debug, Clone, Copy)]
struct ClientBudget {
    probes: TokenBucket,
    sizes: TokenBucket,
    bytes: TokenBucket,
}

impl ClientBudget {
    const fn full(now: Timestamp) -> Self {
        Self {
            probes: TokenBucket::full(CLIENT_PROBES, now),
            sizes: TokenBucket::full(CLIENT_SIZES, now),
            bytes: TokenBucket::full(CLIENT_BYTES, now),
        }
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        now.since(self.probes.at.max(self.sizes.at)) >= IDLE
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Cost {
    Probe,
    Size,
    Bytes(u64),
}

/// Clients that have returned their cookies do not draw on the budget of hellos, whose sources anybody can forge.
#[derive(Debug)]
pub(super) struct Budget {
    hellos: TokenBucket,
    networks: Vec<TokenBucket>,
    places: RandomState,
    clients: HashMap<Client, ClientBudget>,
    most_clients: usize,
    bytes: TokenBucket,
}

impl Budget {
    pub(super) fn new(most_clients: usize, now: Timestamp) -> Self {
        Self {
            hellos: TokenBucket::full(HELLOS, now),
            networks: vec![TokenBucket::full(NETWORK_HELLOS, now); NETWORKS],
            places: RandomState::new(),
            clients: HashMap::new(),
            most_clients: most_clients.max(1),
            bytes: TokenBucket::full(ALL_BYTES, now),
        }
    }

    pub(super) fn take_hello(&mut self, from: IpAddr, now: Timestamp) -> bool {
        let network = match from.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_bits() >> (32 - IPV4_PREFIX)),
            IpAddr::V6(address) => address.to_bits() >> (128 - IPV6_PREFIX) | 1 << IPV6_PREFIX,
        };
        let place = self.places.hash_one(network) as usize % NETWORKS;
        // The network's first: what one network floods in vain is not taken off the others.
        self.networks[place].take(1, now) && self.hellos.take(1, now)
    }

    /// Whether there are as many active clients as there may be, without this one.
    pub(super) fn is_full(&self, from: IpAddr, now: Timestamp) -> bool {
        let active = self.clients.values().filter(|client| !client.is_idle(now));
        !self.clients.contains_key(&Client::from(from)) && active.count() >= self.most_clients
    }

    pub(super) fn take(&mut self, from: IpAddr, cost: Cost, now: Timestamp) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_it_gains_and_no_more_than_a_second_of_it_at_once() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let mut bucket = TokenBucket::full(1000, at(0));
        assert!(bucket.take(1000, at(0)));
        assert!(!bucket.take(1, at(0)));
        assert!(bucket.take(10, at(10)));
        assert!(!bucket.take(1001, at(1_000_000)));
        assert!(bucket.take(1000, at(1_000_000)));
    }

    #[test]
    fn clients_are_remembered_up_to_a_bound_and_forgotten_when_idle() {
        let at = |ms: u64| Timestamp::from_nanos(10_000_000_000 + ms * 1_000_000);
        let client = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut budget = Budget::new(4, at(0));
        for last in 0..4 {
            assert!(budget.take(client(last), Cost::Probe, at(0)));
        }
        assert!(budget.is_full(client(4), at(5000)) && !budget.is_full(client(3), at(5000)));
        assert!(!budget.take(client(4), Cost::Probe, at(5000)));
        assert!(budget.take(client(3), Cost::Probe, at(5000)));
        assert!(!budget.is_full(client(4), at(11_000)));
        assert!(budget.take(client(4), Cost::Probe, at(11_000)));
        assert!(budget.clients.len() <= 4);
    }
}
