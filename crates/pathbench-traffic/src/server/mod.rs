//! The server: one thread per connection, with a bound on every resource that a peer can use up.

mod options;
mod quota;
mod registry;
mod session;
mod shared;

pub use crate::pacer::{Grant, Pacer, Pacers, TokenBucket};
pub use crate::token::Access;
pub use options::{CounterReader, MemoryBound, ServerEvent, ServerLimits, ServerObserver, ServerOptions};
pub use registry::MemorySlots;

use crate::datagram::ResponderService;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::{
    AcceptError, BindError, ListenOptions, Listener, QuicCapacity, QuicSlots, contain_panic, lock,
};
use registry::Registry;
use shared::ServerState;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};
use thiserror::Error;

const BACKLOG: u32 = 128;

/// Pause of a listener that cannot accept (no file descriptors, no memory).
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub tests: usize,
    pub max_tests: usize,
    /// Number of connections, silent ones included.
    pub connections: usize,
    pub draining: bool,
    pub failed: Vec<(Transport, SocketAddr)>,
}

#[derive(Debug, Error)]
pub enum ServerStartError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("starting a thread of the server: {0}")]
    Thread(io::Error),
    #[error("a server needs at least one address to listen on")]
    NoListener,
}

pub struct Server {
    shared: Arc<ServerState>,
    listeners: Vec<(Transport, Arc<Listener>)>,
    probes: Arc<ResponderService>,
    addresses: Vec<(Transport, SocketAddr)>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on all addresses and serves until [`Server::stop`].
    pub fn start(options: ServerOptions, clock: Arc<dyn Clock>) -> Result<Self, ServerStartError> {
        struct Unobserved;
        impl ServerObserver for Unobserved {
            fn on_event(&self, _event: &ServerEvent<'_>) {}
        }
        Self::start_observed(options, clock, Arc::new(Unobserved))
    }

    pub fn start_observed(
        options: ServerOptions,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn ServerObserver>,
    ) -> Result<Self, ServerStartError> {
        if options.listeners.is_empty() {
            return Err(ServerStartError::NoListener);
        }
        let mut listeners = Vec::new();
        let most_clients = options.limits.max_connections;
        let probes = Arc::new(ResponderService::new(options.access.clone(), most_clients, &clock));
        let listening = ListenOptions {
            backlog: BACKLOG,
            socket: options.socket.clone(),
            identity: options.identity.clone(),
            quic: options.quic.clone(),
            quic_capacity: Arc::new(QuicCapacity::new(options.limits.quic())),
            datagrams: Some(probes.clone()),
        };
        for &(transport, address) in &options.listeners {
            let listener = Listener::open(transport, address, &listening, &clock)?;
            let local = listener.local_addr();
            listeners.push((transport, Arc::new(listener)));
            if transport == Transport::Udp {
                // The datagrams arrive at the UDP port of the same number.
                let port = SocketAddr::new(address.ip(), local.port());
                let listener = Listener::open(Transport::Quic, port, &listening, &clock)?;
                listeners.push((Transport::Quic, Arc::new(listener)));
            }
        }
        let registry = Registry::new(options.limits.clone());
        let limits = &options.limits;
        let connection_slots = QuicSlots::new(limits.max_connections, limits.max_connections_per_client);
        let mut server = Self {
            shared: Arc::new(ServerState {
                options,
                clock,
                registry,
                flows: Arc::clone(&probes.flows),
                fetches: QuicSlots::new(options::MOST_FETCHES, options::MOST_FETCHES_PER_CLIENT),
                observer,
                connections: Mutex::new(HashMap::new()),
                connection_slots,
                next_connection: AtomicU64::new(0),
                failed: Mutex::default(),
                draining: AtomicBool::new(false),
                stopping: AtomicBool::new(false),
            }),
            addresses: listeners.iter().map(|(transport, at)| (*transport, at.local_addr())).collect(),
            listeners,
            probes,
            threads: Vec::new(),
        };
        for (transport, listener) in server.listeners.clone() {
            let shared = Arc::clone(&server.shared);
            let thread = thread::Builder::new()
                .name("listener".to_owned())
                .spawn(move || listen(&shared, transport, &listener))
                .map_err(ServerStartError::Thread)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// The listening addresses in the order of the options, with the kernel's port numbers.
    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// Rejects new tests from now on; running tests continue, and their records can be fetched.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.probes.drain();
    }

    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            tests: self.shared.registry.running_tests(),
            max_tests: self.shared.options.limits.max_tests,
            connections: lock(&self.shared.connections).len(),
            draining: self.shared.draining.load(Ordering::SeqCst),
            failed: lock(&self.shared.failed).clone(),
        }
    }

    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.listeners.iter().for_each(|(_, listener)| listener.close());
        // Each listener thread waits for the threads of its connections.
        lock(&self.shared.connections).values().for_each(|connection| connection.abort());
        self.shared.registry.stop_waiting();
        for thread in self.threads.drain(..) {
            // Panics of the thread are contained and reported.
            let _ = thread.join();
        }
    }
}

/// Accepts until the listener is closed, then waits for the connections to end. The failure of a listener affects
/// neither its accepted connections nor the other listeners.
fn listen(shared: &ServerState, transport: Transport, listener: &Listener) {
    thread::scope(|scope| {
        let end = contain_panic(|| accept(scope, shared, listener)).unwrap_or_else(Err);
        if let Err(message) = end {
            let (address, message) = (listener.local_addr(), message.as_str());
            lock(&shared.failed).push((transport, address));
            let event = ServerEvent::ListenerFailed { transport, address, message };
            let _ = contain_panic(|| shared.observer.on_event(&event));
        }
    });
}

/// Serves each connection on its own thread, until the listener is closed.
fn accept<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    shared: &'scope ServerState,
    listener: &Listener,
) -> Result<(), String> {
    loop {
        let slot = match listener.accept() {
            Ok((connection, client)) => shared.admit(client, Arc::new(connection)),
            Err(AcceptError::Closed { .. }) => return Ok(()),
            Err(AcceptError::Dead { message, .. }) => return Err(message),
            Err(_) => {
                if shared.stopping.load(Ordering::SeqCst) {
                    return Ok(());
                }
                shared.clock.sleep_until(shared.clock.now() + EXHAUSTED_PAUSE);
                continue;
            }
        };
        let Some(slot) = slot else { continue };
        // Without a thread, the slot is dropped with the closure, and the connection closes.
        let _ = thread::Builder::new().name("connection".to_owned()).spawn_scoped(scope, || slot.serve());
    }
}
