//! A client's QUIC connection and its streams.

use super::connection::{FIRST_SOCKET, QuicConnection};
use super::driver::QuicDriver;
use super::endpoint::QuicEndpoint;
use super::interfaces::{Egress, largest_mtu};
use super::link_watch::LinkWatch;
use super::settings;
use super::socket::{Binding, QuicSocket, SocketError};
use super::stream::QuicStream;
use crate::error::ConnectError;
use crate::options::ConnectOptions;
use crate::tls::{ALPN, client_config, rejection};
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::{ClientConfig, ConnectionError};
use pathbench_mpquic::{
    CONNECTION_WINDOW_BYTES, Core, Epoch, Instruments, LocalSocket, Start, endpoint_config,
};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use std::io;
use std::sync::Arc;

/// A QUIC connection to a server. It is closed when this and all its streams are dropped.
#[derive(Debug)]
pub(crate) struct QuicClient {
    connection: Arc<QuicConnection>,
    options: ConnectOptions,
}

impl QuicClient {
    /// Waits up to `options.timeout` for the end of the handshake.
    pub(crate) fn connect(
        transport: Transport,
        options: &ConnectOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ConnectError> {
        let remote = options.remote;
        let failed = |doing| move |source| ConnectError::Failed { remote, doing, source };
        let multipath = transport == Transport::Mpquic;
        let instruments = Instruments::new(&options.quic.scheduler);
        let (crypto, server_name) = tls_config(transport, options)?;
        let mut crypto = ClientConfig::new(instruments.at_client(Arc::new(crypto)));
        let epoch = Epoch::starting(clock.now());
        let links =
            if multipath && !options.quic.paths.is_empty() {
                Some(LinkWatch::start().map_err(|error| {
                    failed("watching the interfaces")(io::Error::other(error.to_string()))
                })?)
            } else {
                None
            };
        let (first, socket) = first_socket(options, links.as_ref())?;
        let names = interfaces(options, multipath);
        let mtu_bytes = largest_mtu(if names.is_empty() {
            Egress::Address(socket.local_addr().ip())
        } else {
            Egress::Named(&names)
        });
        let settings =
            settings(&options.socket, &options.quic, multipath, mtu_bytes, CONNECTION_WINDOW_BYTES)?;
        let socket = Arc::new(socket);
        let sockets = vec![Arc::clone(&socket)];
        crypto.transport_config(Arc::new(settings.transport(&instruments, epoch, remote.ip())));
        let mut protocol = noq_proto::Endpoint::new(Arc::new(endpoint_config()), None, true);
        let now = clock.now();
        let (handle, inner) = protocol
            .connect(epoch.instant(now), crypto, remote, &server_name)
            .map_err(|error| failed("starting a QUIC handshake")(io::Error::other(error.to_string())))?;
        let start = Start {
            now,
            epoch,
            remote,
            socket: LocalSocket { id: FIRST_SOCKET, address: socket.local_addr() },
            first_path: first,
            interfaces: links.as_ref().map(LinkWatch::interfaces).unwrap_or_default(),
            is_address_validated: true,
        };
        let mut core = Core::new(inner, instruments, &settings, &start);
        core.join();
        let endpoint =
            QuicEndpoint::new((clock, epoch), protocol, settings, options.socket.clone(), None, sockets);
        let endpoint = Arc::new(endpoint.map_err(failed("opening an event descriptor"))?);
        let connection = QuicConnection::new(Arc::clone(&endpoint), (handle, remote), core, socket, None);
        let connection = Arc::new(connection);
        QuicDriver::start(&endpoint, None, Some(Arc::clone(&connection)), links)
            .map_err(failed("starting a thread for QUIC"))?;
        let client = Self { connection, options: options.clone() };
        client.await_handshake()?;
        Ok(client)
    }

    fn await_handshake(&self) -> Result<(), ConnectError> {
        let endpoint = &self.connection.endpoint;
        let deadline = endpoint.now() + self.options.timeout;
        let mut core = self.connection.lock();
        loop {
            if let Some(reason) = core.ended() {
                return Err(self.failure(reason));
            }
            if core.is_established() {
                return Ok(());
            }
            let left = deadline.duration_since(endpoint.now());
            if left.is_zero() || endpoint.was_refused() {
                core.abort_connection(endpoint.now());
                self.connection.submit(core);
                return Err(if left.is_zero() {
                    self.failure(&ConnectionError::TimedOut)
                } else {
                    ConnectError::Refused { remote: self.options.remote }
                });
            }
            core = self.connection.wait(core, left);
        }
    }

    /// Opens a stream; waits up to `options.timeout` while the server's stream limit is reached (RFC 9000, section 4.6).
    pub(crate) fn open(&self) -> Result<QuicStream, ConnectError> {
        let endpoint = &self.connection.endpoint;
        let deadline = endpoint.now() + self.options.timeout;
        let mut core = self.connection.lock();
        loop {
            if let Some(reason) = core.ended() {
                return Err(self.failure(reason));
            }
            if let Some(id) = core.open_stream() {
                return Ok(QuicStream::adopt(Arc::clone(&self.connection), &mut core, id));
            }
            let left = deadline.duration_since(endpoint.now());
            if left.is_zero() {
                return Err(self.failure(&ConnectionError::TimedOut));
            }
            core = self.connection.wait(core, left);
        }
    }

    /// Whether the connection has ended, so that it opens no more streams.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.lock().ended().is_some()
    }

    fn failure(&self, reason: &ConnectionError) -> ConnectError {
        let (remote, local) = (self.options.remote, self.options.local);
        match reason {
            ConnectionError::TimedOut => {
                ConnectError::TimedOut { remote, local, after: self.options.timeout }
            }
            other => match certificate_rejection(other) {
                Some(message) => ConnectError::Untrusted { remote, message },
                None => ConnectError::Failed {
                    remote,
                    doing: "the QUIC handshake",
                    source: io::Error::other(other.to_string()),
                },
            },
        }
    }
}

/// The reason why the certificate is rejected, if that ended the handshake.
fn certificate_rejection(reason: &ConnectionError) -> Option<String> {
    let ConnectionError::TransportError(error) = reason else { return None };
    error.crypto.as_ref()?.downcast_ref::<rustls::Error>().and_then(rejection)
}

impl Drop for QuicClient {
    fn drop(&mut self) {
        self.connection.leave(self.connection.lock());
    }
}

fn interfaces(options: &ConnectOptions, multipath: bool) -> Vec<String> {
    let paths = options.quic.paths.iter().filter(|_| multipath).map(|path| path.interface.clone());
    options.interface.iter().cloned().chain(paths).collect()
}

/// The socket of the handshake and the index of its path: the first requested path whose socket can be opened.
fn first_socket(
    options: &ConnectOptions,
    links: Option<&LinkWatch>,
) -> Result<(usize, QuicSocket), ConnectError> {
    let remote = options.remote;
    let Some(links) = links else {
        let route = Binding { interface: options.interface.as_deref(), local: options.local, remote };
        let socket = QuicSocket::connect(&route, &options.socket);
        return socket.map(|socket| (0, socket)).map_err(|error| socket_failure(options, error));
    };
    let interfaces = links.interfaces();
    let mut failure = None;
    for (index, path) in options.quic.paths.iter().enumerate() {
        let interface = interfaces.iter().find(|interface| interface.name == path.interface);
        let local = interface.and_then(|interface| path.source(interface, remote.is_ipv6()));
        let Some(local) = local else { continue };
        let route = Binding { interface: Some(&path.interface), local: Some(local), remote };
        match QuicSocket::connect(&route, &options.socket) {
            Ok(socket) => return Ok((index, socket)),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.map_or_else(
        || ConnectError::Unreachable {
            remote,
            local: None,
            message: "none of the requested interfaces is up with an address of the server's family"
                .to_owned(),
        },
        |error| socket_failure(options, error),
    ))
}

/// The TLS configuration that authenticates the server, and the name that the server must prove.
fn tls_config(
    transport: Transport,
    options: &ConnectOptions,
) -> Result<(QuicClientConfig, String), ConnectError> {
    let remote = options.remote;
    let failed = |source: String| ConnectError::Failed {
        remote,
        doing: "setting up TLS",
        source: io::Error::other(source),
    };
    let trust = options.security.trust().ok_or(ConnectError::NoTrust { transport, remote })?;
    let name = trust.server_name(remote.ip()).map_err(|error| failed(error.to_string()))?;
    let tls = client_config(trust, ALPN).map_err(|error| failed(error.to_string()))?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| failed(error.to_string()))?;
    Ok((crypto, name.to_str().into_owned()))
}

fn socket_failure(options: &ConnectOptions, error: SocketError) -> ConnectError {
    let (remote, local) = (options.remote, options.local);
    match (error.source.kind(), &options.interface) {
        (_, Some(interface)) if error.source.raw_os_error() == Some(libc::ENODEV) => {
            ConnectError::NoSuchInterface { interface: interface.clone() }
        }
        (io::ErrorKind::AddrNotAvailable, _) if local.is_some() => {
            ConnectError::NotALocalAddress { local: local.unwrap_or(remote.ip()) }
        }
        (
            io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::PermissionDenied,
            _,
        ) => ConnectError::Unreachable { remote, local, message: error.source.to_string() },
        _ => ConnectError::Failed { remote, doing: error.doing, source: error.source },
    }
}
