//! The accepting side: whom to admit, and the streams that wait to be taken over.

use super::capacity::QuicCapacity;
use super::connection::QuicConnection;
use super::core::{ABORTED, Core};
use super::endpoint::Endpoint;
use super::paths::Paths;
use super::scheduler::Board;
use super::stream::QuicStream;
use super::stream_meter::StreamMeter;
use crate::listener::{AcceptError, DatagramService};
use noq_proto::{Incoming, ServerConfig, StreamId, Transmit};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Handshakes at once beyond which a client must prove its address first.
const HANDSHAKES: usize = 64;
/// Streams that wait to be accepted; more are refused.
const WAITING_STREAMS: usize = 1024;

/// What a server's endpoint has beyond a client's.
#[derive(Debug)]
pub(crate) struct Server {
    config: ServerConfig,
    /// What else is served at its port.
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

/// Why nothing is accepted any more.
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

    /// Who else may be meant by a datagram.
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
        let board = Board::new(endpoint.settings().quic.scheduler.clone());
        let meter = StreamMeter::default();
        let mut config = self.config.clone();
        config.crypto = meter.at_server(config.crypto);
        config.transport = Arc::new(endpoint.settings().transport(&board, endpoint.epoch(), peer.ip()));
        let now = endpoint.instant();
        let accepted =
            routing.with(|endpoint| endpoint.accept(incoming, now, response, Some(Arc::new(config))));
        match accepted {
            Ok((handle, inner)) => {
                let socket = Arc::clone(endpoint.sockets().first()?);
                let paths = Paths::of_server(&endpoint.settings().quic, socket, peer, meter);
                let (epoch, send_window) = (endpoint.epoch().clone(), endpoint.settings().send_window());
                let mut core = Core::new(handle, inner, board, paths, epoch, now, send_window);
                core.unproved = !validated;
                let connection = QuicConnection::new(Arc::clone(endpoint), handle, peer, core, Some(slot));
                endpoint.connections().insert(handle, Arc::new(connection));
                None
            }
            Err(error) => error.response,
        }
    }

    /// Puts a stream that the peer has opened into the queue.
    pub(crate) fn offer(&self, connection: &Arc<QuicConnection>, core: &mut Core, id: StreamId) {
        let mut waiting = self.waiting();
        if waiting.end.is_some() || waiting.streams.len() >= WAITING_STREAMS {
            drop(waiting);
            let _ = core.inner.send_stream(id).reset(ABORTED);
            let _ = core.inner.recv_stream(id).stop(ABORTED);
            return;
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
