//! Floods from many addresses, during which an honest client is served.

use crate::common::{clock, next_frame, plan, random_id, send};
use pathbench_record::pattern::{BulkParameters, PatternParameters, PingParameters};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::client::{ClientError, ClientOutcome, ClientPlan, Unobserved, run_client};
use pathbench_traffic::protocol::{ControlFrame, HelloFrame, RefusalCode, TestRefusal};
use pathbench_traffic::server::{Server, ServerLimits, ServerOptions};
use pathbench_transport::{ConnectOptions, Security, ServerIdentity, Session, Trust};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A test of one stream over QUIC, too.
fn one_ping() -> PatternParameters {
    PatternParameters::Ping(PingParameters { count: 1, warm_up: 0, ..PingParameters::default() })
}

fn run(plan: &ClientPlan) -> ClientOutcome {
    run_client(plan, &clock(), &Unobserved)
}

/// The first datagrams of `count` QUIC clients, each with a connection ID of its own.
fn first_flights(count: usize, security: &Security) -> Vec<Vec<u8>> {
    let recorder = UdpSocket::bind("127.0.0.1:0").unwrap();
    recorder.set_read_timeout(Some(10_000 * MS)).unwrap();
    let options = ConnectOptions {
        security: security.clone(),
        ..ConnectOptions::new(recorder.local_addr().unwrap(), MS)
    };
    let mut buffer = vec![0; 65_536];
    (0..count)
        .map(|_| {
            assert!(Session::new(Transport::Quic, options.clone(), clock()).open().is_err());
            let length = recorder.recv(&mut buffer).unwrap();
            // Further datagrams are repetitions.
            recorder.set_nonblocking(true).unwrap();
            let flight = buffer[..length].to_vec();
            while recorder.recv(&mut buffer).is_ok() {}
            recorder.set_nonblocking(false).unwrap();
            flight
        })
        .collect()
}

/// Regression: 64 unanswered first packets kept a client's address out for 10 s, and 16 sources kept out everybody.
#[test]
fn unanswered_first_packets_of_many_addresses_keep_no_quic_client_out() {
    let identity = Arc::new(ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap());
    let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
    let flights = first_flights(100, &security);
    for max_connections in [1, 4, 16] {
        let limits = ServerLimits {
            max_connections,
            max_connections_per_client: (max_connections / 4).max(1),
            ..ServerLimits::default()
        };
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions {
            limits,
            identity: Some(Arc::clone(&identity)),
            ..ServerOptions::new(vec![(Transport::Mpquic, anywhere)])
        };
        let server = Server::start(options, clock()).unwrap();
        let address = server.addresses()[0].1;
        let over = AtomicBool::new(false);
        // The honest client's own address, others of its network, and other networks.
        let sources: Vec<UdpSocket> = (0..40_u8)
            .map(|number| [127, 0, number % 4, 1 + number / 4])
            .map(|source| UdpSocket::bind((IpAddr::from(source), 0)).unwrap())
            .collect();
        let flood = || {
            for (index, flight) in flights.iter().enumerate() {
                let _full = sources[index % sources.len()].send_to(flight, address);
            }
        };
        flood();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    flood();
                    thread::sleep(20 * MS);
                }
            });
            let honest = plan(Transport::Quic, address, one_ping());
            let outcome = run(&ClientPlan { security: security.clone(), ..honest });
            over.store(true, Ordering::Relaxed);
            assert!(outcome.completed, "--max-connections {max_connections}: {:?}", outcome.error);
        });
    }
}

/// The real time and a part that the test adds.
#[derive(Debug, Default)]
struct AdvancedClock {
    advance_ms: AtomicU64,
}

impl AdvancedClock {
    fn added(&self) -> Duration {
        Duration::from_millis(self.advance_ms.load(Ordering::SeqCst))
    }
}

impl Clock for AdvancedClock {
    fn now(&self) -> Timestamp {
        MonotonicClock.now() + self.added()
    }

    fn sleep_until(&self, deadline: Timestamp) {
        thread::sleep(deadline.duration_since(self.now()));
    }
}

/// A small upload, from another network than 127.0.1.0/24 to 127.0.9.0/24.
fn honest_upload(address: SocketAddr) -> ClientOutcome {
    let upload = BulkParameters { bytes: 0, upload_bytes: 10_000, streams: 1 };
    run(&plan(Transport::Tcp, address, PatternParameters::Bulk(upload)))
}

/// Requests an upload from `source`; the connection, if the server admits the test.
fn begin_silent_test(server: SocketAddr, source: [u8; 4]) -> Result<TcpStream, TestRefusal> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let request = r#"{"pattern":"bulk","transport":"tcp","patience_ms":120000,"parameters":{
        "bytes":0,"upload_bytes":1000,"streams":1}}"#;
    send(&mut stream, &ControlFrame::Hello(HelloFrame::new(random_id(), 0, request.as_bytes().to_vec())));
    send(&mut stream, &ControlFrame::Start);
    match next_frame(&mut stream) {
        Some(ControlFrame::Accept) => {
            assert_eq!(next_frame(&mut stream), Some(ControlFrame::Start));
            Ok(stream)
        }
        Some(ControlFrame::Refuse(refusal)) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

/// Regression: eight silent connections of four clients of one network held all tests for more than 95 s.
#[test]
fn silent_tests_of_many_clients_of_one_network_leave_tests_to_others() {
    let time = Arc::new(AdvancedClock::default());
    let limits = ServerLimits { max_tests: 8, max_tests_per_client: 2, ..ServerLimits::default() };
    let options = ServerOptions {
        limits,
        ..ServerOptions::new(vec![(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, Arc::<AdvancedClock>::clone(&time)).unwrap();
    let address = server.addresses()[0].1;
    let begin = |network, host| begin_silent_test(address, [127, 0, network, host]);
    let near: Vec<_> = (0..16).map(|number| begin(1, 1 + number / 2)).collect();
    let held: Vec<TcpStream> = near.into_iter().filter_map(Result::ok).collect();
    assert_eq!(held.len(), 4, "half of the tests");
    let refusal = begin(1, 9).unwrap_err();
    assert!(refusal.message.contains("network"), "{}", refusal.message);
    let outcome = honest_upload(address);
    assert!(outcome.completed, "{:?}", outcome.error);

    // Other networks take the rest. The server is full for a while, and names an honest time to wait.
    let rest: Vec<TcpStream> = (2..6).map(|network| begin(network, 1).unwrap()).collect();
    let Some(ClientError::Refused { code, retry_after_ms, .. }) = honest_upload(address).error else {
        panic!("there are more than eight tests");
    };
    assert_eq!(code, RefusalCode::Busy);
    // The time that a test by bytes is assumed to take.
    assert!(retry_after_ms.is_some_and(|ms| (1000..=10_000).contains(&ms)), "{retry_after_ms:?}");
    time.advance_ms.fetch_add(6000, Ordering::SeqCst);
    let has_room = (0..500).any(|_| {
        let outcome = honest_upload(address);
        outcome.completed || {
            thread::sleep(10 * MS);
            false
        }
    });
    assert!(has_room, "tests without a byte keep their slots: {:?}", server.status());
    drop((held, rest));
}
