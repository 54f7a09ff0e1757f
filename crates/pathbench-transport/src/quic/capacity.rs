//! How many QUIC connections a server has, and how many of them may hold much.

use pathbench_mpquic::{
    CONNECTION_WINDOW_BYTES, FIRST_EVENTS, FIRST_HELD_BYTES, FIRST_PATHS_BYTES, FIRST_WINDOW_BYTES,
    MAX_EVENTS, MOST_HELD_BYTES, PATHS_BYTES,
};
use pathbench_record::address::Client;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a QUIC connection takes at most on which no test has been admitted: what waits in its streams (the library keeps
/// up to two and a half times as much as it counts), its paths and their events, TLS and the library's own state.
pub const QUIC_CONNECTION_BYTES: u64 =
    FIRST_WINDOW_BYTES as u64 * 5 / 2 + FIRST_PATHS_BYTES + FIRST_EVENTS as u64 * EVENT_BYTES + (256 << 10);

/// What it takes at most beyond that while it carries a test: the same, and what its streams send.
pub const QUIC_TEST_BYTES: u64 =
    CONNECTION_WINDOW_BYTES as u64 * 5 / 2 + PATHS_BYTES + MAX_EVENTS as u64 * EVENT_BYTES + MOST_HELD_BYTES;

/// What a stream takes at most besides its windows: the library lets small frames keep 32 KiB of their packets.
pub const QUIC_STREAM_BYTES: u64 = 40 << 10;

/// What the streams of a connection without a test may have sent that is not acknowledged.
pub const QUIC_UNTRUSTED_SEND_BYTES: u64 = FIRST_HELD_BYTES;

/// What a listening socket takes at most: datagrams that have arrived and that wait to be sent.
pub const QUIC_LISTENER_BYTES: u64 = 8 << 20;

/// A path event with its words.
const EVENT_BYTES: u64 = 512;

/// Bounds on the QUIC connections of a server, all its listeners together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicLimits {
    pub connections: usize,
    /// The same of one client, so that none can keep the others out by holding idle ones.
    pub connections_per_client: usize,
    /// Connections that carry a test, and may therefore hold as much as a test needs.
    pub tests: usize,
    pub tests_per_client: usize,
}

impl Default for QuicLimits {
    fn default() -> Self {
        Self { connections: 512, connections_per_client: 64, tests: usize::MAX, tests_per_client: usize::MAX }
    }
}

/// What is left of [`QuicLimits`].
#[derive(Debug)]
pub struct QuicCapacity {
    limits: QuicLimits,
    used: Mutex<Used>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Used {
    connections: Slots,
    tests: Slots,
}

#[derive(Debug, Default)]
struct Slots {
    all: usize,
    by_client: HashMap<Client, usize>,
}

impl Slots {
    fn has_room(&self, client: Client, most: usize, most_of_client: usize) -> bool {
        self.all < most && self.by_client.get(&client).copied().unwrap_or(0) < most_of_client
    }

    fn take(&mut self, client: Client, most: usize, most_of_client: usize) -> bool {
        let has_room = self.has_room(client, most, most_of_client);
        if has_room {
            self.all += 1;
            *self.by_client.entry(client).or_default() += 1;
        }
        has_room
    }

    fn give_back(&mut self, client: Client) {
        self.all -= 1;
        match self.by_client.get_mut(&client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(self.by_client.remove(&client)),
        }
    }
}

impl QuicCapacity {
    pub fn new(limits: QuicLimits) -> Self {
        Self { limits, used: Mutex::default(), returned: Condvar::new() }
    }

    pub(crate) fn connection(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let (client, limits) = (Client::from(peer), self.limits);
        let taken = self.used().connections.take(client, limits.connections, limits.connections_per_client);
        taken.then(|| ConnectionSlot { capacity: Arc::clone(self), client })
    }

    pub(crate) fn test(self: &Arc<Self>, peer: IpAddr) -> Option<TestSlot> {
        let (client, limits) = (Client::from(peer), self.limits);
        let taken = self.used().tests.take(client, limits.tests, limits.tests_per_client);
        taken.then(|| TestSlot { capacity: Arc::clone(self), client })
    }

    /// Waits at most `limit` until there is room for one more test with this peer.
    pub(crate) fn await_test(&self, peer: IpAddr, limit: Duration) {
        let (client, limits) = (Client::from(peer), self.limits);
        let is_full = |used: &mut Used| !used.tests.has_room(client, limits.tests, limits.tests_per_client);
        drop(
            self.returned
                .wait_timeout_while(self.used(), limit, is_full)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Each change is one step, so a panic elsewhere leaves the counts right.
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    capacity: Arc<QuicCapacity>,
    client: Client,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.capacity.used().connections.give_back(self.client);
    }
}

/// The slot of a connection that carries a test, given back when dropped.
#[derive(Debug)]
pub(crate) struct TestSlot {
    capacity: Arc<QuicCapacity>,
    client: Client,
}

impl Drop for TestSlot {
    fn drop(&mut self) {
        self.capacity.used().tests.give_back(self.client);
        self.capacity.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const ALICE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const CAROL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

    #[test]
    fn slots_are_few_and_come_back() {
        let limits = QuicLimits { connections: 3, connections_per_client: 2, tests: 2, tests_per_client: 1 };
        let capacity = Arc::new(QuicCapacity::new(limits));
        let first = capacity.connection(ALICE).expect("a slot");
        let _second = capacity.connection(ALICE).expect("a slot");
        assert!(capacity.connection(ALICE).is_none(), "a third of one client");
        let _third = capacity.connection(BOB).expect("a slot");
        assert!(capacity.connection(BOB).is_none(), "a fourth in all");
        drop(first);
        assert!(capacity.connection(BOB).is_some());

        let test = capacity.test(ALICE).expect("a slot");
        assert!(capacity.test(ALICE).is_none(), "a second of one client");
        let _other = capacity.test(BOB).expect("a slot");
        let waiting = {
            let capacity = Arc::clone(&capacity);
            thread::spawn(move || {
                capacity.await_test(CAROL, Duration::from_secs(60));
                capacity.test(CAROL).is_some()
            })
        };
        drop(test);
        assert!(waiting.join().unwrap());
        assert_eq!(capacity.used().tests.by_client.len(), 1, "only Bob has one");
    }
}
