//! The opening side: one QUIC connection, and streams on it.

use super::connection::{FIRST_SOCKET, QuicConnection};
use super::endpoint::{Endpoint, Time};
use super::interfaces::{Exits, largest_mtu};
use super::link_watch::LinkWatch;
use super::settings;
use super::socket::{PathSocket, SocketError, Way};
use super::stream::QuicStream;
use crate::connect::{ConnectError, ConnectOptions};
use crate::tls::{ALPN, client_config, distrust};
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::{ClientConfig, ConnectionError};
use pathbench_mpquic::{
    CONNECTION_WINDOW_BYTES, Core, Instruments, LocalSocket, PathInput, Start, endpoint_config,
};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// A QUIC connection to a server. It is closed when this and all its streams are dropped.
#[derive(Debug)]
pub(crate) struct QuicClient {
    connection: Arc<QuicConnection>,
    options: ConnectOptions,
}

impl QuicClient {
    /// Connects, waiting at most `options.timeout`.
    pub(crate) fn connect(
        transport: Transport,
        options: &ConnectOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ConnectError> {
        let remote = options.remote;
        let failed = |doing| move |source| ConnectError::Failed { remote, doing, source };
        let multipath = transport == Transport::Mpquic;
        let instruments = Instruments::new(&options.quic.scheduler);
        let (crypto, server_name) = trust(transport, options)?;
        let mut crypto = ClientConfig::new(instruments.at_client(Arc::new(crypto)));
        let time = Time::new(clock);
        let epoch = time.epoch();
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
        let exits = if names.is_empty() { Exits::Of(socket.local_addr().ip()) } else { Exits::Named(&names) };
        let settings =
            settings(&options.socket, &options.quic, multipath, largest_mtu(exits), CONNECTION_WINDOW_BYTES)?;
        let socket = Arc::new(socket);
        let sockets = vec![Arc::clone(&socket)];
        crypto.transport_config(Arc::new(settings.transport(&instruments, epoch, remote.ip())));
        let mut protocol = noq_proto::Endpoint::new(Arc::new(endpoint_config()), None, true);
        let now = time.now();
        let (handle, inner) = protocol
            .connect(epoch.instant(now), crypto, remote, &server_name)
            .map_err(|error| failed("starting a QUIC handshake")(io::Error::other(error.to_string())))?;
        let start = Start {
            handle,
            now,
            epoch,
            remote,
            socket: LocalSocket { id: FIRST_SOCKET, address: socket.local_addr() },
            first_path: first,
            interfaces: links.as_ref().map_or_else(Vec::new, |links| as_found(options, first, links)),
            is_address_validated: true,
        };
        let mut core = Core::new(inner, instruments, &settings, start);
        core.join();
        let endpoint = Endpoint::new(time, protocol, settings, options.socket.clone(), None, sockets)
            .map_err(failed("opening an event descriptor"))?;
        let endpoint = Arc::new(endpoint);
        let connection = Arc::new(QuicConnection::new(Arc::clone(&endpoint), remote, core, socket, None));
        endpoint.connections().insert(handle, Arc::clone(&connection));
        endpoint.start(links).map_err(failed("starting a thread for QUIC"))?;
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
            let left = deadline.since(endpoint.now());
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

    /// Opens a stream, waiting at most `options.timeout` until the server allows one more.
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
            let left = deadline.since(endpoint.now());
            if left.is_zero() {
                return Err(self.failure(&ConnectionError::TimedOut));
            }
            core = self.connection.wait(core, left);
        }
    }

    /// Whether streams can no longer be opened on it.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.lock().ended().is_some()
    }

    fn failure(&self, reason: &ConnectionError) -> ConnectError {
        let (remote, local) = (self.options.remote, self.options.local);
        match reason {
            ConnectionError::TimedOut => {
                ConnectError::TimedOut { remote, local, after: self.options.timeout }
            }
            other => match distrusted(other) {
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

/// Why the server is not the one that was meant, when that is what ended the handshake.
fn distrusted(reason: &ConnectionError) -> Option<String> {
    let ConnectionError::TransportError(error) = reason else { return None };
    error.crypto.as_ref()?.downcast_ref::<rustls::Error>().and_then(distrust)
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

/// The interfaces of the wanted paths as they are, the one of the handshake first.
fn as_found(options: &ConnectOptions, first: usize, links: &LinkWatch) -> Vec<PathInput> {
    let mut names: Vec<&str> = options.quic.paths.iter().map(|path| path.interface.as_str()).collect();
    if first < names.len() {
        names.swap(0, first);
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names.into_iter().flat_map(|name| links.as_changes(name)).collect()
}

/// The socket that the handshake takes, and of which wanted path it is: the first that can be had.
fn first_socket(
    options: &ConnectOptions,
    links: Option<&LinkWatch>,
) -> Result<(usize, PathSocket), ConnectError> {
    let remote = options.remote;
    let Some(links) = links else {
        let way = Way { interface: options.interface.as_deref(), local: options.local, remote };
        let socket = PathSocket::towards(&way, &options.socket);
        return socket.map(|socket| (0, socket)).map_err(|error| refusal(options, error));
    };
    let mut refused = None;
    for (index, path) in options.quic.paths.iter().enumerate() {
        let usable = links.usable_addresses(&path.interface, remote.is_ipv6());
        let local = usable.into_iter().find(|address| path.address.is_none_or(|wanted| wanted == *address));
        let Some(local) = local else { continue };
        let way = Way { interface: Some(&path.interface), local: Some(local), remote };
        match PathSocket::towards(&way, &options.socket) {
            Ok(socket) => return Ok((index, socket)),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or_else(
        || ConnectError::Unreachable {
            remote,
            local: None,
            message: "none of the interfaces asked for is up and has an address of the server's family"
                .to_owned(),
        },
        |error| refusal(options, error),
    ))
}

/// The configuration by which the server is believed, and the name that it is to prove.
fn trust(transport: Transport, options: &ConnectOptions) -> Result<(QuicClientConfig, String), ConnectError> {
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

fn refusal(options: &ConnectOptions, error: SocketError) -> ConnectError {
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
