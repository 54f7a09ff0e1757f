//! The table of flows: from the two ends of a packet to the index of its flow.

use crate::packet::FlowEndpoint;
use std::hint::black_box;

/// The ends of a flow, the same for both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    low: FlowEndpoint,
    high: FlowEndpoint,
}

impl FlowKey {
    #[inline]
    pub(super) fn new(source: FlowEndpoint, destination: FlowEndpoint) -> Self {
        if source <= destination {
            Self { low: source, high: destination }
        } else {
            Self { low: destination, high: source }
        }
    }

    /// Multiplications of both halves (the folding of `foldhash` and `wyhash`), with a seed against chosen collisions.
    #[inline]
    pub(super) fn hash(&self, seed: u64) -> u64 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let (low, high) = (self.low.address.0, self.high.address.0);
        let ports = u64::from(self.low.port) << 16 | u64::from(self.high.port);
        let first = fold(low as u64 ^ seed, high as u64 ^ 0x9e37_79b9_7f4a_7c15);
        let second = fold(
            (low >> 64) as u64 ^ ports ^ 0xd6e8_feb8_6659_fd93,
            (high >> 64) as u64 ^ seed.rotate_left(32) ^ 0xa076_1d64_78bd_642f,
        );
        fold(first ^ 0xe703_7ed1_a0b4_28db, second ^ ports.rotate_left(29) ^ 0x8ebc_6af0_9c88_c6e3)
    }
}

/// The key is the flow's, which the packet needs anyway.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    /// Index of the flow plus one; 0 is free, [`REMOVED`] a removed entry.
    value: u32,
}

const FREE: Slot = Slot { hash: 0, value: 0 };
const REMOVED: u32 = u32::MAX;
const SMALLEST: usize = 1_024;

/// Open addressing with linear probing: the index of the first probe is known from the hash alone, so that the lookups of
/// a batch of packets can load from memory at the same time. The caller knows the flows and compares their keys.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    /// Slots that are not free.
    used: usize,
    live: usize,
    seed: u64,
}

impl Table {
    pub(super) fn new(seed: u64) -> Self {
        Self { slots: vec![FREE; SMALLEST], used: 0, live: 0, seed }
    }

    #[inline]
    pub(super) fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(self.seed)
    }

    /// Loads the slot of a hash into the processor's cache.
    #[inline]
    pub(super) fn touch(&self, hash: u64) {
        black_box(self.slots[hash as usize & (self.slots.len() - 1)].value);
    }

    /// The first flow with this hash: most likely that of the key, without a look at the flow.
    #[inline]
    pub(super) fn likely(&self, hash: u64) -> Option<u32> {
        self.get(hash, |_| true)
    }

    /// The flow with this hash for which `is` holds.
    #[inline]
    pub(super) fn get(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.find(hash, is).map(|index| self.slots[index].value - 1)
    }

    #[inline]
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = &self.slots[index];
            if slot.value == FREE.value {
                return None;
            }
            if slot.hash == hash && slot.value != REMOVED && is(slot.value - 1) {
                return Some(index);
            }
            index = (index + 1) & mask;
        }
    }

    /// Replaces the flow with this hash for which `is` holds.
    pub(super) fn insert(&mut self, hash: u64, flow: u32, is: impl Fn(u32) -> bool) {
        if let Some(index) = self.find(hash, is) {
            self.slots[index].value = flow + 1;
            return;
        }
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.insert_new(hash, flow);
    }

    fn insert_new(&mut self, hash: u64, flow: u32) {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        while self.slots[index].value != FREE.value {
            index = (index + 1) & mask;
        }
        self.slots[index] = Slot { hash, value: flow + 1 };
        self.used += 1;
        self.live += 1;
    }

    /// Removes the entry of the flow.
    pub(super) fn remove(&mut self, hash: u64, flow: u32) {
        if let Some(index) = self.find(hash, |other| other == flow) {
            self.slots[index].value = REMOVED;
            self.live -= 1;
        }
    }

    fn grow(&mut self) {
        // Removed entries may be what fills the table.
        let size = (self.live * 2 + 1).next_power_of_two().max(SMALLEST) * 2;
        let old = std::mem::replace(&mut self.slots, vec![FREE; size]);
        (self.used, self.live) = (0, 0);
        for slot in old {
            if slot.value != FREE.value && slot.value != REMOVED {
                self.insert_new(slot.hash, slot.value - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Address;

    fn key(number: u32) -> FlowKey {
        let end = |port| FlowEndpoint { address: Address::v4(number.to_be_bytes()), port };
        FlowKey::new(end(1), end(2))
    }

    fn hash(number: u32) -> u64 {
        key(number).hash(7)
    }

    fn insert(table: &mut Table, number: u32) {
        table.insert(hash(number), number, |other| other == number);
    }

    #[test]
    fn entries_survive_growth_and_removals() {
        let mut table = Table::new(7);
        for number in 0..20_000 {
            insert(&mut table, number);
            if number % 3 == 0 {
                table.remove(hash(number), number);
            }
        }
        for number in 0..20_000 {
            let expected = (number % 3 != 0).then_some(number);
            assert_eq!(table.get(hash(number), |other| other == number), expected);
        }
        // Another flow of the same ends replaces the entry, which is then not the old flow's to remove.
        table.insert(hash(1), 77_777, |other| other == 1);
        table.remove(hash(1), 1);
        assert_eq!(table.get(hash(1), |_| true), Some(77_777));
    }

    #[test]
    fn a_table_of_many_short_flows_stays_small() {
        let mut table = Table::new(7);
        for number in 0..200_000 {
            insert(&mut table, number);
            table.remove(hash(number), number);
        }
        assert!(table.slots.len() <= 4 * SMALLEST, "{}", table.slots.len());
    }
}
