//! A connected kernel socket with optional TLS; at a server, also before the first byte shows whether the client uses it.

use super::layer::TlsLayer;
use super::{ALPN, ServerIdentity, rejection, server_config};
use crate::containment::lock;
use crate::error::{ConnectError, ReceiveError, SendError};
use crate::options::ConnectOptions;
use crate::socket::ConnectedSocket;
use pathbench_record::connection::InForce;
use pathbench_record::time::Clock;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// First byte of a TLS connection: a handshake record (RFC 8446, section 5.1). No frame of the test protocol begins
/// with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// A kernel socket in clear text or with TLS. At a server that accepts both, the first byte decides.
#[derive(Debug)]
pub(crate) struct StreamSocket {
    pub(crate) socket: ConnectedSocket,
    server: Option<TlsAcceptor>,
    wire_format: OnceLock<WireFormat>,
    detecting: Mutex<()>,
}

#[derive(Debug)]
enum WireFormat {
    Clear,
    Tls(Box<TlsLayer>),
}

#[derive(Debug, Clone)]
pub(crate) struct TlsAcceptor {
    config: Arc<ServerConfig>,
    clock: Arc<dyn Clock>,
}

impl TlsAcceptor {
    pub(crate) fn new(identity: &ServerIdentity, clock: Arc<dyn Clock>) -> Result<Self, rustls::Error> {
        Ok(Self { config: Arc::new(server_config(identity, ALPN)?), clock })
    }
}

impl StreamSocket {
    fn new(socket: ConnectedSocket, server: Option<TlsAcceptor>, wire_format: OnceLock<WireFormat>) -> Self {
        Self { socket, server, wire_format, detecting: Mutex::default() }
    }

    pub(crate) fn in_clear_text(socket: ConnectedSocket) -> Self {
        Self::new(socket, None, OnceLock::from(WireFormat::Clear))
    }

    /// A server's socket; without an acceptor, clear text. Receives nothing here, so that no peer delays the others.
    pub(crate) fn from_accepted(socket: ConnectedSocket, server: Option<&TlsAcceptor>) -> Self {
        match server {
            None => Self::in_clear_text(socket),
            Some(server) => Self::new(socket, Some(server.clone()), OnceLock::new()),
        }
    }

    /// A client's TLS socket; completes the handshake within the timeout in `options`.
    pub(crate) fn connect(
        socket: ConnectedSocket,
        config: ClientConfig,
        name: ServerName<'static>,
        clock: Arc<dyn Clock>,
        options: &ConnectOptions,
    ) -> Result<Self, ConnectError> {
        let session = ClientConnection::new(Arc::new(config), name).map_err(|error| {
            ConnectError::NotEncrypted { remote: options.remote, message: error.to_string() }
        })?;
        let layer = TlsLayer::new(session, &[], clock);
        layer.handshake(&socket, options.timeout).map_err(|error| {
            // The peer must not consider this connection usable.
            socket.abort();
            handshake_error(error, options)
        })?;
        Ok(Self::new(socket, None, OnceLock::from(WireFormat::Tls(Box::new(layer)))))
    }

    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        if self.wire_format.get().is_none()
            && let Some(count) = self.detect(buffer, timeout)?
        {
            return Ok(count);
        }
        match self.wire_format.get() {
            Some(WireFormat::Tls(layer)) => layer.receive(&self.socket, buffer, timeout),
            _ => self.socket.receive(buffer, timeout),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        match self.wire_format.get() {
            Some(WireFormat::Tls(layer)) => layer.send(&self.socket, bytes, timeout),
            Some(WireFormat::Clear) => self.socket.send(bytes, timeout),
            // In clear text the result would be wrong for TLS clients.
            None => Err(SendError::Failed {
                peer: self.socket.peer,
                source: io::Error::other(
                    "the client has not sent data yet, so TLS or clear text is not yet determined",
                ),
            }),
        }
    }

    /// The kernel socket, if the connection is known to be in clear text.
    pub(crate) fn clear(&self) -> Option<&ConnectedSocket> {
        matches!(self.wire_format.get(), Some(WireFormat::Clear)).then_some(&self.socket)
    }

    pub(crate) fn finish_sending(&self) {
        if let Some(WireFormat::Tls(layer)) = self.wire_format.get() {
            layer.finish_sending(&self.socket);
        }
        self.socket.finish_sending();
    }

    pub(crate) fn in_force(&self) -> InForce {
        let encryption = match self.wire_format.get() {
            Some(WireFormat::Tls(layer)) => layer.encryption(),
            _ => None,
        };
        InForce { encryption, ..self.socket.in_force.clone() }
    }

    /// Detects TLS from the first bytes. Returns the number of bytes in `buffer` in clear text.
    fn detect(&self, buffer: &mut [u8], timeout: Option<Duration>) -> Result<Option<usize>, ReceiveError> {
        let _guard = lock(&self.detecting);
        if self.wire_format.get().is_some() {
            return Ok(None);
        }
        let count = self.socket.receive(buffer, timeout)?;
        let first = buffer.get(..count).unwrap_or_default();
        let server = self.server.as_ref().filter(|_| first.first() == Some(&TLS_HANDSHAKE));
        let Some(server) = server else {
            let _unset = self.wire_format.set(WireFormat::Clear);
            return Ok(Some(count));
        };
        let session = ServerConnection::new(Arc::clone(&server.config)).map_err(|error| {
            ReceiveError::Failed { peer: self.socket.peer, source: io::Error::other(error) }
        })?;
        let layer = TlsLayer::new(session, first, Arc::clone(&server.clock));
        let _unset = self.wire_format.set(WireFormat::Tls(Box::new(layer)));
        Ok(None)
    }
}

impl Drop for StreamSocket {
    fn drop(&mut self) {
        if let Some(WireFormat::Tls(layer)) = self.wire_format.get() {
            layer.close_without_waiting(&self.socket);
        }
    }
}

fn handshake_error(error: ReceiveError, options: &ConnectOptions) -> ConnectError {
    let (remote, local) = (options.remote, options.local);
    let source = match error {
        ReceiveError::TimedOut { .. } => {
            return ConnectError::TimedOut { remote, local, after: options.timeout };
        }
        ReceiveError::Reset { .. } => io::Error::other("it closed the connection; does it serve TLS there?"),
        ReceiveError::Failed { source, .. } => source,
        other => io::Error::other(other.to_string()),
    };
    let error = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(message) = error.and_then(rejection) {
        return ConnectError::Untrusted { remote, message };
    }
    let message = match error {
        Some(rustls::Error::InvalidMessage(_)) => "it answers with something other than TLS".to_owned(),
        Some(error) => error.to_string(),
        None => source.to_string(),
    };
    ConnectError::NotEncrypted { remote, message }
}
