//! Tests: a panic ends the connection in which it occurs; in the driver itself, all connections and the listener.

use super::client::QuicClient;
use super::listener::QuicListener;
use super::stream::QuicStream;
use crate::containment::contain_panic;
use crate::error::{AcceptError, ReceiveError};
use crate::options::{ConnectOptions, DatagramPort, DatagramService, ListenOptions};
use crate::tls::{Security, ServerIdentity, Trust};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

struct Service {
    listener: QuicListener,
    trust: Trust,
}

/// A client and the server's end of its only stream.
struct Pair {
    _client: QuicClient,
    near: QuicStream,
    far: QuicStream,
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

impl Service {
    fn start(datagrams: Option<Arc<dyn DatagramService>>) -> Self {
        let identity = Arc::new(ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap());
        let trust = Trust::Fingerprint(identity.fingerprint());
        let options = ListenOptions { identity: Some(identity), datagrams, ..ListenOptions::default() };
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = QuicListener::open(Transport::Mpquic, anywhere, &options, clock()).unwrap();
        Self { listener, trust }
    }

    fn pair(&self) -> Pair {
        let security = Security::Tls(self.trust.clone());
        let options =
            ConnectOptions { security, ..ConnectOptions::new(self.listener.local_addr(), PATIENCE) };
        let client = QuicClient::connect(Transport::Quic, &options, clock()).unwrap();
        let near = client.open().unwrap();
        near.send(b"!", Some(PATIENCE)).unwrap();
        let far = self.listener.accept().unwrap();
        assert_eq!(far.receive(&mut [0; 8], Some(PATIENCE)).unwrap(), 1);
        Pair { _client: client, near, far }
    }
}

fn make_panic(far: &QuicStream) {
    far.connection.panics.store(true, Ordering::Relaxed);
}

/// Whether the driver drops the stream's connection within 10 s.
fn is_dropped(far: &QuicStream) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Arc::strong_count(&far.connection) == 1
    })
}

fn assert_works(pair: &Pair) {
    pair.near.send(b"on", Some(PATIENCE)).unwrap();
    assert_eq!(pair.far.receive(&mut [0; 8], Some(PATIENCE)).unwrap(), 2);
}

#[track_caller]
fn assert_failed(stream: &QuicStream) {
    match stream.receive(&mut [0; 8], Some(PATIENCE)) {
        Err(ReceiveError::Failed { source, .. }) => {
            assert!(source.to_string().contains("panicked"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_panic_in_one_connection_leaves_the_others_and_the_listener_alone() {
    let service = Service::start(None);
    let (hit, other) = (service.pair(), service.pair());
    make_panic(&hit.far);
    // In the driver's thread, which receives.
    hit.near.send(b"?", Some(PATIENCE)).unwrap();
    assert_failed(&hit.far);
    assert_works(&other);
    assert_works(&service.pair());
    assert!(is_dropped(&hit.far));
    assert!(Arc::strong_count(&other.far.connection) > 1);
}

#[test]
fn a_panic_in_a_thread_that_uses_a_stream_ends_that_connection_once() {
    let service = Service::start(None);
    let (hit, other) = (service.pair(), service.pair());
    // While the driver is awake, it runs the turn itself.
    let panicked = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        make_panic(&hit.far);
        contain_panic(|| hit.far.send(b"?", Some(PATIENCE))).is_err()
            || Arc::strong_count(&hit.far.connection) == 1
    });
    assert!(panicked);
    assert_failed(&hit.far);
    // None of these may call the library again: it would panic once more, in a destructor.
    hit.far.abort();
    drop(hit);
    assert_works(&other);
}

#[derive(Debug)]
struct PanickingService;

impl DatagramService for PanickingService {
    fn takes(&self, datagram: &[u8]) -> bool {
        datagram.starts_with(b"trap")
    }

    fn answer(
        &self,
        _: SocketAddr,
        _: Option<IpAddr>,
        _: &[u8],
        _: (&Arc<dyn DatagramPort>, Option<Timestamp>),
    ) -> Option<Vec<u8>> {
        panic!("trapped")
    }
}

#[test]
fn a_panic_in_the_driver_ends_its_connections_and_its_listener() {
    let service = Service::start(Some(Arc::new(PanickingService)));
    let pair = service.pair();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"trap", service.listener.local_addr()).unwrap();
    assert_failed(&pair.far);
    match service.listener.accept() {
        Err(AcceptError::Dead { message, .. }) => assert_eq!(message, "trapped"),
        other => panic!("{other:?}"),
    }
    assert!(is_dropped(&pair.far));
    // Closing the listener afterwards does not change the error.
    service.listener.close();
    assert!(matches!(service.listener.accept(), Err(AcceptError::Dead { .. })));
}
