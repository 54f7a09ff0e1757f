//! Limits of a server's QUIC connections and tests, and of their memory.

use crate::containment::lock;
use pathbench_mpquic::{
    CONNECTION_WINDOW_BYTES, FIRST_EVENTS, FIRST_HELD_BYTES, FIRST_PATHS_BYTES, FIRST_WINDOW_BYTES,
    MAX_EVENTS, MOST_HELD_BYTES, PATHS_BYTES,
};
use pathbench_record::network::{Client, ClientNetwork};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most memory of a QUIC connection without an admitted test: unread data of its streams (the library keeps up to 2.5
/// times the bytes that it counts), its paths and their events, TLS and the library's own state.
pub const QUIC_CONNECTION_BYTES: u64 =
    FIRST_WINDOW_BYTES as u64 * 5 / 2 + FIRST_PATHS_BYTES + FIRST_EVENTS as u64 * EVENT_BYTES + (256 << 10);

/// Most additional memory of a connection with a test: unread data, paths, events, and the data that its streams send.
pub const QUIC_TEST_BYTES: u64 =
    CONNECTION_WINDOW_BYTES as u64 * 5 / 2 + PATHS_BYTES + MAX_EVENTS as u64 * EVENT_BYTES + MOST_HELD_BYTES;

/// Most memory of a stream besides its windows: small frames keep up to 32 KiB of their packets in the library.
pub const QUIC_STREAM_BYTES: u64 = 40 << 10;

/// Most unacknowledged bytes that the streams of a connection without a test have sent.
pub const QUIC_UNTRUSTED_SEND_BYTES: u64 = FIRST_HELD_BYTES;

/// Most memory of a listening socket: received datagrams, and datagrams to send.
pub const QUIC_LISTENER_BYTES: u64 = 8 << 20;

/// Memory of a path event with its text.
const EVENT_BYTES: u64 = 512;

/// Most memory of a handshake: TLS, its messages, and the library's own state. No stream can be open yet.
pub const QUIC_HANDSHAKE_BYTES: u64 = 256 << 10;

/// Handshakes with addresses that are not validated. While this many are open, a further client must first prove its
/// address (Retry; RFC 9000, section 8.1.2), which keeps no state here. Retry costs an RTT, which would distort the
/// handshake time of every test, so the first few clients need no proof.
const UNPROVED_HANDSHAKES: usize = 16;
const UNPROVED_HANDSHAKES_PER_CLIENT: usize = 4;
/// Handshakes with validated addresses, which do not wait for the others.
const PROVED_HANDSHAKES: usize = 64;
const PROVED_HANDSHAKES_PER_CLIENT: usize = 16;

/// Handshakes of one client that are open at once.
pub const QUIC_HANDSHAKES_PER_CLIENT: usize = UNPROVED_HANDSHAKES_PER_CLIENT + PROVED_HANDSHAKES_PER_CLIENT;
/// Handshakes of all clients that are open at once.
pub const QUIC_HANDSHAKES: usize = UNPROVED_HANDSHAKES + PROVED_HANDSHAKES;

/// Limits of all QUIC listeners of a server together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicLimits {
    pub connections: usize,
    /// Prevents one client from using up the limit with idle connections.
    pub connections_per_client: usize,
    /// Connections with a test, each of which may use [`QUIC_TEST_BYTES`].
    pub tests: usize,
    pub tests_per_client: usize,
}

impl Default for QuicLimits {
    fn default() -> Self {
        Self { connections: 512, connections_per_client: 64, tests: usize::MAX, tests_per_client: usize::MAX }
    }
}

/// The limit of one network's clients together, where all clients may use `most` and one client `most_per_client`: half
/// of them, so that the clients of one network leave the other half to others, but not less than one client.
pub fn most_per_network(most: usize, most_per_client: usize) -> usize {
    most.div_ceil(2).max(most_per_client)
}

/// Slots of one kind, limited for each client, for each network ([`most_per_network`]) and in total.
#[derive(Debug)]
pub struct QuicSlots {
    most: usize,
    most_per_client: usize,
    most_per_network: usize,
    held: Mutex<HashMap<Client, usize>>,
    released: Condvar,
}

/// A slot in use; its drop releases it.
#[derive(Debug)]
pub struct QuicSlot {
    slots: Arc<QuicSlots>,
    client: Client,
}

impl QuicSlots {
    pub fn new(most: usize, most_per_client: usize) -> Arc<Self> {
        let most_per_network = most_per_network(most, most_per_client);
        let (held, released) = (Mutex::default(), Condvar::new());
        Arc::new(Self { most, most_per_client, most_per_network, held, released })
    }

    pub fn acquire(self: &Arc<Self>, client: Client) -> Option<QuicSlot> {
        let mut held = self.held();
        if self.is_full(&held, client) {
            return None;
        }
        *held.entry(client).or_default() += 1;
        Some(QuicSlot { slots: Arc::clone(self), client })
    }

    /// Waits up to `limit` until a slot is free for this client.
    pub(crate) fn wait(&self, client: Client, limit: Duration) {
        let is_full = |held: &mut HashMap<Client, usize>| self.is_full(held, client);
        let waited = self.released.wait_timeout_while(self.held(), limit, is_full);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether a further slot for this client would exceed a limit now.
    pub(crate) fn is_full_for(&self, client: Client) -> bool {
        self.is_full(&self.held(), client)
    }

    fn is_full(&self, held: &HashMap<Client, usize>, client: Client) -> bool {
        let own = held.get(&client).copied().unwrap_or(0);
        let network: ClientNetwork = client.network();
        let near = held.iter().filter(|(other, _)| other.network() == network).map(|(_, count)| count);
        held.values().sum::<usize>() >= self.most
            || own >= self.most_per_client
            || near.sum::<usize>() >= self.most_per_network
    }

    /// Each change is one step, so the counts are correct even after a panic of a thread that held the lock.
    fn held(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        lock(&self.held)
    }
}

impl Drop for QuicSlot {
    fn drop(&mut self) {
        let mut held = self.slots.held();
        if let Some(own) = held.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.client);
            }
        }
        self.slots.released.notify_all();
    }
}

/// The slots of [`QuicLimits`].
#[derive(Debug)]
pub struct QuicCapacity {
    pub(crate) connections: Arc<QuicSlots>,
    pub(crate) tests: Arc<QuicSlots>,
    unproved: Arc<QuicSlots>,
    proved: Arc<QuicSlots>,
}

/// The pool's answer to a handshake.
#[derive(Debug)]
pub(crate) enum HandshakeAdmission {
    Admitted(QuicSlot),
    /// The client must prove its address first.
    Retry,
    /// The client will repeat its first packet.
    Ignore,
    /// The connection would exceed a limit.
    Refuse,
}

impl QuicCapacity {
    pub fn new(limits: QuicLimits) -> Self {
        Self {
            connections: QuicSlots::new(limits.connections, limits.connections_per_client),
            tests: QuicSlots::new(limits.tests, limits.tests_per_client),
            unproved: QuicSlots::new(UNPROVED_HANDSHAKES, UNPROVED_HANDSHAKES_PER_CLIENT),
            proved: QuicSlots::new(PROVED_HANDSHAKES, PROVED_HANDSHAKES_PER_CLIENT),
        }
    }

    /// Admits the handshake of a client. A handshake has a slot of a pool of its own and takes that of its connection
    /// only when it is complete: addresses of first packets can be forged.
    pub(crate) fn admit_handshake(
        &self,
        client: Client,
        is_proved: bool,
        may_retry: bool,
    ) -> HandshakeAdmission {
        if self.connections.is_full_for(client) {
            return HandshakeAdmission::Refuse;
        }
        let pool = if is_proved { &self.proved } else { &self.unproved };
        match pool.acquire(client) {
            Some(slot) => HandshakeAdmission::Admitted(slot),
            None if may_retry && !is_proved => HandshakeAdmission::Retry,
            None => HandshakeAdmission::Ignore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::thread;

    #[test]
    fn slots_are_limited_and_return_when_dropped() {
        let limits = QuicLimits { connections: 3, connections_per_client: 2, tests: 2, tests_per_client: 1 };
        let capacity = QuicCapacity::new(limits);
        // In networks of their own.
        let client = |octets: [u8; 4]| Client::from(IpAddr::from(octets));
        let [alice, bob, carol] = [[192, 0, 2, 1], [198, 51, 100, 1], [203, 0, 113, 1]].map(client);
        let first = capacity.connections.acquire(alice).expect("a slot");
        let _second = capacity.connections.acquire(alice).expect("a slot");
        assert!(capacity.connections.acquire(alice).is_none(), "a third of one client");
        let _third = capacity.connections.acquire(bob).expect("a slot");
        assert!(capacity.connections.acquire(bob).is_none(), "a fourth in all");
        drop(first);
        assert!(capacity.connections.acquire(bob).is_some());

        let test = capacity.tests.acquire(alice).expect("a slot");
        assert!(capacity.tests.acquire(alice).is_none(), "a second of one client");
        let _other = capacity.tests.acquire(bob).expect("a slot");
        let waiting = {
            let tests = Arc::clone(&capacity.tests);
            thread::spawn(move || {
                tests.wait(carol, Duration::from_secs(60));
                tests.acquire(carol).is_some()
            })
        };
        drop(test);
        assert!(waiting.join().unwrap());
        assert_eq!(capacity.tests.held().len(), 1, "only Bob has one");
    }
}
