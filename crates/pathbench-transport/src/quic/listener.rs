//! A QUIC listener.

use super::driver::QuicDriver;
use super::endpoint::QuicEndpoint;
use super::interfaces::{Egress, largest_mtu};
use super::server::QuicServer;
use super::settings;
use super::socket::QuicSocket;
use super::stream::QuicStream;
use crate::error::{AcceptError, BindError};
use crate::options::ListenOptions;
use crate::tls::{ALPN, server_config};
use noq_proto::ServerConfig;
use noq_proto::crypto::rustls::QuicServerConfig;
use pathbench_mpquic::{Epoch, FIRST_WINDOW_BYTES, endpoint_config};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Accepts the streams of QUIC connections. An mpquic listener negotiates multipath with each client that requests it,
/// and accepts the others with a single path.
#[derive(Debug)]
pub(crate) struct QuicListener {
    endpoint: Arc<QuicEndpoint>,
    server: Arc<QuicServer>,
    local: SocketAddr,
}

impl QuicListener {
    pub(crate) fn open(
        transport: Transport,
        address: SocketAddr,
        options: &ListenOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BindError> {
        let failed = |doing| move |source| BindError::Failed { address, doing, source };
        let identity = options.identity.as_ref().ok_or(BindError::NoIdentity { transport, address })?;
        let multipath = transport == Transport::Mpquic;
        let settings = settings(
            &options.socket,
            &options.quic,
            multipath,
            largest_mtu(Egress::Any(address.ip())),
            FIRST_WINDOW_BYTES,
        )?;
        let tls = server_config(identity, ALPN)
            .map_err(|error| failed("setting up TLS")(io::Error::other(error.to_string())))?;
        let crypto = QuicServerConfig::try_from(tls)
            .map_err(|error| failed("setting up TLS for QUIC")(io::Error::other(error.to_string())))?;
        let config = ServerConfig::with_crypto(Arc::new(crypto));
        let socket = QuicSocket::listen(address, &options.socket)
            .map_err(|error| BindError::classify(address, error.doing, error.source))?;
        let local = socket.local_addr();
        let server_config = Some(Arc::new(config.clone()));
        let library = noq_proto::Endpoint::new(Arc::new(endpoint_config()), server_config, true);
        let epoch = Epoch::starting(clock.now());
        let capacity = Some(Arc::clone(&options.quic_capacity));
        let (socket_options, sockets) = (options.socket.clone(), vec![Arc::new(socket)]);
        let endpoint =
            QuicEndpoint::new((clock, epoch), library, settings, socket_options, capacity, sockets);
        let endpoint = Arc::new(endpoint.map_err(failed("opening an event descriptor"))?);
        let server = Arc::new(QuicServer::new(config, options.datagrams.clone()));
        QuicDriver::start(&endpoint, Some(Arc::clone(&server)), None, None)
            .map_err(failed("starting a thread for QUIC"))?;
        Ok(Self { endpoint, server, local })
    }

    pub(crate) fn accept(&self) -> Result<QuicStream, AcceptError> {
        self.server.accept(self.local)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn close(&self) {
        self.server.close();
    }
}

impl Drop for QuicListener {
    /// Connections with accepted streams continue until these are dropped; then the socket is closed.
    fn drop(&mut self) {
        self.close();
        self.endpoint.close();
    }
}
