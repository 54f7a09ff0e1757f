//! The accepting side: whom to admit, and the streams that wait to be taken over.

use super::capacity::QuicCapacity;
use super::connection::{FIRST_SOCKET, QuicConnection};
use super::endpoint::Endpoint;
use super::stream::QuicStream;
use crate::listener::{AcceptError, DatagramService};
use noq_proto::{Incoming, ServerConfig, StreamId, Transmit};
use pathbench_mpquic::{Core, Instruments, LocalSocket, Start};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Handshakes at once beyond which a client must prove its address first.
const HANDSHAKES: usize = 64;
/// Streams that wait to be accepted; more are refused.
const WAITING_STREAMS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Server {
    config: ServerConfig,
    datagrams: Option<Arc<dyn DatagramService>>,
    capacity: Arc<QuicCapacity>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    streams: VecDeque<QuicStream>,
    end: Option<End>,
}

#[derive(Debug)]
enum End {
    Closed,
    /// The driver panicked, with this message.
    Dead(String),
}

impl Server {
    /// A server whose connections are secured as `config` says, and of `datagrams` that are not QUIC's.
    pub(crate) fn new(
        config: ServerConfig,
        datagrams: Option<Arc<dyn DatagramService>>,
        capacity: Arc<QuicCapacity>,
    ) -> Self {
        Self { config, datagrams, capacity, waiting: Mutex::default(), arrived: Condvar::new() }
    }

    pub(crate) fn capacity(&self) -> &Arc<QuicCapacity> {
        &self.capacity
    }

    pub(crate) fn service_for(&self, datagram: &[u8]) -> Option<&dyn DatagramService> {
        self.datagrams.as_deref().filter(|service| service.takes(datagram))
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Admits a client, makes it prove its address, or refuses it; the answer is in `response`.
    pub(crate) fn admit(
        &self,
        endpoint: &Arc<Endpoint>,
        incoming: Incoming,
        response: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let peer = incoming.remote_address();
        let handshakes =
            endpoint.connections().values().filter(|connection| !connection.is_established()).count();
        let validated = incoming.remote_address_validated();
        let proved = validated || !incoming.may_retry();
        let routing = endpoint.routing();
        let slot = self.capacity.connection(peer.ip()).filter(|_| !endpoint.is_closing());
        let Some(slot) = slot else {
            return Some(routing.with(|endpoint| endpoint.refuse(incoming, response)));
        };
        if handshakes >= HANDSHAKES && !proved {
            return routing.with(|endpoint| endpoint.retry(incoming, response)).ok();
        }
        let (settings, epoch, now) = (endpoint.settings(), endpoint.epoch(), endpoint.now());
        let instruments = Instruments::new(&settings.quic.scheduler);
        let mut config = self.config.clone();
        config.crypto = instruments.at_server(config.crypto);
        config.transport = Arc::new(settings.transport(&instruments, epoch, peer.ip()));
        let config = Some(Arc::new(config));
        let accepted =
            routing.with(|endpoint| endpoint.accept(incoming, epoch.instant(now), response, config));
        match accepted {
            Ok((handle, inner)) => {
                let socket = Arc::clone(endpoint.sockets().first()?);
                let start = Start {
                    handle,
                    now,
                    epoch,
                    remote: peer,
                    socket: LocalSocket { id: FIRST_SOCKET, address: socket.local_addr() },
                    first_path: 0,
                    interfaces: Vec::new(),
                    is_address_validated: validated,
                };
                let core = Core::new(inner, instruments, settings, start);
                let connection = QuicConnection::new(Arc::clone(endpoint), peer, core, socket, Some(slot));
                endpoint.connections().insert(handle, Arc::new(connection));
                None
            }
            Err(error) => error.response,
        }
    }

    pub(crate) fn offer(&self, connection: &Arc<QuicConnection>, core: &mut Core, id: StreamId) {
        let mut waiting = self.waiting();
        if waiting.end.is_some() || waiting.streams.len() >= WAITING_STREAMS {
            drop(waiting);
            return core.refuse(id);
        }
        waiting.streams.push_back(QuicStream::adopt(Arc::clone(connection), core, id));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Waits for a stream that a peer has opened.
    ///
    /// # Errors
    /// `Closed` once [`Server::close`] was called, `Dead` once [`Server::fail`] was.
    pub(crate) fn accept(&self, local: SocketAddr) -> Result<QuicStream, AcceptError> {
        let mut waiting = self.waiting();
        loop {
            match &waiting.end {
                None => {}
                Some(End::Closed) => return Err(AcceptError::Closed { local }),
                Some(End::Dead(message)) => {
                    return Err(AcceptError::Dead { local, message: message.clone() });
                }
            }
            if let Some(stream) = waiting.streams.pop_front() {
                return Ok(stream);
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all waiting for streams, now and later; those nobody has taken over are refused.
    pub(crate) fn close(&self) {
        self.end(End::Closed);
    }

    /// The same, for the driver has died of a panic.
    pub(crate) fn fail(&self, message: &str) {
        self.end(End::Dead(message.to_owned()));
    }

    fn end(&self, end: End) {
        let mut waiting = self.waiting();
        waiting.end.get_or_insert(end);
        let refused = std::mem::take(&mut waiting.streams);
        drop(waiting);
        self.arrived.notify_all();
        for stream in refused {
            stream.abort();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
