//! Admission of clients, and the streams that wait to be accepted.

use super::capacity::HandshakeAdmission;
use super::connection::{FIRST_SOCKET, QuicConnection};
use super::endpoint::QuicEndpoint;
use super::stream::QuicStream;
use crate::containment::lock;
use crate::error::AcceptError;
use crate::options::DatagramService;
use noq_proto::{ConnectionHandle, Incoming, ServerConfig, StreamId, Transmit};
use pathbench_mpquic::{Core, Instruments, LocalSocket, Start};
use pathbench_record::network::Client;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Streams that wait to be accepted; more are refused.
const WAITING_STREAMS: usize = 1024;

#[derive(Debug)]
pub(crate) struct QuicServer {
    config: ServerConfig,
    datagrams: Option<Arc<dyn DatagramService>>,
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

impl QuicServer {
    pub(crate) fn new(config: ServerConfig, datagrams: Option<Arc<dyn DatagramService>>) -> Self {
        Self { config, datagrams, waiting: Mutex::default(), arrived: Condvar::new() }
    }

    pub(crate) fn service_for(&self, datagram: &[u8]) -> Option<&dyn DatagramService> {
        self.datagrams.as_deref().filter(|service| service.takes(datagram))
    }

    /// Admits a client, requires proof of its address (Retry), or refuses it; the answer is in `response`.
    pub(crate) fn admit(
        &self,
        endpoint: &Arc<QuicEndpoint>,
        connections: &mut HashMap<ConnectionHandle, Arc<QuicConnection>>,
        incoming: Incoming,
        response: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let peer = incoming.remote_address();
        let validated = incoming.remote_address_validated();
        let capacity = endpoint.capacity.as_ref().filter(|_| !endpoint.is_closing());
        let admission = capacity.map_or(HandshakeAdmission::Refuse, |capacity| {
            capacity.admit_handshake(Client::from(peer.ip()), validated, incoming.may_retry())
        });
        let slot = match admission {
            HandshakeAdmission::Admitted(slot) => slot,
            HandshakeAdmission::Retry => {
                return endpoint.with_library(|endpoint| endpoint.retry(incoming, response)).ok();
            }
            HandshakeAdmission::Ignore => {
                endpoint.with_library(|endpoint| endpoint.ignore(incoming));
                return None;
            }
            HandshakeAdmission::Refuse => {
                return Some(endpoint.with_library(|endpoint| endpoint.refuse(incoming, response)));
            }
        };
        let (settings, epoch, now) = (&endpoint.settings, endpoint.epoch, endpoint.now());
        let instruments = Instruments::new(&settings.quic.scheduler);
        let mut config = self.config.clone();
        config.crypto = instruments.at_server(config.crypto);
        config.transport = Arc::new(settings.transport(&instruments, epoch, peer.ip()));
        let config = Some(Arc::new(config));
        let accepted =
            endpoint.with_library(|endpoint| endpoint.accept(incoming, epoch.instant(now), response, config));
        match accepted {
            Ok((handle, inner)) => {
                let socket = Arc::clone(endpoint.sockets().first()?);
                let start = Start {
                    now,
                    epoch,
                    remote: peer,
                    socket: LocalSocket { id: FIRST_SOCKET, address: socket.local_addr() },
                    first_path: 0,
                    interfaces: Vec::new(),
                    is_address_validated: validated,
                };
                let core = Core::new(inner, instruments, settings, &start);
                let connection =
                    QuicConnection::new(Arc::clone(endpoint), (handle, peer), core, socket, Some(slot));
                connections.insert(handle, Arc::new(connection));
                None
            }
            Err(error) => error.response,
        }
    }

    pub(crate) fn offer(&self, connection: &Arc<QuicConnection>, core: &mut Core, id: StreamId) {
        let mut waiting = lock(&self.waiting);
        if waiting.end.is_some() || waiting.streams.len() >= WAITING_STREAMS {
            drop(waiting);
            return core.refuse(id);
        }
        waiting.streams.push_back(QuicStream::adopt(Arc::clone(connection), core, id));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Waits for a stream that a peer opens.
    /// Errors: `Closed` after [`QuicServer::close`], `Dead` after [`QuicServer::fail`].
    pub(crate) fn accept(&self, local: SocketAddr) -> Result<QuicStream, AcceptError> {
        let mut waiting = lock(&self.waiting);
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

    /// Ends current and later calls of [`QuicServer::accept`], and refuses the streams that wait to be accepted.
    pub(crate) fn close(&self) {
        self.end(End::Closed);
    }

    /// Like [`QuicServer::close`], after a panic of the driver.
    pub(crate) fn fail(&self, message: &str) {
        self.end(End::Dead(message.to_owned()));
    }

    fn end(&self, end: End) {
        let mut waiting = lock(&self.waiting);
        waiting.end.get_or_insert(end);
        let refused = std::mem::take(&mut waiting.streams);
        drop(waiting);
        self.arrived.notify_all();
        for stream in refused {
            stream.abort();
        }
    }
}
