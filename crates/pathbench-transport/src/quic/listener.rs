//! The accepting side's socket.

use super::endpoint::{Endpoint, Time};
use super::interfaces::{Exits, largest_mtu};
use super::server::Server;
use super::settings;
use super::socket::PathSocket;
use super::stream::QuicStream;
use crate::listener::{AcceptError, BindError, ListenOptions};
use crate::tls::{ALPN, server_config};
use noq_proto::ServerConfig;
use noq_proto::crypto::rustls::QuicServerConfig;
use pathbench_mpquic::{FIRST_WINDOW_BYTES, endpoint_config};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Accepts the streams of QUIC connections. One of mpquic agrees to several paths with every client that asks for
/// them, and takes the others as well.
#[derive(Debug)]
pub(crate) struct QuicListener {
    endpoint: Arc<Endpoint>,
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
            largest_mtu(Exits::Any(address.ip())),
            FIRST_WINDOW_BYTES,
        )?;
        let tls = server_config(identity, ALPN)
            .map_err(|error| failed("setting up TLS")(io::Error::other(error.to_string())))?;
        let crypto = QuicServerConfig::try_from(tls)
            .map_err(|error| failed("setting up TLS for QUIC")(io::Error::other(error.to_string())))?;
        let server = Server::new(
            ServerConfig::with_crypto(Arc::new(crypto)),
            options.datagrams.clone(),
            Arc::clone(&options.quic_capacity),
        );
        let socket =
            PathSocket::listening(address, &options.socket).map_err(|error| match error.source.kind() {
                io::ErrorKind::AddrInUse => BindError::InUse { address },
                io::ErrorKind::AddrNotAvailable => BindError::NotALocalAddress { address },
                io::ErrorKind::PermissionDenied => BindError::Denied { address },
                _ => failed(error.doing)(error.source),
            })?;
        let local = socket.local_addr();
        let protocol = noq_proto::Endpoint::new(
            Arc::new(endpoint_config()),
            Some(Arc::new(server.config().clone())),
            true,
        );
        let sockets = vec![Arc::new(socket)];
        let endpoint = Endpoint::new(
            Time::new(clock),
            protocol,
            settings,
            options.socket.clone(),
            Some(server),
            sockets,
        )
        .map_err(failed("opening an event descriptor"))?;
        let endpoint = Arc::new(endpoint);
        endpoint.start(None).map_err(failed("starting a thread for QUIC"))?;
        Ok(Self { endpoint, local })
    }

    pub(crate) fn accept(&self) -> Result<QuicStream, AcceptError> {
        match self.endpoint.server() {
            Some(server) => server.accept(self.local),
            None => Err(AcceptError::Closed { local: self.local }),
        }
    }

    #[cfg(test)]
    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn close(&self) {
        if let Some(server) = self.endpoint.server() {
            server.close();
        }
    }
}

impl Drop for QuicListener {
    /// Connections whose streams were accepted go on until those are dropped; then the socket is closed.
    fn drop(&mut self) {
        self.close();
        self.endpoint.close();
    }
}
