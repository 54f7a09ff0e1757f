//! A client that is nothing but the library, against a server's own code: real sockets on loopback, and time that passes
//! only when the test says so.

use super::capacity::{QuicCapacity, QuicLimits};
use super::configuration::{self, ConnectionSettings};
use super::connection::QuicConnection;
use super::driver::Driver;
use super::endpoint::Endpoint;
use super::options::QuicOptions;
use super::server::Server;
use super::socket::PathSocket;
use super::time::Epoch;
use crate::options::SocketOptions;
use crate::tls::{ALPN, ServerIdentity, Trust, client_config, server_config};
use bytes::BytesMut;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, FourTuple, PathId, PathStatus, ServerConfig,
    TransportConfig, VarInt, crypto,
};
use pathbench_record::time::{Clock, Timestamp};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const STEP: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Timestamp) {}
}

/// A client that is nothing but the library, and a server.
pub(super) struct World {
    pub(super) clock: Arc<TestClock>,
    pub(super) server: Arc<Endpoint>,
    driver: Driver,
    pub(super) remote: SocketAddr,
    epoch: Epoch,
    socket: UdpSocket,
    endpoint: noq_proto::Endpoint,
    handle: ConnectionHandle,
    pub(super) client: Connection,
}

impl World {
    /// A connection of several paths, with a user at the server.
    pub(super) fn connected() -> Self {
        Self::connected_by(|_| {}, |crypto| Arc::new(crypto))
    }

    /// The same with a client that is configured by these.
    pub(super) fn connected_by(
        adjust: impl FnOnce(&mut TransportConfig),
        crypto: impl FnOnce(QuicClientConfig) -> Arc<dyn crypto::ClientConfig>,
    ) -> Self {
        let clock = Arc::new(TestClock(AtomicU64::new(1_000_000_000)));
        let epoch = Epoch::starting(Arc::clone(&clock) as _);
        let identity = ServerIdentity::self_made(&["localhost".to_owned()]).unwrap();
        let (options, quic) = (SocketOptions::default(), QuicOptions::default());
        let settings = ConnectionSettings::new(&options, &quic, true, 1500).unwrap().of_server();

        let tls = QuicServerConfig::try_from(server_config(&identity, ALPN).unwrap()).unwrap();
        let server = Server::new(
            ServerConfig::with_crypto(Arc::new(tls)),
            None,
            Arc::new(QuicCapacity::new(QuicLimits::default())),
        );
        let socket = PathSocket::listening(([127, 0, 0, 1], 0).into(), &options).unwrap();
        let remote = socket.local_addr();
        let protocol = noq_proto::Endpoint::new(
            Arc::new(configuration::endpoint()),
            Some(Arc::new(server.config().clone())),
            true,
        );
        let sockets = vec![Arc::new(socket)];
        let server =
            Arc::new(Endpoint::new(epoch.clone(), protocol, settings, Some(server), sockets).unwrap());
        let driver = Driver::new(Arc::clone(&server), None);

        let tls = client_config(&Trust::Fingerprint(identity.fingerprint()), ALPN).unwrap();
        let mut config = ClientConfig::new(crypto(QuicClientConfig::try_from(tls).unwrap()));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_multipath_paths(configuration::PATHS);
        adjust(&mut transport);
        config.transport_config(Arc::new(transport));
        let mut endpoint = noq_proto::Endpoint::new(Arc::new(configuration::endpoint()), None, true);
        let now = epoch.instant(clock.now());
        let (handle, client) = endpoint.connect(now, config, remote, "localhost").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut world = Self { clock, server, driver, remote, epoch, socket, endpoint, handle, client };
        for _ in 0..100 {
            world.step(STEP);
        }
        assert!(world.client.is_multipath_negotiated(), "no handshake");
        // As if a stream of a test were in use.
        let slot = world.server.server().and_then(|server| server.capacity().test(world.remote.ip()));
        let connection = world.connection().expect("a connection");
        connection.lock().join();
        connection.lock().begin_test(slot.expect("a slot"));
        world
    }

    pub(super) fn instant(&self) -> Instant {
        self.epoch.instant(self.clock.now())
    }

    /// Both ends do what is due; then so much time passes.
    pub(super) fn step(&mut self, time: Duration) {
        let now = self.instant();
        for _ in 0..3 {
            if self.client.poll_timeout().is_some_and(|due| due <= now) {
                self.client.handle_timeout(now);
            }
            let mut buffer = Vec::new();
            while let Some(transmit) = self.client.poll_transmit(now, NonZeroUsize::MIN, &mut buffer) {
                self.socket.send_to(&buffer[..transmit.size], self.remote).unwrap();
                buffer.clear();
            }
            self.driver.turn_once();
            let mut datagram = [0; 2048];
            while let Ok((length, _)) = self.socket.recv_from(&mut datagram) {
                let way = FourTuple::new(self.remote, None);
                let bytes = BytesMut::from(&datagram[..length]);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                    self.endpoint.handle(now, way, None, bytes, &mut buffer)
                {
                    self.client.handle_event(event);
                }
            }
            while let Some(event) = self.client.poll_endpoint_events() {
                if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                    self.client.handle_event(answer);
                }
            }
            while self.client.poll().is_some() {}
        }
        self.clock.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The server's end of the connection; `None` when it is over.
    pub(super) fn connection(&self) -> Option<Arc<QuicConnection>> {
        self.server.connections().values().next().map(Arc::clone)
    }

    /// Opens a path; `None` while the peer grants none.
    pub(super) fn open(&mut self) -> Option<PathId> {
        let (way, now) = (FourTuple::new(self.remote, None), self.instant());
        self.client.open_path(way, PathStatus::Available, now).ok()
    }

    pub(super) fn abandon(&mut self, path: PathId) {
        let now = self.instant();
        // Fails when the server has closed it already, or the connection.
        let _ = self.client.close_path(now, path, VarInt::from_u32(0));
    }
}
