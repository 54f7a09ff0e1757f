//! The server: one thread per connection, bounded in everything that a stranger could make grow.

mod access;
mod client;
mod events;
mod limits;
mod pacer;
mod registry;
mod session;

pub use access::Access;
pub(crate) use client::Client;
pub use events::{ServerEvent, ServerObserver, ServerStatus};
pub use limits::Limits;
pub(crate) use pacer::Pacers;

/// Largest record that a server takes from a client, per stream.
pub(crate) const MAX_CLIENT_RECORD_BYTES: usize = 1024 * 1024;

use crate::probe::ProbeService;
use crate::stream::lock;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::{
    AcceptError, BindError, Connection, ListenOptions, Listener, QuicOptions, ServerIdentity, SocketOptions,
};
use registry::Registry;
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

/// Where and how to serve.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Transports and addresses to listen on; port 0 for the kernel's choice. An mptcp listener serves plain
    /// TCP clients as well.
    pub listeners: Vec<(Transport, SocketAddr)>,
    /// What is granted.
    pub limits: Limits,
    /// To whom.
    pub access: Access,
    /// Options of every accepted connection.
    pub socket: SocketOptions,
    /// Who the server is. Needed by quic and mpquic; with it, tcp and mptcp clients may encrypt, too.
    pub identity: Option<Arc<ServerIdentity>>,
    /// What quic and mpquic take.
    pub quic: QuicOptions,
    /// Interval of the kernel's figures per path, at least 1 ms.
    pub sample_interval: Duration,
}

impl ServerOptions {
    /// A server in clear text for everybody with the default limits and options, and a sample every 100 ms.
    #[must_use]
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

/// Why a server could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No thread to be had.
    #[error("starting a thread of the server: {0}")]
    Thread(io::Error),
    /// Nothing to listen on.
    #[error("a server needs at least one address to listen on")]
    NoListener,
}

/// A running server; stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Arc<Listener>>,
    probes: Arc<ProbeService>,
    addresses: Vec<(Transport, SocketAddr)>,
    threads: Vec<JoinHandle<()>>,
}

/// What all threads of a server share.
struct Shared {
    options: ServerOptions,
    clock: Arc<dyn Clock>,
    registry: Registry,
    observer: Option<Arc<dyn ServerObserver>>,
    /// Live connections by number, to be aborted at the end.
    connections: Mutex<HashMap<u64, Live>>,
    next_connection: AtomicU64,
    /// No new tests any more.
    draining: AtomicBool,
    stopping: AtomicBool,
}

/// A connection that is being served.
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
    ///
    /// # Errors
    /// See [`StartError`]; nothing stays behind.
    pub fn start(options: ServerOptions, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        Self::start_with(options, clock, None)
    }

    /// The same, and tells `observer` what happens.
    ///
    /// # Errors
    /// See [`StartError`]; nothing stays behind.
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
        let probes = Arc::new(ProbeService::new(options.access.clone(), most_clients, &clock));
        let listening = ListenOptions {
            backlog: BACKLOG,
            socket: options.socket.clone(),
            identity: options.identity.clone(),
            quic: options.quic.clone(),
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
                observer,
                connections: Mutex::new(HashMap::new()),
                next_connection: AtomicU64::new(0),
                draining: AtomicBool::new(false),
                stopping: AtomicBool::new(false),
            }),
            addresses: listeners.iter().map(|(transport, at)| (*transport, at.local_addr())).collect(),
            listeners: listeners.into_iter().map(|(_, listener)| listener).collect(),
            probes,
            threads: Vec::new(),
        };
        for listener in server.listeners.clone() {
            let shared = Arc::clone(&server.shared);
            let thread = thread::Builder::new()
                .name("listener".to_owned())
                .spawn(move || listen(&shared, &listener))
                .map_err(StartError::Thread)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens, in the order of the options, ports filled in.
    #[must_use]
    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// Takes no new tests from now on; those that run go on, and their records can be fetched.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.probes.drain();
    }

    /// How loaded it is.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            tests: self.shared.registry.running(),
            max_tests: self.shared.options.limits.max_tests,
            connections: lock(&self.shared.connections).len(),
            draining: self.shared.draining.load(Ordering::SeqCst),
        }
    }

    /// Stops listening, aborts every connection and waits for the threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.listeners.iter().for_each(|listener| listener.close());
        // Each listener thread waits for the threads of its connections.
        lock(&self.shared.connections).values().for_each(|live| live.connection.abort());
        for thread in self.threads.drain(..) {
            // A panic of a listener has been printed already; there is nothing else to save here.
            let _ = thread.join();
        }
    }
}

fn listen(shared: &Arc<Shared>, listener: &Listener) {
    thread::scope(|scope| {
        loop {
            let (number, connection) = match listener.accept() {
                Ok((connection, client)) => {
                    let connection = Arc::new(connection);
                    match shared.admit(client, &connection) {
                        Some(number) => (number, connection),
                        None => continue,
                    }
                }
                Err(AcceptError::Closed { .. }) => return,
                Err(_) => {
                    if shared.stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    shared.clock.sleep_until(shared.clock.now() + EXHAUSTED_PAUSE);
                    continue;
                }
            };
            let serve = move || {
                session::serve(shared, &connection);
                lock(&shared.connections).remove(&number);
            };
            // No thread: the connection is dropped with the closure, and the peer sees it close.
            if thread::Builder::new().name("connection".to_owned()).spawn_scoped(scope, serve).is_err() {
                lock(&shared.connections).remove(&number);
            }
        }
    });
}

impl Shared {
    /// Counts a connection in; `None` when there are too many, of this client or of all, or the server is stopping.
    fn admit(&self, peer: SocketAddr, connection: &Arc<Connection>) -> Option<u64> {
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
        connections.insert(number, Live { client, connection: Arc::clone(connection) });
        Some(number)
    }

    fn tell(&self, event: &ServerEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.on_event(event);
        }
    }
}
