//! The state that all threads of a server share. Each slot has an owner, and is released when the owner is dropped: at
//! the end, when a thread cannot be started, or at a panic.

use super::options::{ServerEvent, ServerObserver, ServerOptions};
use super::registry::Registry;
use crate::datagram::FlowTable;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::network::Client;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::{Connection, QuicSlot, QuicSlots, contain_panic, lock};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(super) struct ServerState {
    pub(super) options: ServerOptions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) registry: Registry,
    /// The flows of tests over udp.
    pub(super) flows: Arc<FlowTable>,
    pub(super) fetches: Arc<QuicSlots>,
    pub(super) observer: Arc<dyn ServerObserver>,
    pub(super) connections: Mutex<HashMap<u64, Arc<Connection>>>,
    pub(super) connection_slots: Arc<QuicSlots>,
    pub(super) next_connection: AtomicU64,
    pub(super) failed: Mutex<Vec<(Transport, SocketAddr)>>,
    pub(super) draining: AtomicBool,
    pub(super) stopping: AtomicBool,
}

pub(super) struct ConnectionSlot<'a> {
    pub(super) shared: &'a ServerState,
    pub(super) number: u64,
    pub(super) connection: Arc<Connection>,
    pub(super) _slot: QuicSlot,
}

/// The slot of one stream in its test; the last one also releases the test's slot.
pub(super) struct TestSlot<'a> {
    pub(super) shared: &'a ServerState,
    pub(super) test: TestId,
    pub(super) stream: u32,
    pub(super) record: Option<EndRecord>,
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        lock(&self.shared.connections).remove(&self.number);
    }
}

impl Drop for TestSlot<'_> {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        let ended = self.shared.registry.leave(now, self.test, self.stream, self.record.take());
        let Some(event) = ended else { return };
        // The drop may be part of a panic; a second one would abort the process.
        if let Err(message) = contain_panic(|| self.shared.observer.on_event(&event)) {
            self.shared.report_panic("observer", &message);
        }
    }
}

impl ServerState {
    /// Registers a connection; `None` when this client, its network or all clients have too many, or the server is
    /// stopping.
    pub(super) fn admit(&self, peer: SocketAddr, connection: Arc<Connection>) -> Option<ConnectionSlot<'_>> {
        let mut connections = lock(&self.connections);
        if self.stopping.load(Ordering::SeqCst) {
            return None;
        }
        let Some(slot) = self.connection_slots.acquire(Client::from(peer.ip())) else {
            drop(connections);
            self.observer.on_event(&ServerEvent::TooManyConnections { client: peer });
            return None;
        };
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        connections.insert(number, Arc::clone(&connection));
        Some(ConnectionSlot { shared: self, number, connection, _slot: slot })
    }

    /// Reports that a thread panicked. The observer itself may have panicked, so a second panic is contained.
    pub(super) fn report_panic(&self, context: &'static str, message: &str) {
        let _ = contain_panic(|| self.observer.on_event(&ServerEvent::Panicked { context, message }));
    }
}
