//! A panic ends its connection or its listener, releases all slots, and affects no other test.

use crate::common::{clock, plan};
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::client::{ClientError, ClientOutcome, ClientPlan, Unobserved, run_client};
use pathbench_traffic::protocol::RefusalCode;
use pathbench_traffic::server::{Server, ServerEvent, ServerLimits, ServerObserver, ServerOptions};
use pathbench_transport::{Security, ServerIdentity, Trust};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A clock that panics once in the server's thread with the given name.
#[derive(Debug, Default)]
struct FaultyClock {
    victim: Mutex<Option<&'static str>>,
}

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        let mut victim = self.victim.lock().unwrap();
        if victim.is_some() && *victim == thread::current().name() {
            *victim = None;
            drop(victim);
            panic!("the clock failed");
        }
        MonotonicClock.now()
    }

    fn sleep_until(&self, deadline: Timestamp) {
        MonotonicClock.sleep_until(deadline);
    }
}

/// Records all events, and panics once at the event with this name.
#[derive(Default)]
struct Observer {
    panics_at: Mutex<Option<&'static str>>,
    events: Mutex<Vec<String>>,
}

impl ServerObserver for Observer {
    fn on_event(&self, event: &ServerEvent<'_>) {
        let text = format!("{event:?}");
        let mut panics_at = self.panics_at.lock().unwrap();
        let panics = panics_at.is_some_and(|name| text.starts_with(name));
        self.events.lock().unwrap().push(text);
        if panics {
            *panics_at = None;
            drop(panics_at);
            panic!("the observer cannot look");
        }
    }
}

impl Observer {
    fn saw(&self, words: &[&str]) -> bool {
        let events = self.events.lock().unwrap();
        events.iter().any(|event| words.iter().all(|word| event.contains(word)))
    }
}

struct Service {
    server: Server,
    security: Security,
    clock: Arc<FaultyClock>,
    observer: Arc<Observer>,
}

impl Service {
    fn start(limits: ServerLimits) -> Self {
        let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
        let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions {
            limits,
            identity: Some(Arc::new(identity)),
            sample_interval: Duration::from_millis(20),
            ..ServerOptions::new(vec![(Transport::Tcp, anywhere), (Transport::Mpquic, anywhere)])
        };
        let (clock, observer) = (Arc::<FaultyClock>::default(), Arc::<Observer>::default());
        let server = Server::start_observed(options, clock.clone(), observer.clone()).unwrap();
        Self { server, security, clock, observer }
    }

    fn address(&self, transport: Transport) -> SocketAddr {
        self.server.addresses()[usize::from(transport != Transport::Tcp)].1
    }

    fn test(&self, transport: Transport, parameters: ThroughputParameters) -> JoinHandle<ClientOutcome> {
        let plan = plan(transport, self.address(transport), parameters);
        let plan = match transport {
            Transport::Tcp => plan,
            _ => ClientPlan { security: self.security.clone(), ..plan },
        };
        thread::spawn(move || run_client(&plan, &clock(), &Unobserved))
    }

    /// Waits until this many tests run, then 200 ms for data.
    fn await_tests(&self, count: usize) {
        assert!(soon(|| self.server.status().tests == count), "{:?}", self.server.status());
        thread::sleep(Duration::from_millis(200));
    }

    #[track_caller]
    fn assert_free(&self) {
        let free = soon(|| self.server.status().tests == 0 && self.server.status().connections == 0);
        assert!(free, "{:?}", self.server.status());
    }

    #[track_caller]
    fn assert_serves(&self, transport: Transport) {
        // The previous test's connection holds a slot for QUIC's closing period (RFC 9000, section 10.2).
        let busy = |error: &Option<ClientError>| {
            matches!(error, Some(ClientError::Refused { code: RefusalCode::Busy, .. }))
        };
        let mut outcomes = (0..8).map(|_| self.test(transport, upload(1)).join().unwrap());
        let outcome = outcomes.find(|outcome| !busy(&outcome.error));
        assert!(outcome.as_ref().is_some_and(|outcome| outcome.completed), "{transport}: {outcome:?}");
    }
}

fn soon(mut holds: impl FnMut() -> bool) -> bool {
    (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(20));
        holds()
    })
}

/// A low rate, for debug builds on busy hosts.
fn upload(seconds: u64) -> ThroughputParameters {
    ThroughputParameters {
        amount: Amount::Duration(Duration::from_secs(seconds)),
        rate_bps: Some(4_000_000),
        ..ThroughputParameters::default()
    }
}

fn in_both_directions() -> ThroughputParameters {
    ThroughputParameters { direction: DataDirection::Both, ..upload(2) }
}

#[test]
fn a_panic_in_a_stream_ends_its_test_and_releases_its_slots() {
    for transport in [Transport::Tcp, Transport::Quic] {
        for victim in ["sender", "connection"] {
            let service = Service::start(ServerLimits { max_tests: 1, ..ServerLimits::default() });
            let hit = service.test(transport, in_both_directions());
            service.await_tests(1);
            *service.clock.victim.lock().unwrap() = Some(victim);
            let outcome = hit.join().unwrap();
            assert!(!outcome.completed, "{transport}, {victim}");
            service.assert_free();
            assert!(service.observer.saw(&["Panicked", "the clock failed"]));
            assert!(service.observer.saw(&["Ended"]));
            service.assert_serves(Transport::Tcp);
            service.assert_serves(Transport::Quic);
            assert_eq!(service.server.status().failed, []);
        }
    }
}

#[test]
fn a_panic_in_a_stream_leaves_other_tests_alone() {
    let service = Service::start(ServerLimits::default());
    let others = [Transport::Tcp, Transport::Quic].map(|transport| service.test(transport, upload(4)));
    // The only test with a sender at the server.
    let hit = service.test(Transport::Tcp, in_both_directions());
    service.await_tests(3);
    *service.clock.victim.lock().unwrap() = Some("sender");
    assert!(!hit.join().unwrap().completed);
    for other in others {
        let outcome = other.join().unwrap();
        assert!(outcome.completed, "{:?}", outcome.error);
    }
    service.assert_free();
}

#[test]
fn a_panic_of_the_observer_releases_all_slots() {
    for event in ["Started", "Ended", "Refused", "Panicked"] {
        let service = Service::start(ServerLimits {
            max_tests: 1,
            max_bytes: Some(10_000_000),
            ..ServerLimits::default()
        });
        *service.observer.panics_at.lock().unwrap() = Some(event);
        match event {
            "Refused" => {
                let parameters = ThroughputParameters { amount: Amount::Bytes(20_000_000), ..upload(1) };
                assert!(!service.test(Transport::Tcp, parameters).join().unwrap().completed);
            }
            "Panicked" => {
                let hit = service.test(Transport::Tcp, in_both_directions());
                service.await_tests(1);
                *service.clock.victim.lock().unwrap() = Some("connection");
                assert!(!hit.join().unwrap().completed);
            }
            _ => drop(service.test(Transport::Tcp, upload(1)).join().unwrap()),
        }
        service.assert_free();
        assert!(service.observer.saw(&[event]) && service.observer.panics_at.lock().unwrap().is_none());
        service.assert_serves(Transport::Tcp);
        service.server.stop();
    }
}

#[test]
fn a_panic_in_the_quic_driver_shows_and_leaves_tcp_alone() {
    let service = Service::start(ServerLimits::default());
    let tcp = service.test(Transport::Tcp, upload(4));
    let mut quic = vec![service.test(Transport::Quic, upload(20))];
    service.await_tests(2);
    let is_over = || {
        let is_dead = !service.server.status().failed.is_empty();
        is_dead || service.clock.victim.lock().unwrap().is_none()
    };
    // A panic in the driver's work for a connection ends only that connection; the next one may hit the driver.
    let failed = (0..20).any(|_| {
        *service.clock.victim.lock().unwrap() = Some("quic");
        assert!(soon(is_over), "no panic");
        thread::sleep(Duration::from_millis(300));
        let failed = !service.server.status().failed.is_empty();
        if !failed {
            quic.push(service.test(Transport::Quic, upload(20)));
        }
        failed
    });
    assert!(failed, "{:?}", service.server.status());
    assert_eq!(service.server.status().failed, [(Transport::Mpquic, service.address(Transport::Quic))]);
    assert!(service.observer.saw(&["ListenerFailed", "Mpquic", "the clock failed"]));
    let tcp = tcp.join().unwrap();
    assert!(tcp.completed, "{:?}", tcp.error);
    // The slots are free although the client can no longer be notified.
    service.assert_free();
    service.assert_serves(Transport::Tcp);
    service.server.stop();
    assert!(quic.into_iter().all(|quic| !quic.join().unwrap().completed));
}

#[test]
fn a_panic_in_a_listener_shows_and_leaves_its_tests_and_the_others_alone() {
    let service = Service::start(ServerLimits { max_connections_per_client: 4, ..ServerLimits::default() });
    let running = service.test(Transport::Tcp, upload(4));
    service.await_tests(1);
    *service.observer.panics_at.lock().unwrap() = Some("TooManyConnections");
    let tcp = service.address(Transport::Tcp);
    let _one_too_many: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(tcp).unwrap()).collect();
    assert!(soon(|| !service.server.status().failed.is_empty()), "{:?}", service.server.status());
    assert!(service.observer.saw(&["ListenerFailed", "Tcp", "the observer cannot look"]));
    let running = running.join().unwrap();
    assert!(running.completed, "{:?}", running.error);
    service.assert_free();
    service.assert_serves(Transport::Quic);
    service.server.stop();
}
