//! Admission of clients and their shares. An incoming connection attempt on any port causes a refusal or a closed
//! connection, and the server keeps running.

use crate::common;
use crate::common::{clock, plan};
use pathbench_api::name::Name;
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::transport::Transport;
use pathbench_testkit::FixedClock;
use pathbench_traffic::client::{ClientError, ClientOutcome, ClientPlan, Unobserved, run_client};
use pathbench_traffic::protocol::RefusalCode;
use pathbench_traffic::server::{Access, Server, ServerEvent, ServerLimits, ServerObserver, ServerOptions};
use pathbench_traffic::token::{Audience, RevokedTokens, Serial, TokenKey};
use pathbench_transport::{
    ConnectError, ConnectOptions, Connection, Security, ServerIdentity, Session, Trust, mptcp_available,
};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const NOW: u64 = 1_800_000_000;

/// A server of all transports of this kernel, with a certificate.
struct LimitedServer {
    inner: Server,
    security: Security,
}

impl LimitedServer {
    fn build(limits: ServerLimits, access: Access, observer: Option<Arc<dyn ServerObserver>>) -> Self {
        let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
        let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let streams = if mptcp_available().is_ok() { Transport::Mptcp } else { Transport::Tcp };
        let options = ServerOptions {
            limits,
            access,
            identity: Some(Arc::new(identity)),
            sample_interval: Duration::from_millis(20),
            ..ServerOptions::new(vec![(streams, anywhere), (Transport::Mpquic, anywhere)])
        };
        let server = match observer {
            None => Server::start(options, clock()),
            Some(observer) => Server::start_observed(options, clock(), observer),
        };
        Self { inner: server.unwrap(), security }
    }

    fn open(limits: ServerLimits) -> Self {
        Self::build(limits, Access::Open, None)
    }

    fn address(&self, transport: Transport) -> SocketAddr {
        let quic = matches!(transport, Transport::Quic | Transport::Mpquic);
        self.inner.addresses()[usize::from(quic)].1
    }

    /// A test over TLS or QUIC.
    fn plan(&self, transport: Transport, parameters: ThroughputParameters) -> ClientPlan {
        let plan = plan(transport, self.address(transport), parameters);
        ClientPlan { security: self.security.clone(), ..plan }
    }

    fn session(&self, transport: Transport, security: Security) -> Session {
        let options = ConnectOptions {
            security,
            ..ConnectOptions::new(self.address(transport), Duration::from_secs(10))
        };
        Session::new(transport, options, clock())
    }

    fn assert_serves(&self) {
        for transport in [Transport::Tcp, Transport::Quic] {
            // On a busy host, connections of earlier clients may outlast the server's wait for their end.
            let refused = |outcome: &ClientOutcome| {
                matches!(outcome.error, Some(ClientError::Refused { code: RefusalCode::Busy, .. }))
            };
            let mut outcomes = (0..3).map(|_| run(&self.plan(transport, upload(100_000))));
            let outcome = outcomes.find(|outcome| !refused(outcome)).expect("the server stays busy");
            assert!(outcome.completed, "{transport}: {:?}", outcome.error);
        }
    }
}

fn run(plan: &ClientPlan) -> ClientOutcome {
    run_client(plan, &clock(), &Unobserved)
}

fn upload(bytes: u64) -> ThroughputParameters {
    ThroughputParameters { amount: Amount::Bytes(bytes), ..ThroughputParameters::default() }
}

#[track_caller]
fn refusal(outcome: ClientOutcome) -> (RefusalCode, String, Option<u64>) {
    match outcome.error {
        Some(ClientError::Refused { code, message, retry_after_ms }) => (code, message, retry_after_ms),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_token_is_required_on_every_transport() {
    let key = TokenKey::from_text("0123456789abcdef0123456789abcdef").unwrap();
    let revoked = RevokedTokens::default();
    let access = Access::Token {
        key: key.clone(),
        clock: Arc::new(FixedClock::from_unix(NOW)),
        revoked: revoked.clone(),
    };
    let server = LimitedServer::build(ServerLimits::default(), access, None);
    let mint = |key: &TokenKey, audience, now| {
        key.mint(audience, &Name::new("alice").unwrap(), [7; 8], now, Duration::from_secs(60)).unwrap()
    };
    let given_away =
        key.mint(Audience::Test, &Name::new("bob").unwrap(), [8; 8], NOW, Duration::from_secs(60));
    let given_away = given_away.unwrap();
    let valid = mint(&key, Audience::Test, NOW - 10);
    let expired = mint(&key, Audience::Test, NOW - 600);
    let foreign = mint(&TokenKey::from_text(&"f".repeat(32)).unwrap(), Audience::Test, NOW);
    // As the server reports itself with to its collector.
    let of_server = mint(&key, Audience::Server, NOW);
    for transport in [Transport::Tcp, Transport::Quic] {
        let with = |token: Option<&str>| {
            let plan = server.plan(transport, upload(10_000));
            run(&ClientPlan { token: token.map(str::to_owned), ..plan })
        };
        for token in [&valid, &given_away] {
            revoked.replace(BTreeSet::new());
            let outcome = with(Some(token));
            assert!(outcome.completed, "{transport}: {:?}", outcome.error);
        }
        revoked.replace(BTreeSet::from([Serial([8; 8])]));
        assert!(with(Some(&valid)).completed, "{transport}: another token");
        let long = "x".repeat(60_000);
        let wrong = [
            (None, "requires a token"),
            (Some(expired.as_str()), "expired 9 min ago"),
            (Some(foreign.as_str()), "did not issue this token"),
            (Some(of_server.as_str()), "for the reports of a test server"),
            (Some(given_away.as_str()), "was revoked"),
            (Some("let me in"), "not a token"),
            (Some(long.as_str()), "not a token"),
        ];
        for (token, words) in wrong {
            let (code, message, _) = refusal(with(token));
            assert_eq!(code, RefusalCode::Access);
            assert!(message.contains(words), "{message}");
        }
    }
    assert_eq!(server.inner.status().tests, 0);
}

/// A test that lasts long enough for others to begin during it.
fn long_upload() -> ThroughputParameters {
    ThroughputParameters {
        amount: Amount::Duration(Duration::from_secs(2)),
        rate_bps: Some(8_000_000),
        ..ThroughputParameters::default()
    }
}

/// Runs `meanwhile` during a test of `plan`, which must complete.
fn run_during(server: &LimitedServer, plan: ClientPlan, meanwhile: impl FnOnce()) {
    let long = thread::spawn(move || run(&plan));
    while server.inner.status().tests == 0 {
        thread::sleep(5 * MS);
    }
    meanwhile();
    let outcome = long.join().unwrap();
    assert!(outcome.completed, "{:?}", outcome.error);
}

#[test]
fn a_client_has_a_share_of_the_slots_and_learns_when_to_retry() {
    let server = LimitedServer::open(ServerLimits {
        max_tests: 8,
        max_tests_per_client: 1,
        ..ServerLimits::default()
    });
    run_during(&server, server.plan(Transport::Tcp, long_upload()), || {
        // Another port and transport, but the same client.
        let (code, message, retry) = refusal(run(&server.plan(Transport::Quic, upload(1000))));
        assert_eq!(code, RefusalCode::Busy);
        assert!(message.contains("this client"), "{message}");
        assert!(retry.is_some_and(|ms| (1000..10_000).contains(&ms)), "{retry:?}");
    });
    server.assert_serves();
}

#[test]
fn a_draining_server_finishes_running_tests_and_refuses_new_ones() {
    let server = LimitedServer::open(ServerLimits::default());
    let several = ThroughputParameters { streams: 4, ..long_upload() };
    run_during(&server, server.plan(Transport::Tcp, several), || {
        server.inner.drain();
        let (code, _, _) = refusal(run(&server.plan(Transport::Tcp, upload(1000))));
        assert_eq!(code, RefusalCode::ShuttingDown);
        assert!(server.inner.status().draining && server.inner.status().tests == 1);
    });
    assert_eq!(server.inner.status().tests, 0);
}

#[test]
fn a_bound_on_the_rate_holds_for_all_of_a_clients_tests_and_streams_together() {
    let most = 40e6;
    let server =
        LimitedServer::open(ServerLimits { max_rate_bps: Some(most as u64), ..ServerLimits::default() });
    for direction in [DataDirection::Upload, DataDirection::Download] {
        let two: Vec<ClientOutcome> = thread::scope(|scope| {
            let start = |transport| {
                let parameters = ThroughputParameters {
                    direction,
                    streams: 2,
                    amount: Amount::Duration(Duration::from_secs(2)),
                    ..ThroughputParameters::default()
                };
                let plan = server.plan(transport, parameters);
                scope.spawn(move || run(&plan))
            };
            let both = [start(Transport::Tcp), start(Transport::Quic)];
            both.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut received = 0;
        let mut longest: f64 = 0.0;
        for outcome in &two {
            assert!(outcome.completed, "{direction:?}: {:?}", outcome.error);
            let server = outcome.server.as_ref().unwrap();
            // The result distinguishes the server's rate limit from the network.
            assert_eq!(server.rate_limit_bps, Some(most as u64));
            let end = if direction == DataDirection::Download { &outcome.client } else { server };
            received += end.deliveries.total_bytes();
            longest = longest.max(end.ended.duration_since(end.started).as_secs_f64());
        }
        // Both tests began at about the same time; buffered data arrived after the end.
        let rate = received as f64 * 8.0 / longest;
        assert!(rate < most * 1.25, "{direction:?}: {rate}");
        assert!(rate > most * 0.2, "{direction:?}: {rate}");
    }
}

#[test]
fn tests_over_tls_complete_and_report_their_cipher() {
    let server = LimitedServer::open(ServerLimits::default());
    let mut transports = vec![Transport::Tcp];
    if mptcp_available().is_ok() {
        transports.push(Transport::Mptcp);
    }
    for transport in transports {
        for direction in DataDirection::ALL {
            let parameters = ThroughputParameters { direction, streams: 3, ..upload(5_000_001) };
            let outcome = run(&server.plan(transport, parameters));
            assert!(outcome.completed, "{transport} {direction:?}: {:?}", outcome.error);
            let server = outcome.server.unwrap();
            assert_eq!(server.deliveries.total_bytes(), outcome.client.offered.total_bytes());
            assert_eq!(outcome.client.deliveries.total_bytes(), server.offered.total_bytes());
            for stream in outcome.client.streams.iter().chain(&server.streams) {
                let encryption = stream.in_force.encryption.clone().unwrap_or_default();
                assert!(encryption.starts_with("TLS 1.3 "), "{encryption}");
            }
        }
        // The same listener, without encryption.
        let clear = ClientPlan { security: Security::Clear, ..server.plan(transport, upload(100_000)) };
        let outcome = run(&clear);
        assert!(outcome.completed, "{:?}", outcome.error);
        assert_eq!(outcome.client.streams[0].in_force.encryption, None);
    }
}

#[derive(Default)]
struct Events(Mutex<Vec<String>>);

impl ServerObserver for Events {
    fn on_event(&self, event: &ServerEvent<'_>) {
        let word = match event {
            ServerEvent::Started { number, pattern, .. } => format!("{number} {pattern}"),
            ServerEvent::Ended { number, completed, received_bytes, .. } => {
                format!("{number} {completed} {received_bytes}")
            }
            ServerEvent::Refused { code, .. } => format!("{code:?}"),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(word);
    }
}

#[test]
fn a_server_with_another_identity_is_rejected_on_every_transport() {
    let server = LimitedServer::open(ServerLimits::default());
    let other = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
    for transport in [Transport::Tcp, Transport::Quic, Transport::Mpquic] {
        let security = Security::Tls(Trust::Fingerprint(other.fingerprint()));
        let error = server.session(transport, security).open().unwrap_err();
        assert!(matches!(error, ConnectError::Untrusted { .. }), "{transport}: {error}");
    }
}

#[test]
fn an_operator_gets_tests_by_number_and_refusals() {
    let events = Arc::new(Events::default());
    let server = LimitedServer::build(
        ServerLimits { max_bytes: Some(1_000_000), ..ServerLimits::default() },
        Access::Open,
        Some(Arc::clone(&events) as Arc<dyn ServerObserver>),
    );
    let parameters = ThroughputParameters { streams: 4, ..upload(400_000) };
    assert!(run(&server.plan(Transport::Quic, parameters)).completed);
    let (code, message, _) = refusal(run(&server.plan(Transport::Tcp, upload(2_000_000))));
    assert!(code == RefusalCode::Limit && message.contains("1000000"), "{message}");
    server.inner.stop();
    assert_eq!(*events.0.lock().unwrap(), ["1 throughput", "1 true 400000", "Limit"]);
}

#[test]
fn one_client_cannot_take_all_connections() {
    let server = LimitedServer::open(ServerLimits {
        max_connections: 100,
        max_connections_per_client: 3,
        ..ServerLimits::default()
    });
    let address = server.address(Transport::Tcp);
    let _half_open: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    while server.inner.status().connections < 3 {
        thread::sleep(5 * MS);
    }
    let mut fourth = TcpStream::connect(address).unwrap();
    fourth.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // The connection is closed at once or reset.
    assert!(!matches!(fourth.read(&mut [0; 8]), Ok(1..)));
    // Another address of the same host is another client.
    let other = std::net::IpAddr::from([127, 0, 0, 2]);
    let plan = ClientPlan { local: Some(other), ..server.plan(Transport::Tcp, upload(1000)) };
    let outcome = run(&plan);
    assert!(outcome.completed, "{:?}", outcome.error);
}

#[test]
fn one_client_cannot_take_all_quic_connections_by_holding_them_idle() {
    let server = LimitedServer::open(ServerLimits::default());
    let mut held = Vec::new();
    let refused = (0..200).any(|_| {
        let session = server.session(Transport::Quic, server.security.clone());
        let opened = session.open();
        let refused = opened.is_err();
        held.push((session, opened));
        refused
    });
    assert!(refused, "{} idle connections are held", held.len());
    let other = std::net::IpAddr::from([127, 0, 0, 2]);
    let plan = ClientPlan { local: Some(other), ..server.plan(Transport::Quic, upload(1000)) };
    let outcome = run(&plan);
    assert!(outcome.completed, "{:?}", outcome.error);
}

/// Whether the server closes within `time` without sending a frame.
fn closes(connection: &Connection, time: Duration) -> bool {
    match connection.receive(&mut [0; 64], Some(time)) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error, pathbench_transport::ReceiveError::TimedOut { .. }),
    }
}

#[test]
fn garbage_and_silence_inside_every_kind_of_connection_are_ended() {
    let server =
        LimitedServer::open(ServerLimits { handshake_timeout: 2000 * MS, ..ServerLimits::default() });
    // A header that announces 2^63 bytes; another protocol; no data.
    let huge = (1_u64 << 63).to_be_bytes();
    let noise: Vec<u8> =
        (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
    for transport in [Transport::Tcp, Transport::Quic, Transport::Mpquic] {
        for sent in [&huge[..], &b"GET / HTTP/1.1\r\n\r\n"[..], &noise[..], &[1][..]] {
            let session = server.session(transport, server.security.clone());
            let connection = session.open().unwrap();
            connection.send(sent, Some(Duration::from_secs(5))).unwrap();
            assert!(closes(&connection, Duration::from_secs(15)), "{transport}: {sent:?} is not ended");
        }
    }
    let clear = server.session(Transport::Tcp, Security::Clear).open().unwrap();
    clear.send(&huge, Some(Duration::from_secs(5))).unwrap();
    assert!(closes(&clear, Duration::from_secs(15)));
    server.assert_serves();
}

#[test]
fn half_open_connections_on_every_port_do_not_keep_others_out() {
    let server = LimitedServer::open(ServerLimits {
        handshake_timeout: 3000 * MS,
        max_connections: 60,
        ..ServerLimits::default()
    });
    let tcp = server.address(Transport::Tcp);
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(tcp).unwrap()).collect();
    for stream in silent.iter_mut().skip(10) {
        // An incomplete TLS handshake.
        stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).unwrap();
    }
    let sessions: Vec<Session> = (0..10)
        .map(|number| {
            let transport = if number % 2 == 0 { Transport::Quic } else { Transport::Mpquic };
            server.session(transport, server.security.clone())
        })
        .collect();
    let streams: Vec<Connection> = sessions.iter().map(|session| session.open().unwrap()).collect();
    for stream in &streams {
        // The server sees a stream after its first byte; no other byte follows.
        stream.send(&[1], Some(Duration::from_secs(5))).unwrap();
    }
    server.assert_serves();
    // Their handshake time is over and their slots are free, although they are still connected.
    let freed = (0..600).any(|_| {
        thread::sleep(20 * MS);
        server.inner.status().connections == 0
    });
    assert!(freed, "{:?}", server.inner.status());
    drop((silent, streams, sessions));
    server.assert_serves();
}

#[test]
fn a_client_that_disconnects_silently_during_a_test_frees_its_slot_on_every_transport() {
    let server = LimitedServer::open(ServerLimits { max_tests: 1, ..ServerLimits::default() });
    for transport in [Transport::Tcp, Transport::Quic, Transport::Mpquic] {
        let session = server.session(transport, server.security.clone());
        let connection = session.open().unwrap();
        let request = format!(
            r#"{{"pattern":"throughput","transport":"{transport}","patience_ms":500,"parameters":{{
                "direction":"download","streams":1,"amount":{{"duration_ms":5000}},"block_bytes":131072}}}}"#
        );
        let hello =
            pathbench_traffic::protocol::HelloFrame::new(common::random_id(), 0, request.into_bytes());
        let frame = pathbench_traffic::protocol::ControlFrame::Hello(hello);
        connection.send(&frame.encode().unwrap(), Some(Duration::from_secs(5))).unwrap();
        let start = pathbench_traffic::protocol::ControlFrame::Start.encode().unwrap();
        connection.send(&start, Some(Duration::from_secs(5))).unwrap();
        // ACCEPT, START and some data.
        let mut received = 0;
        while received <= 16 {
            received += connection.receive(&mut [0; 4096], Some(Duration::from_secs(10))).unwrap();
        }
        assert_eq!(server.inner.status().tests, 1, "{transport}");
        connection.abort();
        drop((connection, session));
        let freed = (0..1000).any(|_| {
            thread::sleep(20 * MS);
            server.inner.status().tests == 0
        });
        assert!(freed, "{transport}: {:?}", server.inner.status());
    }
    server.assert_serves();
}

/// The bytes that a server returns within 2 s to a peer that sends `datagrams` and does not answer.
fn echo(server: SocketAddr, datagrams: &[Vec<u8>]) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(2000 * MS)).unwrap();
    for datagram in datagrams {
        socket.send_to(datagram, server).unwrap();
    }
    let mut received = 0;
    let mut buffer = vec![0; 65_536];
    while let Ok(count) = socket.recv(&mut buffer) {
        received += count;
    }
    received
}

#[test]
fn the_server_does_not_amplify_to_unvalidated_addresses() {
    let server = LimitedServer::open(ServerLimits::default());
    let address = server.address(Transport::Quic);
    // A recorded first flight of a client, which an attacker could send from a forged address.
    let recorder = UdpSocket::bind("127.0.0.1:0").unwrap();
    recorder.set_read_timeout(Some(10_000 * MS)).unwrap();
    let (target, security) = (recorder.local_addr().unwrap(), server.security.clone());
    let client = thread::spawn(move || {
        let options = ConnectOptions { security, ..ConnectOptions::new(target, 300 * MS) };
        Session::new(Transport::Quic, options, clock()).open().map(drop)
    });
    let mut buffer = vec![0; 65_536];
    let count = recorder.recv(&mut buffer).unwrap();
    let initial = buffer[..count].to_vec();
    assert!(client.join().unwrap().is_err());
    assert!(initial.len() >= 1200, "RFC 9000, 14.1: {}", initial.len());
    let answer = echo(address, std::slice::from_ref(&initial));
    assert!(answer > 0, "this is not a first flight that a server answers");
    assert!(answer <= 3 * initial.len(), "RFC 9000, 8: {answer} bytes for {}", initial.len());
    // Garbage: too short for any packet, an unknown version, and noise.
    let mut unknown = initial.clone();
    unknown[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
    let noise: Vec<u8> = (0..1200_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    for garbage in [vec![0; 20], unknown, noise.clone(), vec![0xff; 1472]] {
        let answer = echo(address, std::slice::from_ref(&garbage));
        assert!(answer <= garbage.len(), "{answer} bytes for {} of garbage", garbage.len());
    }
    let flood: Vec<Vec<u8>> = (0..2000).map(|_| noise.clone()).collect();
    assert!(echo(address, &flood) <= 2000 * noise.len());
    server.assert_serves();
}
