//! Whole conversations: a script plays a client against a live server, or a server against a live client. After each
//! script every slot is free and every thread gone, no thread has panicked, and the server still serves.
//!
//! Bytes go over loopback, so that what is tested is what runs; time does not pass but jumps where the script says so,
//! and at its end until all that waits has given up.

use super::input::Input;
use super::peer::Peer;
use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::TestId;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::response::ResponsivenessParameters;
use pathbench_record::sample::Side;
use pathbench_record::text::is_deceptive;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::client::{ClientOutcome, ClientPlan, Unobserved, fetch_record, run_client};
use pathbench_traffic::protocol::{ControlFrame, Fetch, HelloFrame, RefusalCode, TestRefusal, VERSION};
use pathbench_traffic::record::check_peer;
use pathbench_traffic::server::{Server, ServerEvent, ServerLimits, ServerObserver, ServerOptions};
use pathbench_transport::SocketOptions;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Steps of one script, and its connections.
const STEPS: usize = 48;
const SLOTS: usize = 4;

/// Until everything has ended, on a machine that stalls at times.
const SETTLING: Duration = Duration::from_secs(30);

/// Interval at which an honest client checks that the server still serves.
const HONEST: u64 = 64;

/// Numbers of its tests: one, and others when the server is still busy with the script.
const HONEST_TESTS: RangeInclusive<usize> = 99..=108;

/// Threads of a process that only waits for the next script, and some that are just ending.
const MOST_THREADS: usize = 64;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.byte() % 4 == 3 { as_server(&mut input) } else { as_client(&mut input) }
}

/// The machine's clock plus an offset.
#[derive(Debug, Default)]
struct JumpingClock {
    moved_ns: AtomicU64,
}

impl JumpingClock {
    fn jump(&self, time: Duration) {
        self.moved_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        MonotonicClock.now() + Duration::from_nanos(self.moved_ns.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, deadline: Timestamp) {
        while self.now() < deadline {
            thread::sleep(deadline.duration_since(self.now()).min(2 * MS));
        }
    }
}

/// Ends the process when the server says that something broke.
#[derive(Debug)]
struct Watch;

impl ServerObserver for Watch {
    fn on_event(&self, event: &ServerEvent<'_>) {
        match event {
            ServerEvent::Panicked { .. } | ServerEvent::ListenerFailed { .. } => {
                eprintln!("{event:?}");
                std::process::abort();
            }
            ServerEvent::Refused { message, .. } => assert!(!message.contains(is_deceptive)),
            _ => {}
        }
    }
}

/// The server and the clock of all scripts of a process.
struct Bench {
    clock: Arc<JumpingClock>,
    server: Server,
    address: SocketAddr,
    scripts: AtomicU64,
}

impl Bench {
    fn get() -> &'static Self {
        static BENCH: OnceLock<Bench> = OnceLock::new();
        BENCH.get_or_init(|| {
            let clock = Arc::new(JumpingClock::default());
            let limits = ServerLimits {
                max_tests: 3,
                max_tests_per_client: 2,
                max_connections: 6,
                max_connections_per_client: 5,
                max_streams: 4,
                max_bytes: Some(100_000),
                max_duration: 5 * SECOND,
                max_patience: 10 * SECOND,
                handshake_timeout: 5 * SECOND,
                max_records: 4,
                max_record_bytes: 1_000_000,
                keep_records_for: 60 * SECOND,
                ..ServerLimits::default()
            };
            let options = ServerOptions {
                limits,
                sample_interval: 5 * MS,
                socket: at_once(),
                ..ServerOptions::new(vec![(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)))])
            };
            let shared: Arc<dyn Clock> = Arc::<JumpingClock>::clone(&clock);
            let server =
                Server::start_observed(options, shared, Arc::new(Watch)).expect("a server on loopback");
            let address = server.addresses()[0].1;
            Self { clock, server, address, scripts: AtomicU64::new(0) }
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::<JumpingClock>::clone(&self.clock)
    }

    /// An id of this script's own.
    fn test(script: u64, number: usize) -> TestId {
        let mut id = [number as u8; 16];
        id[..8].copy_from_slice(&script.to_be_bytes());
        TestId(id)
    }

    /// Lets time go by until `is_over`.
    fn settle(&self, what: &str, is_over: impl Fn() -> bool) {
        let begun = MonotonicClock.now();
        while !is_over() {
            assert!(
                MonotonicClock.now().duration_since(begun) < SETTLING,
                "{what}: {:?}",
                self.server.status()
            );
            self.clock.jump(SECOND);
            thread::sleep(MS);
        }
    }

    /// Checks the invariants between scripts.
    fn check(&self, script: u64) {
        self.check_released();
        if !script.is_multiple_of(HONEST) {
            return;
        }
        for number in HONEST_TESTS {
            let plan = Self::plan(self.address, Self::test(script, number), parameters(0));
            let outcome = run_client(&plan, &self.clock(), &Unobserved);
            if outcome.completed {
                let fetched = fetch_record(&plan, true, &outcome.client, &self.clock());
                assert!(fetched.is_ok(), "{:?}", fetched.err());
                return;
            }
            // Connections of the script that still waited to be accepted count as this client's.
            assert!(number < *HONEST_TESTS.end(), "{:?}", outcome.error);
            self.check_released();
        }
    }

    fn check_released(&self) {
        self.settle("slots are held", || {
            let status = self.server.status();
            (status.tests, status.connections) == (0, 0)
        });
        self.settle("threads go on", || {
            std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) < MOST_THREADS
        });
    }

    fn plan(server: SocketAddr, test: TestId, parameters: PatternParameters) -> ClientPlan {
        ClientPlan {
            patience: 8 * SECOND,
            connect_timeout: 5 * SECOND,
            sample_interval: 5 * MS,
            socket: at_once(),
            ..ClientPlan::new(Transport::Tcp, server, test, parameters)
        }
    }
}

/// No script waits for Nagle's algorithm.
fn at_once() -> SocketOptions {
    SocketOptions { no_delay: true, ..SocketOptions::default() }
}

/// Small tests of every kind, and some that a server does not grant.
fn parameters(which: usize) -> PatternParameters {
    let throughput = |direction, streams, amount| ThroughputParameters {
        direction,
        streams,
        amount,
        block_bytes: 4096,
        ..ThroughputParameters::default()
    };
    let (short, long) = (Amount::Duration(20 * MS), Amount::Duration(20 * SECOND));
    match which % 12 {
        0 => PatternParameters::Bulk(BulkParameters { bytes: 1000, ..BulkParameters::default() }),
        1 => PatternParameters::Bulk(BulkParameters { bytes: 0, upload_bytes: 900, streams: 1 }),
        2 => PatternParameters::Bulk(BulkParameters { bytes: 5000, upload_bytes: 70, streams: 2 }),
        3 => throughput(DataDirection::Upload, 3, Amount::Bytes(5000)).into(),
        4 => throughput(DataDirection::Both, 1, short).into(),
        5 => throughput(DataDirection::Download, 2, short).into(),
        6 => ThroughputParameters { rate_bps: Some(80_000), ..throughput(DataDirection::Both, 1, short) }
            .into(),
        7 => PatternParameters::Ping(PingParameters {
            count: 2,
            interval: MS,
            timeout: 30 * MS,
            ..PingParameters::default()
        }),
        8 => PatternParameters::Responsiveness(short_load()),
        9 => PatternParameters::Interactive(InteractiveParameters {
            duration: 12 * MS,
            interval: 5 * MS,
            request_bytes: 100,
            response_bytes: 40,
            linger: 20 * MS,
        }),
        // TCP carries no datagrams.
        10 => PatternParameters::Datagrams(DatagramsParameters {
            duration: 20 * MS,
            ..DatagramsParameters::voice()
        }),
        _ => throughput(DataDirection::Upload, 9, long).into(),
    }
}

/// Each phase lasts for a few probes.
pub(super) fn short_load() -> ResponsivenessParameters {
    ResponsivenessParameters {
        idle: 6 * MS,
        load: 8 * MS,
        settle: 2 * MS,
        pause: MS,
        interval: 3 * MS,
        block_bytes: 4096,
        ..ResponsivenessParameters::default()
    }
}

/// The script is the client.
fn as_client(input: &mut Input<'_>) {
    let bench = Bench::get();
    let script = bench.scripts.fetch_add(1, Ordering::Relaxed);
    let begun = MonotonicClock.now();
    let mut slots: [Option<Peer>; SLOTS] = Default::default();
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let slot = &mut slots[input.below(SLOTS)];
        if slot.is_none() {
            *slot =
                TcpStream::connect(bench.address).ok().map(|stream| Peer::new(stream, Side::Client, begun));
        }
        match input.byte() % 4 {
            0 => {
                let Some(peer) = slot else { continue };
                let (test, stream) = (Bench::test(script, input.below(2)), input.below(4) as u32);
                let (parameters, patience) =
                    (parameters(input.below(12)), 10 * MS * (9 + input.below(1000) as u32));
                if input.byte().is_multiple_of(8) {
                    // A request with a byte of it changed.
                    let mut json =
                        br#"{"pattern":"ping","transport":"tcp","patience_ms":500,"parameters":{}}"#.to_vec();
                    let at = input.below(json.len());
                    json[at] = input.byte();
                    peer.send(&ControlFrame::Hello(HelloFrame::new(test, stream, json)));
                } else {
                    peer.hello(test, stream, parameters, patience);
                }
            }
            1 => {
                let Some(peer) = slot else { continue };
                let test = Bench::test(script, input.below(3));
                peer.send(&ControlFrame::Fetch(Fetch {
                    version: VERSION,
                    test,
                    end_test: input.byte().is_multiple_of(2),
                }));
            }
            _ => step(bench, slot, input),
        }
    }
    drop(slots);
    bench.check(script);
}

/// The script is the server.
fn as_server(input: &mut Input<'_>) {
    let bench = Bench::get();
    let script = bench.scripts.fetch_add(1, Ordering::Relaxed);
    let Ok(listener) = TcpListener::bind("127.0.0.1:0") else { return };
    let address = listener.local_addr().expect("an address");
    let plan = Bench::plan(address, Bench::test(script, 0), parameters(input.below(11)));
    let begun = MonotonicClock.now();
    let serve = |input: &mut Input<'_>, is_over: &dyn Fn() -> bool| {
        let _ = listener.set_nonblocking(true);
        let mut slots: [Option<Peer>; SLOTS] = Default::default();
        for _ in 0..STEPS {
            if input.is_empty() || is_over() {
                break;
            }
            for slot in slots.iter_mut().filter(|slot| slot.is_none()) {
                *slot = listener.accept().ok().map(|(stream, _)| {
                    let _ = stream.set_nonblocking(false);
                    Peer::new(stream, Side::Server, begun)
                });
            }
            let open = slots.iter().flatten().count();
            if open == 0 {
                thread::sleep(MS / 4);
                continue;
            }
            step(bench, &mut slots[input.below(open)], input);
        }
        // Connections that are opened from now on are closed at once.
        slots
    };
    let outcome = thread::scope(|scope| {
        let client = scope.spawn(|| run_client(&plan, &bench.clock(), &Unobserved));
        let slots = serve(input, &|| client.is_finished());
        drop(slots);
        bench.settle("a client goes on", || {
            drop(listener.accept());
            client.is_finished()
        });
        client.join().expect("a client that does not panic")
    });
    check_outcome(&outcome, bench.clock.now());
    if !outcome.client.streams.is_empty() && !input.is_empty() {
        thread::scope(|scope| {
            let fetching = scope.spawn(|| fetch_record(&plan, true, &outcome.client, &bench.clock()));
            let slots = serve(input, &|| fetching.is_finished());
            drop(slots);
            bench.settle("a fetch goes on", || {
                drop(listener.accept());
                fetching.is_finished()
            });
            if let Err(error) = fetching.join().expect("a fetch that does not panic") {
                assert!(!error.to_string().contains(is_deceptive) && error.to_string().len() < 4000);
            }
        });
    }
    bench.check(script);
}

/// Properties of every outcome of a client.
fn check_outcome(outcome: &ClientOutcome, now: Timestamp) {
    let ClientOutcome { client, server, completed, error, .. } = outcome;
    let received: u64 = client.streams.iter().map(|stream| stream.received_bytes).sum();
    assert_eq!(client.deliveries.total_bytes(), received);
    assert_eq!(*completed, error.is_none());
    if let Some(error) = error {
        let words = error.to_string();
        assert!(!words.contains(is_deceptive) && words.len() < 4000, "{words:?}");
    }
    if let Some(server) = server {
        assert_eq!(check_peer(client, server, now), Ok(()));
    }
}

/// A step of either end: the next step of an honest peer, or another one.
fn step(bench: &Bench, slot: &mut Option<Peer>, input: &mut Input<'_>) {
    let Some(peer) = slot else { return };
    match input.byte() % 28 {
        0..=7 => {
            peer.go_on(1 + input.below(12));
        }
        8 => peer.send(&ControlFrame::Accept),
        9 => peer.send(&ControlFrame::Start),
        10 | 11 => {
            let length = 1 + input.below(3000);
            peer.data(length, !input.byte().is_multiple_of(4));
        }
        12 => peer.end(None, input.byte().is_multiple_of(2)),
        13 => peer.end(Some(input.number()), false),
        14 => peer.done(None),
        15 => peer.done(Some(input.number())),
        16 => peer.message(
            input.below(4) as u32,
            input.byte().is_multiple_of(2),
            !input.byte().is_multiple_of(4),
        ),
        17 => peer.send(&ControlFrame::Acknowledge { sequence: input.below(4) as u32 }),
        18 => peer.send(&ControlFrame::Stop),
        19 => {
            let text = String::from_utf8_lossy(input.bytes(20)).into_owned();
            peer.send(&ControlFrame::Refuse(TestRefusal {
                code: RefusalCode::Busy,
                message: text,
                retry_after_ms: None,
            }));
        }
        20 => peer.hand_over(),
        21 => {
            let mut record = peer.record();
            super::input::change(&mut record, &mut input.below(60), input);
            peer.send(&ControlFrame::Record(record.to_string().into_bytes()));
        }
        22 => peer.send(&ControlFrame::NotFound),
        23 => peer.raw(input.bytes(40)),
        24 => bench.clock.jump(64 * MS * u32::from(input.byte())),
        25 => peer.half_close(),
        26 => *slot = None,
        _ => {
            if let Some(peer) = slot.take() {
                peer.abort();
            }
        }
    }
}
