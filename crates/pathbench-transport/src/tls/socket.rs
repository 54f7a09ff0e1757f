//! A connected kernel socket that is, or may turn out to be, encrypted.

use super::configuration::distrust;
use super::layer::Layer;
use super::{ALPN, ServerIdentity, Trust, TrustError, client_config, server_config};
use crate::connected_socket::ConnectedSocket;
use crate::connection::{ReceiveError, SendError};
use pathbench_record::connection::InForce;
use pathbench_record::time::Clock;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{fmt, io};

/// First byte of a TLS connection: a record with a handshake message (RFC 8446, 5.1). No frame of the test protocol
/// begins like that.
const TLS_HANDSHAKE: u8 = 0x16;

/// A socket with TLS on it, or one of a server that takes both, before and after its peer has chosen.
pub(crate) struct TlsSocket {
    socket: ConnectedSocket,
    clock: Arc<dyn Clock>,
    server: Option<Arc<ServerConfig>>,
    spoken: OnceLock<Spoken>,
    deciding: Mutex<()>,
    in_force: OnceLock<InForce>,
}

#[derive(Debug)]
enum Spoken {
    Clear,
    Tls(Box<Layer>),
}

#[derive(Debug, Clone)]
pub(crate) struct ClientSetup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

#[derive(Debug)]
pub(crate) enum HandshakeError {
    Untrusted(String),
    TimedOut,
    Failed(String),
}

impl ClientSetup {
    pub(crate) fn new(trust: &Trust, remote: IpAddr) -> Result<Self, TrustError> {
        Ok(Self { config: Arc::new(client_config(trust, ALPN)?), name: trust.server_name(remote)? })
    }
}

pub(crate) struct TlsAcceptor {
    config: Arc<ServerConfig>,
    clock: Arc<dyn Clock>,
}

impl TlsAcceptor {
    pub(crate) fn new(identity: &ServerIdentity, clock: Arc<dyn Clock>) -> Result<Self, rustls::Error> {
        Ok(Self { config: Arc::new(server_config(identity, ALPN)?), clock })
    }

    /// Takes a connection whose peer encrypts or not. Nothing is received here, so that no peer holds up the others.
    pub(crate) fn accept(&self, socket: ConnectedSocket) -> TlsSocket {
        TlsSocket {
            socket,
            clock: Arc::clone(&self.clock),
            server: Some(Arc::clone(&self.config)),
            spoken: OnceLock::new(),
            deciding: Mutex::default(),
            in_force: OnceLock::new(),
        }
    }
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor").finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl TlsSocket {
    /// A client's: shakes hands at once, within `timeout`.
    pub(crate) fn connect(
        socket: ConnectedSocket,
        setup: &ClientSetup,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Result<Self, HandshakeError> {
        let session = ClientConnection::new(Arc::clone(&setup.config), setup.name.clone())
            .map_err(|error| HandshakeError::Failed(error.to_string()))?;
        let layer = Layer::new(session, &[]);
        layer.shake_hands(&socket, clock.as_ref(), timeout).map_err(|error| {
            // The peer is not to take it for a connection that will be used.
            socket.abort();
            handshake_error(error)
        })?;
        Ok(Self {
            socket,
            clock,
            server: None,
            spoken: OnceLock::from(Spoken::Tls(Box::new(layer))),
            deciding: Mutex::default(),
            in_force: OnceLock::new(),
        })
    }

    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        let spoken = match self.spoken.get() {
            Some(spoken) => spoken,
            None => match self.decide(buffer, timeout)? {
                Decision::Clear(count) => return Ok(count),
                Decision::Made(spoken) => spoken,
            },
        };
        match spoken {
            Spoken::Clear => self.socket.receive(buffer, timeout),
            Spoken::Tls(layer) => layer.receive(&self.socket, self.clock.as_ref(), buffer, timeout),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        match self.spoken.get() {
            Some(Spoken::Tls(layer)) => layer.send(&self.socket, self.clock.as_ref(), bytes, timeout),
            Some(Spoken::Clear) => self.socket.send(bytes, timeout),
            // In clear text it would be wrong for half of them.
            None => Err(SendError::Failed {
                peer: self.socket.peer_addr(),
                source: io::Error::other("the client has not spoken yet, so it is not known how to answer"),
            }),
        }
    }

    pub(crate) fn finish_sending(&self) {
        if let Some(Spoken::Tls(layer)) = self.spoken.get() {
            layer.finish_sending(&self.socket);
        }
        self.socket.finish_sending();
    }

    pub(crate) fn socket(&self) -> &ConnectedSocket {
        &self.socket
    }

    pub(crate) fn in_force(&self) -> &InForce {
        if let Some(in_force) = self.in_force.get() {
            return in_force;
        }
        match self.spoken.get() {
            Some(Spoken::Tls(layer)) => match layer.encryption() {
                Some(encryption) => self.in_force.get_or_init(|| InForce {
                    encryption: Some(encryption),
                    ..self.socket.in_force().clone()
                }),
                None => self.socket.in_force(),
            },
            _ => self.socket.in_force(),
        }
    }

    fn decide(&self, buffer: &mut [u8], timeout: Option<Duration>) -> Result<Decision<'_>, ReceiveError> {
        let _alone = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spoken) = self.spoken.get() {
            return Ok(Decision::Made(spoken));
        }
        let count = self.socket.receive(buffer, timeout)?;
        let first = buffer.get(..count).unwrap_or_default();
        let server = self.server.as_ref().filter(|_| first.first() == Some(&TLS_HANDSHAKE));
        let Some(server) = server else {
            let _decided = self.spoken.set(Spoken::Clear);
            return Ok(Decision::Clear(count));
        };
        let session = ServerConnection::new(Arc::clone(server)).map_err(|error| ReceiveError::Failed {
            peer: self.socket.peer_addr(),
            source: io::Error::other(error),
        })?;
        Ok(Decision::Made(self.spoken.get_or_init(|| Spoken::Tls(Box::new(Layer::new(session, first))))))
    }
}

enum Decision<'a> {
    Clear(usize),
    Made(&'a Spoken),
}

impl Drop for TlsSocket {
    fn drop(&mut self) {
        if let Some(Spoken::Tls(layer)) = self.spoken.get() {
            layer.leave(&self.socket);
        }
    }
}

fn handshake_error(error: ReceiveError) -> HandshakeError {
    let source = match error {
        ReceiveError::TimedOut { .. } => return HandshakeError::TimedOut,
        ReceiveError::Reset { .. } => {
            return HandshakeError::Failed("it closed the connection; does it serve TLS there?".to_owned());
        }
        ReceiveError::Failed { source, .. } => source,
        other => return HandshakeError::Failed(other.to_string()),
    };
    let error = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(words) = error.and_then(distrust) {
        return HandshakeError::Untrusted(words);
    }
    match error {
        Some(rustls::Error::InvalidMessage(_)) => {
            HandshakeError::Failed("it answers with something other than TLS".to_owned())
        }
        Some(error) => HandshakeError::Failed(error.to_string()),
        None => HandshakeError::Failed(source.to_string()),
    }
}
