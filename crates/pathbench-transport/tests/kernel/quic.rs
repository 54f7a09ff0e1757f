//! quic and mpquic.

use crate::support::{
    Loopback, PATIENCE, abort_while_blocked, assert_reset, close_while_accepting, in_namespace, loopback,
    transfer,
};
use pathbench_record::connection::Negotiation;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::{MonotonicClock, tests};
use pathbench_transport::{
    CongestionError, ConnectError, ConnectOptions, Connection, ListenOptions, Listener, QuicCapacity,
    QuicLimits, QuicOptions, ReceiveError, Security, SendError, ServerIdentity, Session, SocketOptions,
    Trust,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

const BOTH: [Transport; 2] = [Transport::Quic, Transport::Mpquic];
const SHORT: Duration = Duration::from_millis(120);

tests! {
    in_namespace =>
    bytes_arrive_in_both_directions_with_the_end_of_the_stream,
    one_stream_serves_a_sending_and_a_receiving_thread,
    many_streams_of_one_connection_keep_their_bytes_apart,
    a_wildcard_ipv6_listener_reports_ipv4_peers_as_ipv4,
    timeouts_leave_the_stream_usable,
    abort_unblocks_other_threads_and_resets_the_peer,
    a_closed_listener_stops_accepting,
    each_connect_failure_has_its_own_error,
    every_congestion_control_carries_data_and_an_unknown_one_is_rejected,
    the_first_stream_reports_the_path_and_the_others_none,
    a_qlog_file_is_written_per_connection_on_request,
    clients_above_the_limit_are_rejected_and_the_others_served,
    an_aborted_stream_does_not_wait_for_a_test_slot,
    the_streams_of_a_connection_share_a_test_slot,
    the_kernel_segments_no_gso_packet_before_the_interface,
}

/// A server with a generated certificate, and the client options to authenticate it.
pub(crate) struct Service {
    pub(crate) listener: Listener,
    pub(crate) trust: Trust,
}

impl Service {
    pub(crate) fn listen_quic(address: IpAddr, options: ListenOptions) -> Self {
        Self::listen(Transport::Mpquic, address, options)
    }

    pub(crate) fn listen(transport: Transport, address: IpAddr, options: ListenOptions) -> Self {
        let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).expect("a certificate");
        let trust = Trust::Fingerprint(identity.fingerprint());
        let options = ListenOptions { identity: Some(Arc::new(identity)), ..options };
        let listener =
            Listener::open(transport, SocketAddr::new(address, 0), &options, &clock()).expect("a listener");
        Self { listener, trust }
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions {
            security: Security::Tls(self.trust.clone()),
            ..ConnectOptions::new(self.listener.local_addr(), PATIENCE)
        }
    }

    /// Accepts the stream that `client` has opened; the first byte announces it to the server.
    pub(crate) fn accept(&self, client: &Connection) -> Connection {
        client.send(b"!", Some(PATIENCE)).expect("sent");
        let (server, _) = self.listener.accept().expect("accepted");
        let mut first = [0; 1];
        assert_eq!(server.receive(&mut first, Some(PATIENCE)).expect("received"), 1);
        assert_eq!(&first, b"!");
        server
    }

    /// Accepts the stream as a server does for a test: with the receive window of a test, which bulk data need.
    pub(crate) fn accept_test(&self, client: &Connection) -> Connection {
        let server = self.accept(client);
        assert!(server.begin_test(PATIENCE), "no test slot is free");
        server
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

fn session(transport: Transport, service: &Service) -> Session {
    Session::new(transport, service.options(), clock())
}

fn bytes_arrive_in_both_directions_with_the_end_of_the_stream() {
    for transport in BOTH {
        for address in [loopback(1), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let service = Service::listen_quic(address, ListenOptions::default());
            let session = session(transport, &service);
            let client = session.open().expect("a stream");
            let server = service.accept(&client);
            assert_eq!(client.local_addr(), server.peer_addr());
            assert_eq!(client.peer_addr(), server.local_addr());
            assert_eq!(client.in_force().protocol, transport.name());
            assert_eq!(server.in_force().protocol, transport.name());
            transfer(&client, &server, 3_000_000);
            transfer(&server, &client, 2_000_000);
            client.finish_sending();
            let mut buffer = [0; 16];
            assert_eq!(server.receive(&mut buffer, Some(PATIENCE)).expect("the end"), 0);
            assert_eq!(server.receive(&mut buffer, Some(PATIENCE)).expect("still the end"), 0);
            transfer(&server, &client, 1000);
            drop(server);
            assert_eq!(client.receive(&mut buffer, Some(PATIENCE)).expect("the end"), 0);
        }
    }
}

fn one_stream_serves_a_sending_and_a_receiving_thread() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let session = session(Transport::Quic, &service);
    let client = session.open().expect("a stream");
    let server = service.accept(&client);
    thread::scope(|scope| {
        scope.spawn(|| transfer(&client, &server, 20_000_000));
        scope.spawn(|| transfer(&server, &client, 20_000_000));
    });
}

fn many_streams_of_one_connection_keep_their_bytes_apart() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let session = session(Transport::Mpquic, &service);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            thread::scope(|scope| {
                for _ in 0..20 {
                    let (server, _) = service.listener.accept().expect("accepted");
                    scope.spawn(move || {
                        let (mut seen, mut total, mut buffer) = (None, 0, [0; 4096]);
                        loop {
                            let count = server.receive(&mut buffer, Some(PATIENCE)).expect("received");
                            if count == 0 {
                                break;
                            }
                            let first = *seen.get_or_insert(buffer[0]);
                            assert!(buffer[..count].iter().all(|&byte| byte == first));
                            total += count;
                        }
                        assert_eq!(total, 100_000);
                        server.send(&[seen.expect("a byte")], Some(PATIENCE)).expect("sent");
                    });
                }
            });
        });
        for number in 0..20_u8 {
            let session = &session;
            scope.spawn(move || {
                let client = session.open().expect("a stream");
                let mut left = 100_000;
                while left > 0 {
                    left -= client.send(&vec![number; left], Some(PATIENCE)).expect("sent");
                }
                client.finish_sending();
                let mut answer = [0; 2];
                assert_eq!(client.receive(&mut answer, Some(PATIENCE)).expect("an answer"), 1);
                assert_eq!(answer[0], number);
            });
        }
        serving.join().expect("no panic");
    });
}

fn a_wildcard_ipv6_listener_reports_ipv4_peers_as_ipv4() {
    let service = Service::listen_quic(IpAddr::V6(Ipv6Addr::UNSPECIFIED), ListenOptions::default());
    let target = SocketAddr::new(loopback(3), service.listener.local_addr().port());
    let options = ConnectOptions { remote: target, ..service.options() };
    let session = Session::new(Transport::Quic, options, clock());
    let client = session.open().expect("a stream");
    client.send(b"x", Some(PATIENCE)).expect("sent");
    let (server, peer) = service.listener.accept().expect("accepted");
    assert_eq!(peer, client.local_addr());
    assert_eq!(server.peer_addr(), client.local_addr());
    assert_eq!(server.local_addr(), target);
    let figures = server.telemetry().expect("a handle").snapshot().expect("a snapshot");
    assert_eq!(figures.subflows[0].remote, client.local_addr());
    assert_eq!(figures.subflows[0].local, target);
}

fn timeouts_leave_the_stream_usable() {
    let clock = MonotonicClock;
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let session = session(Transport::Quic, &service);
    let client = session.open().expect("a stream");
    let server = service.accept(&client);
    let mut buffer = vec![0; 1 << 20];
    let before = clock.now();
    let error = client.receive(&mut buffer, Some(SHORT)).expect_err("nothing was sent");
    let waited = clock.now().duration_since(before);
    assert!(matches!(error, ReceiveError::TimedOut { after, .. } if after == SHORT), "{error}");
    assert!(waited >= SHORT * 9 / 10 && waited < PATIENCE, "waited {waited:?}");
    let error = client.receive(&mut buffer, Some(Duration::ZERO)).expect_err("nothing was sent");
    assert!(matches!(error, ReceiveError::TimedOut { .. }), "{error}");

    // The receiver does not read, so the stream's window fills up: first part of the data is accepted, then none.
    let mut taken = 0;
    let error = loop {
        match client.send(&buffer, Some(SHORT)) {
            Ok(count) => taken += count,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SendError::TimedOut { .. }), "{error}");
    assert!(taken > 0);
    let mut received = 0;
    while received < taken {
        received += server.receive(&mut buffer, Some(PATIENCE)).expect("received");
    }
    assert_eq!(received, taken);
    transfer(&client, &server, 10_000);
}

fn abort_unblocks_other_threads_and_resets_the_peer() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let session = session(Transport::Quic, &service);
    let client = session.open().expect("a stream");
    let server = service.accept(&client);
    abort_while_blocked(&client);
    assert_reset(&server);
    // The connection still works.
    let client = session.open().expect("another stream");
    let server = service.accept(&client);
    transfer(&client, &server, 10_000);
}

fn a_closed_listener_stops_accepting() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    close_while_accepting(&service.listener);
}

fn each_connect_failure_has_its_own_error() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let good = service.options();
    let refusal = |options: ConnectOptions| {
        Session::new(Transport::Quic, options, clock()).open().expect_err("no connection")
    };
    let clear = refusal(ConnectOptions { security: Security::Clear, ..good.clone() });
    assert!(matches!(clear, ConnectError::NoTrust { .. }), "{clear}");
    let other = ServerIdentity::self_signed(&["other".to_owned()]).expect("a certificate");
    let security = Security::Tls(Trust::Fingerprint(other.fingerprint()));
    let wrong = refusal(ConnectOptions { security, ..good.clone() });
    assert!(matches!(wrong, ConnectError::Untrusted { .. }), "{wrong}");
    let free = SocketAddr::new(loopback(1), 9);
    let refused = refusal(ConnectOptions { remote: free, ..good.clone() });
    assert!(matches!(refused, ConnectError::Refused { remote } if remote == free), "{refused}");
    let far = SocketAddr::from(([192, 0, 2, 1], 9));
    let unreachable = refusal(ConnectOptions { remote: far, ..good.clone() });
    assert!(matches!(unreachable, ConnectError::Unreachable { .. }), "{unreachable}");
    let foreign = refusal(ConnectOptions { local: Some(IpAddr::from([192, 0, 2, 7])), ..good.clone() });
    assert!(matches!(foreign, ConnectError::NotALocalAddress { .. }), "{foreign}");
    let nowhere = refusal(ConnectOptions { interface: Some("nosuch0".to_owned()), ..good.clone() });
    assert!(matches!(nowhere, ConnectError::NoSuchInterface { .. }), "{nowhere}");
    // A server that does not answer.
    let silent = std::net::UdpSocket::bind((loopback(1), 0)).expect("a socket");
    let remote = silent.local_addr().expect("its address");
    let mute = refusal(ConnectOptions { remote, timeout: Duration::from_millis(300), ..good });
    assert!(matches!(mute, ConnectError::TimedOut { .. }), "{mute}");
}

fn every_congestion_control_carries_data_and_an_unknown_one_is_rejected() {
    for name in ["cubic", "newreno", "bbr3"] {
        let socket = SocketOptions { congestion: Some(name.to_owned()), ..SocketOptions::default() };
        let service = Service::listen_quic(
            loopback(1),
            ListenOptions { socket: socket.clone(), ..ListenOptions::default() },
        );
        let options = ConnectOptions { socket, ..service.options() };
        let session = Session::new(Transport::Quic, options, clock());
        let client = session.open().expect("a stream");
        let server = service.accept(&client);
        assert_eq!(client.in_force().congestion, name);
        assert_eq!(server.in_force().congestion, name);
        transfer(&client, &server, 2_000_000);
        transfer(&server, &client, 2_000_000);
    }
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let socket = SocketOptions { congestion: Some("nosuch".to_owned()), ..SocketOptions::default() };
    let options = ConnectOptions { socket, ..service.options() };
    let error = Session::new(Transport::Quic, options, clock()).open().expect_err("no such control");
    let ConnectError::Congestion(CongestionError::Unknown { available, .. }) = &error else {
        panic!("{error:?}")
    };
    assert!(available.contains("bbr3"), "{available}");
}

fn the_first_stream_reports_the_path_and_the_others_none() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let session = session(Transport::Quic, &service);
    let clients = [session.open().expect("a stream"), session.open().expect("another")];
    let servers = clients.each_ref().map(|client| service.accept(client));
    transfer(&clients[1], &servers[1], 5_000_000);
    for (ends, sends) in [(&clients, true), (&servers, false)] {
        let snapshots =
            ends.each_ref().map(|end| end.telemetry().expect("a handle").snapshot().expect("figures"));
        assert_eq!(snapshots[0].multipath, Negotiation::NotAsked);
        assert!(snapshots[1].subflows.is_empty());
        let [path] = snapshots[0].subflows.as_slice() else { panic!("{snapshots:?}") };
        assert_eq!((path.local, path.remote), (ends[0].local_addr(), ends[0].peer_addr()));
        let bulk = if sends { path.bytes_sent } else { path.bytes_received };
        assert!(bulk > 5_000_000, "{path:?}");
        assert!(!sends || path.bytes_acked > 4_000_000, "{path:?}");
        assert!(path.pmtu_bytes > 1200 && path.srtt_ms > 0.0 && path.cwnd_bytes > 0, "{path:?}");
    }
}

fn a_qlog_file_is_written_per_connection_on_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let quic = QuicOptions { qlog: Some(directory.path().to_owned()), ..QuicOptions::default() };
    let service =
        Service::listen_quic(loopback(1), ListenOptions { quic: quic.clone(), ..ListenOptions::default() });
    let session = Session::new(Transport::Quic, ConnectOptions { quic, ..service.options() }, clock());
    let client = session.open().expect("a stream");
    let server = service.accept(&client);
    transfer(&client, &server, 100_000);
    let files: Vec<_> = std::fs::read_dir(directory.path())
        .expect("a listing")
        .map(|entry| entry.expect("a file").path())
        .collect();
    for side in ["client", "server"] {
        let ends = |path: &&std::path::PathBuf| path.to_string_lossy().ends_with(&format!("{side}.qlog"));
        assert_eq!(files.iter().filter(ends).count(), 1, "{files:?}");
    }
}

fn clients_above_the_limit_are_rejected_and_the_others_served() {
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let mut held = Vec::new();
    let refusal = loop {
        let options = ConnectOptions { timeout: Duration::from_secs(5), ..service.options() };
        let session = Session::new(Transport::Quic, options, clock());
        match session.open() {
            Ok(stream) => held.push((session, stream)),
            Err(error) => break error,
        }
        assert!(held.len() < 1000, "no bound");
    };
    assert!(matches!(refusal, ConnectError::Refused { .. } | ConnectError::Failed { .. }), "{refusal}");
    let (_, first) = &held[0];
    let server = service.accept(first);
    transfer(first, &server, 100_000);
}

fn an_aborted_stream_does_not_wait_for_a_test_slot() {
    let limits = QuicLimits { tests: 1, ..QuicLimits::default() };
    let capacity = Arc::new(QuicCapacity::new(limits));
    let service = Service::listen_quic(
        loopback(1),
        ListenOptions { quic_capacity: capacity, ..ListenOptions::default() },
    );
    let sessions = [session(Transport::Quic, &service), session(Transport::Quic, &service)];
    let clients = sessions.each_ref().map(|session| session.open().expect("a stream"));
    let servers = clients.each_ref().map(|client| service.accept(client));
    assert!(servers[0].begin_test(PATIENCE));
    assert!(!servers[1].begin_test(SHORT), "there is one slot");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| servers[1].begin_test(PATIENCE));
        thread::sleep(SHORT);
        let (waits, begun) = (!waiting.is_finished(), clock().now());
        servers[1].abort();
        assert!(waits, "it should be blocked");
        assert!(!waiting.join().expect("no panic"));
        let lasted = clock().now().duration_since(begun);
        assert!(lasted < Duration::from_secs(2), "{lasted:?}");
    });
}

/// Regression: a stream that requested a test slot while another stream took the last one waited for a second slot, and
/// its test was rejected.
fn the_streams_of_a_connection_share_a_test_slot() {
    let limits = QuicLimits { tests: 1, ..QuicLimits::default() };
    for _ in 0..50 {
        let capacity = Arc::new(QuicCapacity::new(limits));
        let service = Service::listen_quic(
            loopback(1),
            ListenOptions { quic_capacity: capacity, ..ListenOptions::default() },
        );
        let session = session(Transport::Quic, &service);
        let clients: Vec<_> = (0..4).map(|_| session.open().expect("a stream")).collect();
        let servers: Vec<_> = clients.iter().map(|client| service.accept(client)).collect();
        let together = Barrier::new(servers.len());
        thread::scope(|scope| {
            let begin = |server: &Connection| {
                together.wait();
                server.begin_test(SHORT)
            };
            let asking: Vec<_> = servers.iter().map(|server| scope.spawn(move || begin(server))).collect();
            assert!(asking.into_iter().all(|thread| thread.join().expect("no panic")), "one was refused");
        });
    }
}

/// Regression: GSO packets of 44 datagrams were segmented before an interface that takes 25. A send call took 0.4 ms,
/// which limited the sender to one path of 1 Gbit/s.
fn the_kernel_segments_no_gso_packet_before_the_interface() {
    const LENGTH: usize = 8_000_000;
    let mut interface = Loopback::new();
    interface.limit_gso(25);
    let service = Service::listen_quic(loopback(1), ListenOptions::default());
    let session = session(Transport::Quic, &service);
    let client = session.open().expect("a stream");
    let server = service.accept(&client);
    for (from, to) in [(&client, &server), (&server, &client)] {
        // Slow start has ended, and the path MTU is known.
        transfer(from, to, LENGTH);
        let before = interface.sent();
        transfer(from, to, LENGTH);
        let after = interface.sent();
        let (bytes, packets) = (after.0 - before.0, after.1 - before.1);
        // Acknowledgements count, too.
        assert!(bytes > 3000 * packets, "{bytes} bytes in {packets} packets");
    }
}
