//! Complete tests between a client and a server over loopback, on the real kernel.

use crate::common;
use crate::common::{clock, plan, server};
use pathbench_record::connection::Negotiation;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::EndRecord;
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, Connected, FetchError, Progress, Unobserved,
    fetch_record, run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use pathbench_traffic::server::{CounterReader, Server, ServerLimits, ServerOptions};
use pathbench_transport::{SocketOptions, mptcp_available};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn bytes(direction: DataDirection, streams: u32, bytes: u64) -> ThroughputParameters {
    ThroughputParameters {
        direction,
        streams,
        amount: Amount::Bytes(bytes),
        ..ThroughputParameters::default()
    }
}

fn seconds(direction: DataDirection, duration: Duration) -> ThroughputParameters {
    ThroughputParameters { direction, amount: Amount::Duration(duration), ..ThroughputParameters::default() }
}

fn run(transport: Transport, parameters: ThroughputParameters) -> ClientOutcome {
    let (server, address) = server(transport, ServerLimits::default());
    let outcome = run_client(&plan(transport, address, parameters), &clock(), &Unobserved);
    server.stop();
    assert!(outcome.completed, "{:?}", outcome.error);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.hung, None);
    outcome
}

fn span(end: &EndRecord) -> Duration {
    end.deliveries.last.unwrap().duration_since(end.deliveries.first.unwrap())
}

#[test]
fn an_upload_delivers_every_byte_and_both_records_agree() {
    let ClientOutcome { client, server, .. } =
        run(Transport::Tcp, bytes(DataDirection::Upload, 1, 50_000_001));
    let server = server.unwrap();
    assert_eq!(client.offered.total_bytes(), 50_000_001);
    assert_eq!(server.deliveries.total_bytes(), 50_000_001);
    assert_eq!((client.deliveries.total_bytes(), server.offered.total_bytes()), (0, 0));
    assert_eq!((client.side, server.side), (Side::Client, Side::Server));
    assert_eq!(client.test, server.test);
    for end in [&client, &server] {
        assert!(end.completed && end.errors.is_empty());
        assert_eq!(end.streams.len(), 1);
        assert!(!end.streams[0].in_force.congestion.is_empty(), "{:?}", end.streams[0].in_force);
        assert_eq!(end.streams[0].multipath, Negotiation::NotAsked);
        assert!(end.samples.len() >= 2, "{} samples", end.samples.len());
    }
    assert_eq!(client.streams[0].local, server.streams[0].peer);
    // The data and the protocol's own bytes were acknowledged when the client completed its record.
    assert!(client.streams[0].paths[0].bytes_acked > 50_000_001);
    assert!(server.streams[0].paths[0].bytes_received > 50_000_001);
}

#[test]
fn a_download_by_time_lasts_its_time_and_the_warm_up() {
    let parameters = ThroughputParameters { omit: 200 * MS, ..seconds(DataDirection::Download, 500 * MS) };
    let ClientOutcome { client, server, .. } = run(Transport::Tcp, parameters);
    let server = server.unwrap();
    assert_eq!(client.deliveries.total_bytes(), server.offered.total_bytes());
    assert!(client.deliveries.total_bytes() > 1_000_000);
    assert_eq!(client.offered.total_bytes(), 0);
    let span = span(&client);
    assert!(span > 600 * MS && span < 1500 * MS, "{span:?}");
}

#[test]
fn both_directions_on_three_streams_are_exact() {
    let parameters = bytes(DataDirection::Both, 3, 20_000_003);
    let ClientOutcome { client, server, .. } = run(Transport::Tcp, parameters);
    let server = server.unwrap();
    for end in [&client, &server] {
        assert_eq!(end.offered.total_bytes(), 20_000_003);
        assert_eq!(end.deliveries.total_bytes(), 20_000_003);
        let streams: Vec<u32> = end.streams.iter().map(|stream| stream.stream).collect();
        assert_eq!(streams, [0, 1, 2]);
        let parts: u64 = end.streams.iter().map(|stream| stream.received_bytes).sum();
        assert_eq!(parts, 20_000_003);
        assert_eq!(end.deliveries.origin, end.started);
    }
}

#[test]
fn a_rate_limit_is_kept() {
    let parameters = ThroughputParameters {
        rate_bps: Some(40_000_000),
        streams: 2,
        ..seconds(DataDirection::Upload, 1000 * MS)
    };
    let server = run(Transport::Tcp, parameters).server.unwrap();
    let ratio = server.deliveries.total_bytes() as f64 / 5_000_000.0;
    // The rate may be exceeded by a block per stream; late wake-ups on a busy host reduce it.
    assert!((0.7..1.02).contains(&ratio), "{ratio} of the rate");
}

#[test]
fn mptcp_is_reported_as_the_kernel_reports_it() {
    if mptcp_available().is_err() {
        // Without MPTCP the client must report that and the remedy.
        let plan = plan(Transport::Mptcp, ([127, 0, 0, 1], 9).into(), ThroughputParameters::default());
        let outcome = run_client(&plan, &clock(), &Unobserved);
        assert!(matches!(outcome.error, Some(ClientError::Incapable { .. })), "{:?}", outcome.error);
        return;
    }
    let outcome = run(Transport::Mptcp, bytes(DataDirection::Both, 1, 10_000_000));
    for end in [outcome.client, outcome.server.unwrap()] {
        assert_eq!(end.streams[0].multipath, Negotiation::Negotiated);
        assert!(end.streams[0].mptcp.is_some());
        assert_eq!(end.transport, Transport::Mptcp);
    }
}

#[derive(Default)]
struct Listener {
    connected: Mutex<Vec<Connected>>,
    first: Mutex<Vec<Timestamp>>,
    progress: Mutex<Vec<Progress>>,
}

impl ClientObserver for Listener {
    fn on_connected(&self, connected: &Connected) {
        self.connected.lock().unwrap().push(connected.clone());
    }
    fn on_first_byte(&self, at: Timestamp) {
        self.first.lock().unwrap().push(at);
    }
    fn on_progress(&self, progress: &Progress) {
        self.progress.lock().unwrap().push(progress.clone());
    }
}

#[test]
fn the_observer_gets_connection_first_byte_and_progress() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let parameters = ThroughputParameters { streams: 2, ..seconds(DataDirection::Both, 600 * MS) };
    let listener = Listener::default();
    let outcome = run_client(&plan(Transport::Tcp, address, parameters), &clock(), &listener);
    server.stop();
    let connected = listener.connected.into_inner().unwrap();
    assert_eq!(
        connected.iter().map(|each| (each.stream, each.peer)).collect::<Vec<_>>(),
        [(0, address), (1, address)]
    );
    let first = listener.first.into_inner().unwrap();
    assert_eq!(first.len(), 1);
    assert!(first[0] <= outcome.client.offered.first.unwrap());
    assert!(first[0] >= connected[1].at);
    let progress = listener.progress.into_inner().unwrap();
    assert!(progress.len() >= 2, "{}", progress.len());
    let last = progress.last().unwrap();
    assert!(last.sent_bytes > 0 && last.received_bytes > 0);
    assert_eq!(last.paths.len(), 1);
    assert!(last.paths[0].acknowledged_bytes > 0);
    assert!(progress.windows(2).all(|pair| pair[0].sent_bytes <= pair[1].sent_bytes));
}

#[test]
fn a_busy_server_reports_when_to_retry() {
    let (server, address) = server(Transport::Tcp, ServerLimits { max_tests: 1, ..ServerLimits::default() });
    std::thread::scope(|scope| {
        let parameters =
            ThroughputParameters { rate_bps: Some(8_000_000), ..seconds(DataDirection::Upload, 1200 * MS) };
        let long = scope
            .spawn(move || run_client(&plan(Transport::Tcp, address, parameters), &clock(), &Unobserved));
        std::thread::sleep(400 * MS);
        let second = plan(Transport::Tcp, address, bytes(DataDirection::Upload, 1, 1000));
        let refused = run_client(&second, &clock(), &Unobserved);
        let Some(ClientError::Refused { code, retry_after_ms, message }) = refused.error else {
            panic!("{:?}", refused.error);
        };
        assert_eq!(code, RefusalCode::Busy);
        assert!(retry_after_ms.is_some_and(|ms| ms >= 500), "{retry_after_ms:?}");
        assert!(message.contains("busy"), "{message}");
        assert!(!refused.completed && refused.server.is_none());
        assert!(long.join().unwrap().completed);
    });
    // The slot is free again.
    let third = plan(Transport::Tcp, address, bytes(DataDirection::Upload, 1, 1000));
    assert!(run_client(&third, &clock(), &Unobserved).completed);
    server.stop();
}

#[test]
fn requests_beyond_limits_are_refused_with_a_reason_and_limits_are_enforced() {
    let tight = ServerLimits {
        max_bytes: Some(1_000_000),
        max_duration: Duration::from_secs(5),
        ..ServerLimits::default()
    };
    let (server, address) = server(Transport::Tcp, tight);
    let ask = |parameters| run_client(&plan(Transport::Tcp, address, parameters), &clock(), &Unobserved);
    for parameters in
        [bytes(DataDirection::Upload, 1, 1_000_001), seconds(DataDirection::Download, Duration::from_secs(6))]
    {
        let error = ask(parameters).error;
        assert!(matches!(error, Some(ClientError::Refused { code: RefusalCode::Limit, .. })), "{error:?}");
    }
    let upload = ask(seconds(DataDirection::Upload, Duration::from_secs(2)));
    let error = upload.error.unwrap().to_string();
    assert!(!upload.completed && error.contains("more than the 1000000 bytes"), "{error}");
    let download = ask(seconds(DataDirection::Download, Duration::from_secs(2)));
    assert_eq!(download.client.deliveries.total_bytes(), 1_000_000);
    let error = download.error.unwrap().to_string();
    assert!(!download.completed && error.contains("its own limit"), "{error}");
    server.stop();
}

#[test]
fn the_record_of_a_test_can_be_fetched_afterwards_and_only_that() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let plan = plan(Transport::Tcp, address, bytes(DataDirection::Upload, 2, 3_000_000));
    let outcome = run_client(&plan, &clock(), &Unobserved);
    let fetched = fetch_record(&plan, true, &outcome.client, &clock()).unwrap();
    assert_eq!(Some(&fetched), outcome.server.as_ref());
    let unknown = EndRecord { test: common::random_id(), ..outcome.client };
    let error = fetch_record(&plan, true, &unknown, &clock()).unwrap_err();
    assert!(matches!(error, FetchError::NotFound { .. }), "{error}");
    // A test ID is valid for one test only.
    let again = run_client(&plan, &clock(), &Unobserved);
    assert!(matches!(again.error, Some(ClientError::Refused { code: RefusalCode::BadRequest, .. })));
    server.stop();
}

#[test]
fn records_are_forgotten_by_age_and_number() {
    let keep = ServerLimits { max_records: 2, keep_records_for: 300 * MS, ..ServerLimits::default() };
    let (server, address) = server(Transport::Tcp, keep);
    let plans: Vec<_> =
        (0..3).map(|_| plan(Transport::Tcp, address, bytes(DataDirection::Upload, 1, 1000))).collect();
    let outcomes: Vec<ClientOutcome> =
        plans.iter().map(|plan| run_client(plan, &clock(), &Unobserved)).collect();
    assert!(outcomes.iter().all(|outcome| outcome.completed));
    let found = |index: usize| fetch_record(&plans[index], true, &outcomes[index].client, &clock()).is_ok();
    assert!(found(2));
    assert!(!found(0));
    std::thread::sleep(400 * MS);
    assert!(!found(2));
    server.stop();
}

#[test]
fn a_client_with_many_tests_loses_its_own_records_first() {
    let (server, address) =
        server(Transport::Tcp, ServerLimits { max_records: 4, ..ServerLimits::default() });
    let run = |last_byte: u8| {
        let local = Some(std::net::Ipv4Addr::new(127, 0, 0, last_byte).into());
        let parameters = bytes(DataDirection::Upload, 1, 1000);
        let plan = ClientPlan { local, ..plan(Transport::Tcp, address, parameters) };
        let outcome = run_client(&plan, &clock(), &Unobserved);
        assert!(outcome.completed, "{:?}", outcome.error);
        (plan, outcome)
    };
    let modest = run(2);
    let greedy: Vec<_> = (0..6).map(|_| run(3)).collect();
    let found = |(plan, outcome): &(ClientPlan, ClientOutcome)| {
        fetch_record(plan, true, &outcome.client, &clock()).is_ok()
    };
    assert!(found(&modest), "the oldest of all, and the only one of its client");
    assert_eq!(greedy.iter().map(found).collect::<Vec<_>>(), [false, false, false, true, true, true]);
    server.stop();
}

#[test]
fn invalid_plans_are_reported_before_anything_is_sent() {
    // No process listens on the port of a stopped server.
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    server.stop();
    let outcome =
        run_client(&plan(Transport::Tcp, address, ThroughputParameters::default()), &clock(), &Unobserved);
    assert!(matches!(outcome.error, Some(ClientError::Unreachable { .. })), "{:?}", outcome.error);
    let none = ThroughputParameters { streams: 0, ..ThroughputParameters::default() };
    let outcome = run_client(&plan(Transport::Tcp, address, none), &clock(), &Unobserved);
    assert!(matches!(outcome.error, Some(ClientError::Plan { .. })), "{:?}", outcome.error);
    let mut odd = plan(Transport::Tcp, address, ThroughputParameters::default());
    odd.socket = SocketOptions { congestion: Some("no-such-thing".to_owned()), ..SocketOptions::default() };
    let outcome = run_client(&odd, &clock(), &Unobserved);
    assert!(matches!(outcome.error, Some(ClientError::Incapable { .. })), "{:?}", outcome.error);
    assert!(outcome.client.errors[0].contains("no-such-thing"), "{:?}", outcome.client.errors);
}

#[test]
fn a_server_reports_how_much_its_mptcp_counters_rose_during_the_test() {
    let reads = AtomicU64::new(5);
    let reader = move || {
        let value = reads.fetch_add(2, Ordering::Relaxed);
        Some(BTreeMap::from([("MPJoinSynRx".to_owned(), value), ("MPRstTx".to_owned(), 7)]))
    };
    let listeners = vec![(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)))];
    let options = ServerOptions {
        mptcp_counters: Some(CounterReader(Arc::new(reader))),
        ..ServerOptions::new(listeners)
    };
    let server = Server::start(options, clock()).unwrap();
    let plan = plan(Transport::Tcp, server.addresses()[0].1, bytes(DataDirection::Both, 1, 1000));
    let record = run_client(&plan, &clock(), &Unobserved).server.unwrap();
    let rose = BTreeMap::from([("MPJoinSynRx".to_owned(), 2), ("MPRstTx".to_owned(), 0)]);
    assert_eq!(record.mptcp_counters, Some(rose));
}

#[test]
fn a_server_without_a_reader_reports_no_counters() {
    let outcome = run(Transport::Tcp, bytes(DataDirection::Upload, 2, 1000));
    assert_eq!(outcome.server.unwrap().mptcp_counters, None);
}

#[test]
fn without_copies_every_byte_is_counted() {
    let small = ThroughputParameters { block_bytes: 1_000, ..bytes(DataDirection::Upload, 1, 100_001) };
    for (transport, parameters) in [
        (Transport::Tcp, bytes(DataDirection::Upload, 1, 50_000_001)),
        (Transport::Tcp, bytes(DataDirection::Both, 2, 30_000_003)),
        (Transport::Tcp, small),
        (Transport::Mptcp, bytes(DataDirection::Both, 1, 20_000_001)),
    ] {
        if transport == Transport::Mptcp && mptcp_available().is_err() {
            continue;
        }
        for (zero_copy, skip_receive_copy) in [(true, false), (false, true), (true, true)] {
            if transport == Transport::Mptcp && zero_copy {
                continue;
            }
            let asked = ThroughputParameters { zero_copy, skip_receive_copy, ..parameters.clone() };
            let Amount::Bytes(expected) = asked.amount else { unreachable!() };
            let ClientOutcome { client, server, .. } = run(transport, asked);
            let server = server.unwrap();
            assert_eq!(client.offered.total_bytes(), expected);
            assert_eq!(server.deliveries.total_bytes(), expected);
            assert_eq!(client.deliveries.total_bytes(), server.offered.total_bytes());
        }
    }
}

/// A peer that discards payload misses no wrong frame: `zero_copy` sends the frames that copying sends.
#[test]
fn sealed_pages_carry_the_bytes_of_the_block() {
    use pathbench_transport::{ConnectOptions, ListenOptions, Listener, SealedBytes, Session};
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::open(Transport::Tcp, address, &ListenOptions::default(), &clock()).unwrap();
    let options = ConnectOptions::new(listener.local_addr(), Duration::from_secs(5));
    let session = Session::new(Transport::Tcp, options, clock());
    let (sender, (receiver, _)) = (session.open().unwrap(), listener.accept().unwrap());
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let pages = SealedBytes::new(&bytes).unwrap();
    let mut found = vec![0; 100_000];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut from = 5;
            while from < bytes.len() {
                from += sender.send_sealed(&pages, &(from..bytes.len()), None).unwrap();
            }
        });
        let mut skipped = 0;
        while skipped < 150_000 {
            skipped += receiver.discard(150_000 - skipped, None).unwrap();
        }
        let mut filled = 0;
        while filled < found.len() {
            filled += receiver.receive(&mut found[filled..], None).unwrap();
        }
    });
    assert!(found == bytes[150_005..250_005]);
}

#[test]
fn options_that_cannot_be_fulfilled_are_refused_by_each_end() {
    let zero_copy = ThroughputParameters { zero_copy: true, ..bytes(DataDirection::Upload, 1, 1000) };
    let skip = ThroughputParameters { skip_receive_copy: true, ..bytes(DataDirection::Upload, 1, 1000) };
    let pinned = |client_processor, server_processor| ThroughputParameters {
        client_processor,
        server_processor,
        ..bytes(DataDirection::Upload, 1, 1000)
    };
    let unknown = Some(pathbench_record::pattern::MAX_PROCESSOR);
    let (server, address) = server(Transport::Mptcp, ServerLimits::default());
    for (transport, parameters, words) in [
        (Transport::Mptcp, zero_copy.clone(), "zero_copy over mptcp"),
        (Transport::Quic, zero_copy, "zero_copy over quic"),
        (Transport::Mpquic, skip, "skip_receive_copy over mpquic"),
        (Transport::Tcp, pinned(unknown, None), "client: processor 1023"),
    ] {
        let outcome = run_client(&plan(transport, address, parameters), &clock(), &Unobserved);
        let Some(ClientError::Incapable { message }) = &outcome.error else { panic!("{:?}", outcome.error) };
        assert!(message.contains(words), "{message}");
    }
    let parameters = pinned(None, unknown);
    let outcome = run_client(&plan(Transport::Tcp, address, parameters), &clock(), &Unobserved);
    let Some(ClientError::Refused { code: RefusalCode::Unsupported, message, .. }) = &outcome.error else {
        panic!("{:?}", outcome.error)
    };
    assert!(message.contains("server: processor 1023"), "{message}");
    let outcome = run_client(&plan(Transport::Tcp, address, pinned(Some(0), Some(0))), &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
    server.stop();
}
