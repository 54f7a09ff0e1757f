//! What is answered to sources that have not proved their addresses: anybody can send in their name.

use super::allowance::Allowance;
use pathbench_record::time::Timestamp;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;

/// Hellos per second that are answered in all, and how many at once.
const RATE: u64 = 5000;
/// The same of one network, so that datagrams with forged sources of some networks do not keep the others out.
const NETWORK_RATE: u64 = 50;
/// Allowances of networks. Clients cannot know which networks share one.
const NETWORKS: usize = 1024;
/// Bits of an address that are a network's: what one source can usually forge within.
const IPV4_PREFIX: u32 = 24;
const IPV6_PREFIX: u32 = 48;

/// The allowances of newcomers. Sources that have returned their cookies do not draw on them.
#[derive(Debug)]
pub(super) struct Newcomers {
    all: Allowance,
    networks: Vec<Allowance>,
    /// Places networks in the table; nothing is proved by it.
    places: RandomState,
}

impl Newcomers {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            all: Allowance::full(RATE, now),
            networks: vec![Allowance::full(NETWORK_RATE, now); NETWORKS],
            places: RandomState::new(),
        }
    }

    /// Whether a hello from this address is to be answered.
    pub(super) fn take(&mut self, from: IpAddr, now: Timestamp) -> bool {
        let network = match from.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_bits() >> (32 - IPV4_PREFIX)),
            IpAddr::V6(address) => address.to_bits() >> (128 - IPV6_PREFIX) | 1 << IPV6_PREFIX,
        };
        let place = self.places.hash_one(network) as usize % NETWORKS;
        // The network's first: what one network floods in vain is not taken off the others.
        self.networks[place].take(1, now) && self.all.take(1, now)
    }
}
