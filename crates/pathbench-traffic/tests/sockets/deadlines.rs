//! No peer can extend the other end's waits, and no wait continues after a shutdown.

use crate::bodies::honest::record_by_hand;
use crate::common::{Everything, clock, next_frame, plan, random_id, send, server};
use pathbench_record::direction::DataDirection;
use pathbench_record::end::TestId;
use pathbench_record::pattern::{Amount, PatternParameters, PingParameters, ThroughputParameters};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::client::{ClientPlan, Unobserved, fetch_record, run_client};
use pathbench_traffic::protocol::{ControlFrame, EndFrame, HelloFrame, data_header};
use pathbench_traffic::server::{Access, Server, ServerLimits, ServerOptions};
use pathbench_transport::{ConnectOptions, Security, ServerIdentity, Session, Trust};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A clock that runs faster for one end. A host that stalls for 1 s advances it by 30 s, less than every limit of these
/// tests.
#[derive(Debug)]
struct FastClock;

impl FastClock {
    const SPEED: u64 = 30;
}

/// Three seconds of real time.
const LONG: Duration = Duration::from_secs(90);

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(MonotonicClock.now().as_nanos().wrapping_mul(Self::SPEED) % (1 << 62))
    }

    fn sleep_until(&self, deadline: Timestamp) {
        thread::sleep(deadline.duration_since(self.now()) / u32::try_from(Self::SPEED).unwrap());
    }
}

fn fast_clock() -> Arc<dyn Clock> {
    Arc::new(FastClock)
}

/// A clock that runs slower for one end: its timeouts do not expire during a test.
#[derive(Debug)]
struct SlowClock;

impl SlowClock {
    const SLOWNESS: u32 = 30;
}

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(MonotonicClock.now().as_nanos() / u64::from(Self::SLOWNESS))
    }

    fn sleep_until(&self, deadline: Timestamp) {
        thread::sleep(deadline.duration_since(self.now()) * Self::SLOWNESS);
    }
}

fn fast_server(max_duration: Duration) -> (Server, SocketAddr) {
    let options = ServerOptions {
        limits: ServerLimits { handshake_timeout: LONG, max_duration, ..ServerLimits::default() },
        access: Access::Open,
        ..ServerOptions::new(vec![(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, fast_clock()).unwrap();
    let address = server.addresses()[0].1;
    (server, address)
}

/// The HELLO of a hand-written client for an upload of 1000 bytes.
fn hello(test: TestId, stream: u32, streams: u32) -> ControlFrame {
    let request = format!(
        r#"{{"pattern":"throughput","transport":"tcp","patience_ms":100000,"parameters":{{
            "direction":"upload","streams":{streams},"amount":{{"bytes":1000}},"block_bytes":131072}}}}"#
    );
    ControlFrame::Hello(HelloFrame::new(test, stream, request.into_bytes()))
}

/// Writes single bytes, each well within the patience; returns the time for which the other end kept the connection.
fn write_slowly(stream: &mut TcpStream, bytes: &[u8], most: Duration) -> Duration {
    let begun = MonotonicClock.now();
    for byte in bytes.iter().cycle() {
        let lasted = MonotonicClock.now().duration_since(begun);
        if lasted > most || stream.write_all(&[*byte]).is_err() {
            return lasted;
        }
        thread::sleep(20 * MS);
    }
    Duration::ZERO
}

fn waits_until(mut holds: impl FnMut() -> bool) -> bool {
    (0..500).any(|_| {
        thread::sleep(20 * MS);
        holds()
    })
}

/// A header that announces a record of 100 kB.
fn record_header() -> Vec<u8> {
    ControlFrame::Record(vec![b' '; 100_000]).encode().unwrap()[..8].to_vec()
}

#[test]
fn a_client_that_writes_its_record_slowly_loses_its_slot() {
    let (server, address) = fast_server(Duration::from_secs(3600));
    let mut stream = upload_by_hand(address);
    stream.write_all(&record_header()).unwrap();
    // Two minutes on the server's clock are four seconds of real time.
    let lasted = write_slowly(&mut stream, b" ", Duration::from_secs(30));
    assert!(lasted < Duration::from_secs(20), "{lasted:?}");
    assert!(waits_until(|| server.status().connections == 0), "{:?}", server.status());
}

/// A hand-written upload up to the server's record.
fn upload_by_hand(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, &hello(random_id(), 0, 1));
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Accept));
    send(&mut stream, &ControlFrame::Start);
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Start));
    stream.write_all(&data_header(1000)).unwrap();
    stream.write_all(&[7; 1000]).unwrap();
    send(&mut stream, &ControlFrame::End(EndFrame { bytes: 1000, elapsed_ns: 1, cut_short: false }));
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Done { bytes: 1000 }));
    assert!(matches!(next_frame(&mut stream), Some(ControlFrame::Record(_))));
    stream
}

/// Regression: the next test was refused after 3 s, because the server held the first test's memory until the close.
#[test]
fn a_client_that_has_its_record_may_begin_its_next_test_before_it_closes() {
    let options = ServerOptions {
        limits: ServerLimits { max_tests: 1, ..ServerLimits::default() },
        ..ServerOptions::new(vec![(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, Arc::new(SlowClock)).unwrap();
    let address = server.addresses()[0].1;
    let first = upload_by_hand(address);
    let _second = upload_by_hand(address);
    drop(first);
    server.stop();
}

#[test]
fn a_client_that_writes_its_data_slowly_is_ended_at_the_deadline() {
    let (server, address) = fast_server(Duration::from_secs(60));
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, &hello(random_id(), 0, 1));
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Accept));
    send(&mut stream, &ControlFrame::Start);
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Start));
    stream.write_all(&data_header(1000)).unwrap();
    // Twice the time for the handshake, a minute for the test, twice the patience of 102 s: 15 s of real time.
    let lasted = write_slowly(&mut stream, &[7], Duration::from_secs(50));
    assert!(lasted < Duration::from_secs(40), "{lasted:?}");
    assert!(waits_until(|| server.status().tests == 0 && server.status().connections == 0));
}

#[test]
fn streams_that_join_one_after_the_other_do_not_prolong_a_test() {
    let (server, address) = fast_server(Duration::from_secs(3600));
    let test = random_id();
    let mut first = TcpStream::connect(address).unwrap();
    send(&mut first, &hello(test, 0, 100));
    assert_eq!(next_frame(&mut first), Some(ControlFrame::Accept));
    send(&mut first, &ControlFrame::Start);
    assert_eq!(next_frame(&mut first), Some(ControlFrame::Start));
    // The test runs, because the first stream waits for data. The time for the others passes.
    thread::sleep(LONG / 28);
    assert_eq!(server.status().tests, 1);
    let mut second = TcpStream::connect(address).unwrap();
    send(&mut second, &hello(test, 1, 100));
    match next_frame(&mut second) {
        Some(ControlFrame::Refuse(refusal)) => assert!(refusal.message.contains("too long ago"), "{refusal}"),
        other => panic!("{other:?}"),
    }
}

/// A server of one connection that completes `until`, then writes `bytes` slowly; returns how long the client stayed.
fn slowly_writing_server(
    until: impl FnOnce(&mut TcpStream) -> Vec<u8> + Send + 'static,
) -> (SocketAddr, thread::JoinHandle<Duration>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let bytes = until(&mut stream);
        write_slowly(&mut stream, &bytes, Duration::from_secs(50))
    });
    (address, served)
}

fn accepted(stream: &mut TcpStream) {
    assert!(matches!(next_frame(stream), Some(ControlFrame::Hello(_))));
    send(stream, &ControlFrame::Accept);
    assert_eq!(next_frame(stream), Some(ControlFrame::Start));
    send(stream, &ControlFrame::Start);
}

/// A plan with so much patience that silence never ends the test.
fn patient(address: SocketAddr, parameters: impl Into<PatternParameters>) -> ClientPlan {
    ClientPlan { patience: LONG, connect_timeout: LONG, ..plan(Transport::Tcp, address, parameters) }
}

#[test]
fn a_server_that_writes_its_record_slowly_does_not_hold_a_client() {
    let (address, served) = slowly_writing_server(|stream| {
        accepted(stream);
        let mut data = [0; 1008];
        stream.read_exact(&mut data).unwrap();
        assert!(matches!(next_frame(stream), Some(ControlFrame::End(_))));
        send(stream, &ControlFrame::Done { bytes: 1000 });
        stream.write_all(&record_header()).unwrap();
        b" ".to_vec()
    });
    let parameters = ThroughputParameters { amount: Amount::Bytes(1000), ..ThroughputParameters::default() };
    let outcome = run_client(&patient(address, parameters), &fast_clock(), &Unobserved);
    let error = outcome.error.unwrap().to_string();
    assert!(error.contains("did not hand over its record"), "{error}");
    let lasted = served.join().unwrap();
    assert!(lasted < Duration::from_secs(20), "{lasted:?}");
}

#[test]
fn a_server_that_writes_slowly_or_reads_nothing_does_not_hold_a_client() {
    let download = ThroughputParameters {
        direction: DataDirection::Download,
        amount: Amount::Duration(Duration::from_secs(10)),
        ..ThroughputParameters::default()
    };
    let ping = PingParameters { count: 5, timeout: Duration::from_secs(3), ..PingParameters::default() };
    let cases: [(PatternParameters, Vec<u8>); 2] = [
        (download.into(), [data_header(16_000_000).to_vec(), vec![7; 16_000]].concat()),
        // The beginning of an answer that is never completed.
        (
            PatternParameters::Ping(ping),
            [&ControlFrame::Done { bytes: 1 }.encode().unwrap()[..4], &[0; 4]].concat(),
        ),
    ];
    for (parameters, bytes) in cases {
        let (address, served) = slowly_writing_server(|stream| {
            accepted(stream);
            bytes
        });
        let name = parameters.name();
        let outcome = run_client(&patient(address, parameters), &fast_clock(), &Unobserved);
        assert!(!outcome.completed && outcome.error.is_some(), "{name}");
        let lasted = served.join().unwrap();
        assert!(lasted < Duration::from_secs(40), "{name}: {lasted:?}");
    }
}

#[test]
fn a_slowly_written_fetched_record_does_not_hold_a_client() {
    let (address, served) = slowly_writing_server(|stream| {
        assert!(matches!(next_frame(stream), Some(ControlFrame::Fetch(_))));
        stream.write_all(&record_header()).unwrap();
        b" ".to_vec()
    });
    let client = record_by_hand(random_id(), ThroughputParameters::default().into(), 0);
    let plan = ClientPlan {
        connect_timeout: LONG,
        ..ClientPlan::new(Transport::Tcp, address, client.test, client.parameters.clone())
    };
    let error = fetch_record(&plan, false, &client, &fast_clock()).unwrap_err().to_string();
    assert!(error.contains("did not hand over its record"), "{error}");
    let lasted = served.join().unwrap();
    assert!(lasted < Duration::from_secs(20), "{lasted:?}");
}

fn many(direction: DataDirection, seconds: u64) -> ThroughputParameters {
    ThroughputParameters {
        direction,
        streams: 128,
        amount: Amount::Duration(Duration::from_secs(seconds)),
        ..ThroughputParameters::default()
    }
}

/// Time to stop a server that paces 128 streams in each direction.
fn shutdown_of_paced_streams(transport: Transport, direction: DataDirection) -> Duration {
    let everything =
        Everything::start(ServerLimits { max_rate_bps: Some(2_000_000), ..ServerLimits::default() });
    let index = everything.addresses.iter().position(|(known, _)| *known == transport).unwrap();
    let plan = everything.plan(index, many(direction, 60));
    let client = thread::spawn(move || run_client(&plan, &clock(), &Unobserved));
    assert!(waits_until(|| everything.server.status().connections >= 128), "{transport}");
    thread::sleep(1500 * MS);
    let begun = MonotonicClock.now();
    let (done, stopped) = channel();
    thread::spawn(move || {
        everything.server.stop();
        done.send(()).unwrap();
    });
    assert!(stopped.recv_timeout(Duration::from_secs(20)).is_ok(), "{transport} {direction:?}: it waits");
    let lasted = MonotonicClock.now().duration_since(begun);
    assert!(!client.join().unwrap().completed);
    lasted
}

#[test]
fn a_shutdown_does_not_wait_for_streams_that_are_paced() {
    for (transport, direction) in [
        (Transport::Tcp, DataDirection::Both),
        (Transport::Quic, DataDirection::Download),
        (Transport::Quic, DataDirection::Upload),
    ] {
        // On a busy host, many threads wait long for a CPU.
        let quick = (0..4).any(|_| shutdown_of_paced_streams(transport, direction) < Duration::from_secs(2));
        assert!(quick, "{transport} {direction:?}");
    }
}

/// The server waits for streams that never open, but not beyond a shutdown.
#[test]
fn a_shutdown_does_not_wait_for_streams_that_never_came() {
    let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
    let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
    let options = ServerOptions {
        identity: Some(Arc::new(identity)),
        ..ServerOptions::new(vec![(Transport::Quic, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, clock()).unwrap();
    let options = ConnectOptions { security, ..ConnectOptions::new(server.addresses()[0].1, 20_000 * MS) };
    let session = Session::new(Transport::Quic, options, clock());
    let stream = session.open().unwrap();
    let ControlFrame::Hello(asked) = hello(random_id(), 0, 4) else { panic!("not a HELLO") };
    let request = String::from_utf8(asked.request.clone()).unwrap().replace("tcp", "quic").into_bytes();
    let sent = [
        ControlFrame::Hello(HelloFrame { request, ..asked }).encode().unwrap(),
        ControlFrame::Start.encode().unwrap(),
        ControlFrame::End(EndFrame { bytes: 0, elapsed_ns: 0, cut_short: false }).encode().unwrap(),
    ];
    stream.send(&sent.concat(), Some(20_000 * MS)).unwrap();
    assert!(waits_until(|| server.status().tests == 1));
    // ACCEPT, START and DONE; the server then waits for the client's record.
    let mut received = 0;
    while received < 32 {
        received += stream.receive(&mut [0; 64], Some(20_000 * MS)).unwrap();
    }
    let begun = MonotonicClock.now();
    server.stop();
    let lasted = MonotonicClock.now().duration_since(begun);
    assert!(lasted < Duration::from_secs(2), "{lasted:?}");
}

#[test]
fn many_streams_together_keep_the_rate_and_the_time() {
    const RATE_BPS: u64 = 16_000_000;
    let (server, address) =
        server(Transport::Tcp, ServerLimits { max_rate_bps: Some(RATE_BPS), ..ServerLimits::default() });
    for seconds in [1, 4] {
        let begun = MonotonicClock.now();
        let outcome = run_client(
            &plan(Transport::Tcp, address, many(DataDirection::Download, seconds)),
            &clock(),
            &Unobserved,
        );
        let lasted = MonotonicClock.now().duration_since(begun);
        assert!(outcome.completed, "{:?}", outcome.error);
        let received = outcome.client.deliveries.total_bytes();
        // 20 ms of the rate, 512 bytes per stream, and the last block of each stream.
        let burst = RATE_BPS / 8 / 50 + 128 * (512 + 512);
        let sent_for = outcome.server.unwrap().offered;
        let sent_for = sent_for.last.unwrap().duration_since(sent_for.first.unwrap());
        let most = (RATE_BPS as f64 / 8.0 * sent_for.as_secs_f64()) as u64 + burst;
        assert!(received <= most, "{received} bytes in {sent_for:?}, {most} allowed");
        assert!(sent_for < Duration::from_secs(seconds + 1), "{sent_for:?}");
        assert!(lasted < Duration::from_secs(seconds + 10), "{lasted:?}");
        if seconds > 1 {
            let least = RATE_BPS / 8 * seconds / 2;
            assert!(received > least, "{received} bytes, {least} expected");
        }
    }
    server.stop();
}

#[test]
fn an_upload_is_taken_no_faster_than_the_rate() {
    const RATE_BPS: u64 = 40_000_000;
    let (server, address) =
        server(Transport::Tcp, ServerLimits { max_rate_bps: Some(RATE_BPS), ..ServerLimits::default() });
    let parameters = ThroughputParameters {
        amount: Amount::Bytes(20_000_000),
        streams: 8,
        ..many(DataDirection::Upload, 1)
    };
    let outcome = run_client(&plan(Transport::Tcp, address, parameters), &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
    let deliveries = outcome.server.unwrap().deliveries;
    let taken_in = deliveries.last.unwrap().duration_since(deliveries.first.unwrap());
    // Data that arrived with START is accepted at once: at most 8 KiB per stream.
    let burst = RATE_BPS / 8 / 50 + 8 * (512 + 8192);
    let least = Duration::from_secs_f64((20_000_000 - burst) as f64 * 8.0 / RATE_BPS as f64);
    assert!(taken_in >= least, "{taken_in:?}, {least:?} expected");
    server.stop();
}

#[test]
fn messages_are_paced() {
    const RATE_BPS: u64 = 4_000_000;
    let (server, address) =
        server(Transport::Tcp, ServerLimits { max_rate_bps: Some(RATE_BPS), ..ServerLimits::default() });
    let ping = PingParameters {
        count: 40,
        warm_up: 0,
        interval: Duration::ZERO,
        response_bytes: 50_000,
        ..PingParameters::default()
    };
    let outcome =
        run_client(&plan(Transport::Tcp, address, PatternParameters::Ping(ping)), &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
    let answers = outcome.client.deliveries;
    let span = answers.last.unwrap().duration_since(answers.first.unwrap());
    // The first answer precedes the span, and one message may be sent before its payment.
    let least = Duration::from_secs_f64(38.0 * 50_000.0 * 8.0 / RATE_BPS as f64 - 0.02);
    assert!(span >= least, "{span:?}, {least:?} expected");
    server.stop();
}
