//! The server: one thread per connection, bounded in everything that a peer could make grow.

mod access;
mod events;
mod fetch;
mod limits;
mod memory;
mod pacer;
mod registry;
mod session;
mod slot;

pub use access::Access;
pub use events::{ServerEvent, ServerObserver, ServerStatus};
pub use limits::Limits;
pub use memory::MemoryBound;
pub(crate) use pacer::{Grant, Pacer, Pacers};

use crate::datagram::ResponderService;
use crate::stream::lock;
use fetch::FetchSlots;
pub(crate) use pathbench_record::address::Client;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::{
    AcceptError, BindError, Connection, ListenOptions, Listener, QuicCapacity, QuicOptions, ServerIdentity,
    SocketOptions, contain_panic,
};
use registry::Registry;
use slot::ConnectionSlot;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};
use thiserror::Error;

/// Connections that wait to be accepted, per listener.
const BACKLOG: u32 = 128;

/// Pause of a listener that cannot accept (no file descriptors, no memory).
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Transports and addresses to listen on; port 0 for the kernel's choice. An mptcp listener serves plain
    /// TCP clients as well.
    pub listeners: Vec<(Transport, SocketAddr)>,
    pub limits: Limits,
    pub access: Access,
    pub socket: SocketOptions,
    /// Who the server is. Needed by quic and mpquic; with it, tcp and mptcp clients may encrypt, too.
    pub identity: Option<Arc<ServerIdentity>>,
    pub quic: QuicOptions,
    /// Interval of the kernel's figures per path, at least 1 ms.
    pub sample_interval: Duration,
}

impl ServerOptions {
    /// A server in clear text for everybody with the default limits and options, and a sample every 100 ms.
    pub fn new(listeners: Vec<(Transport, SocketAddr)>) -> Self {
        Self {
            listeners,
            limits: Limits::default(),
            access: Access::Open,
            socket: SocketOptions::default(),
            identity: None,
            quic: QuicOptions::default(),
            sample_interval: Duration::from_millis(100),
        }
    }
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("starting a thread of the server: {0}")]
    Thread(io::Error),
    #[error("a server needs at least one address to listen on")]
    NoListener,
}

/// A running server; stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<(Transport, Arc<Listener>)>,
    probes: Arc<ResponderService>,
    addresses: Vec<(Transport, SocketAddr)>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    options: ServerOptions,
    clock: Arc<dyn Clock>,
    registry: Registry,
    fetches: FetchSlots,
    observer: Option<Arc<dyn ServerObserver>>,
    connections: Mutex<HashMap<u64, Live>>,
    next_connection: AtomicU64,
    failed: Mutex<Vec<(Transport, SocketAddr)>>,
    draining: AtomicBool,
    stopping: AtomicBool,
}

struct Live {
    client: Client,
    connection: Arc<Connection>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on all addresses and serves until [`Server::stop`].
    pub fn start(options: ServerOptions, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        Self::start_with(options, clock, None)
    }

    pub fn start_observed(
        options: ServerOptions,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn ServerObserver>,
    ) -> Result<Self, StartError> {
        Self::start_with(options, clock, Some(observer))
    }

    fn start_with(
        options: ServerOptions,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn ServerObserver>>,
    ) -> Result<Self, StartError> {
        if options.listeners.is_empty() {
            return Err(StartError::NoListener);
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
            listeners.push((transport, Arc::new(listener)));
        }
        let registry = Registry::new(options.limits.clone());
        let mut server = Self {
            shared: Arc::new(Shared {
                options,
                clock,
                registry,
                fetches: FetchSlots::default(),
                observer,
                connections: Mutex::new(HashMap::new()),
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
                .map_err(StartError::Thread)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens, in the order of the options, ports filled in.
    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// Takes no new tests from now on; those that run go on, and their records can be fetched.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.probes.drain();
    }

    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            tests: self.shared.registry.running(),
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
        lock(&self.shared.connections).values().for_each(|live| live.connection.abort());
        self.shared.registry.dissolve();
        for thread in self.threads.drain(..) {
            // Its panics are contained and reported.
            let _ = thread.join();
        }
    }
}

/// Accepts until the listener is closed, and then waits for the connections. A listener that dies before leaves those
/// that it accepted to their threads, and the other listeners alone.
fn listen(shared: &Shared, transport: Transport, listener: &Listener) {
    thread::scope(|scope| {
        let end = contain_panic(|| accept(scope, shared, listener)).unwrap_or_else(Err);
        if let Err(message) = end {
            shared.report_failure(transport, listener.local_addr(), &message);
        }
    });
}

/// Serves each connection on a thread of its own, until the listener is closed.
fn accept<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    shared: &'scope Shared,
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
        // No thread: the slot is dropped with the closure, and the peer sees the connection close.
        let _ = thread::Builder::new().name("connection".to_owned()).spawn_scoped(scope, || slot.serve());
    }
}

impl Shared {
    /// Counts a connection in; `None` when there are too many, of this client or of all, or the server is stopping.
    fn admit(&self, peer: SocketAddr, connection: Arc<Connection>) -> Option<ConnectionSlot<'_>> {
        let limits = &self.options.limits;
        let client = Client::from(peer.ip());
        let mut connections = lock(&self.connections);
        if self.stopping.load(Ordering::SeqCst) {
            return None;
        }
        let own = || connections.values().filter(|live| live.client == client).count();
        if connections.len() >= limits.max_connections || own() >= limits.max_connections_per_client {
            drop(connections);
            self.tell(&ServerEvent::TooManyConnections { client: peer });
            return None;
        }
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        connections.insert(number, Live { client, connection: Arc::clone(&connection) });
        Some(ConnectionSlot::of(self, number, connection))
    }

    fn tell(&self, event: &ServerEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.on_event(event);
        }
    }

    /// Says that a thread panicked. The panic may have been the observer's, so this one goes no further.
    fn report_panic(&self, place: &'static str, message: &str) {
        let _ = contain_panic(|| self.tell(&ServerEvent::Panicked { place, message }));
    }

    fn report_failure(&self, transport: Transport, address: SocketAddr, message: &str) {
        lock(&self.failed).push((transport, address));
        let _ = contain_panic(|| self.tell(&ServerEvent::ListenerFailed { transport, address, message }));
    }
}
