//! Falsified records, and clients that fetch records repeatedly, do not harm the other end.

use crate::bodies::honest::record_by_hand;
use crate::common::{clock, next_frame, plan, random_id, send, server};
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::{BulkParameters, PatternParameters};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{
    ClientError, ClientOutcome, ClientPlan, FetchError, Unobserved, fetch_record, run_client,
};
use pathbench_traffic::protocol::{
    ControlFrame, EndFrame, Fetch, HelloFrame, RefusalCode, VERSION, data_header,
};
use pathbench_traffic::server::{Server, ServerLimits, ServerOptions};
use pathbench_transport::SocketOptions;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const BYTES: u64 = 1000;

fn download() -> PatternParameters {
    PatternParameters::Bulk(BulkParameters { bytes: BYTES, ..BulkParameters::default() })
}

/// A small hand-written download up to the server's record.
fn tiny_test(server: SocketAddr, test: TestId) -> (TcpStream, Vec<u8>) {
    let request = json!({
        "pattern": "bulk", "transport": "tcp", "patience_ms": 1000,
        "parameters": { "bytes": BYTES, "streams": 1 },
    });
    let mut stream = TcpStream::connect(server).unwrap();
    send(&mut stream, &ControlFrame::Hello(HelloFrame::new(test, 0, request.to_string().into_bytes())));
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Accept));
    send(&mut stream, &ControlFrame::Start);
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Start));
    assert!(matches!(next_frame(&mut stream), Some(ControlFrame::End(EndFrame { bytes: BYTES, .. }))));
    send(&mut stream, &ControlFrame::Done { bytes: BYTES });
    match next_frame(&mut stream) {
        Some(ControlFrame::Record(json)) => (stream, json),
        other => panic!("{other:?}"),
    }
}

fn ask_for(server: SocketAddr, test: TestId) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    send(&mut stream, &ControlFrame::Fetch(Fetch { version: VERSION, test, end_test: false }));
    stream
}

#[test]
fn a_falsified_client_record_does_not_affect_the_server() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let test = random_id();
    let (mut stream, json) = tiny_test(address, test);
    // The record of a client with bins 584 years after its start.
    let mut record: Value = serde_json::from_slice(&json).unwrap();
    record["side"] = "client".into();
    record["started"] = 0.into();
    record["deliveries"]["origin"] = u64::MAX.into();
    let _ = stream.write_all(&ControlFrame::Record(record.to_string().into_bytes()).encode().unwrap());
    std::thread::sleep(200 * MS);
    let Some(ControlFrame::Record(kept)) = next_frame(&mut ask_for(address, test)) else {
        panic!("no record")
    };
    let record = record_by_hand(test, download(), 0);
    let kept: EndRecord = serde_json::from_slice(&kept).unwrap();
    assert_eq!((kept.test, kept.offered.total_bytes()), (record.test, BYTES));
    assert!(run_client(&plan(Transport::Tcp, address, download()), &clock(), &Unobserved).completed);
    server.stop();
}

/// Serves one download on one connection and its record changed by `in_band`; then answers FETCH with `fetched`.
fn lying_server(in_band: fn(&mut Value), fetched: fn(&mut Value)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut honest = Value::Null;
        while let Ok((mut stream, _)) = listener.accept() {
            match next_frame(&mut stream) {
                Some(ControlFrame::Hello(hello)) => {
                    honest = serve_download(&mut stream, &hello);
                    let mut record = honest.clone();
                    in_band(&mut record);
                    send(&mut stream, &ControlFrame::Record(record.to_string().into_bytes()));
                    let _ = stream.read(&mut [0]);
                }
                Some(ControlFrame::Fetch(_)) => {
                    let mut record = honest.clone();
                    fetched(&mut record);
                    send(&mut stream, &ControlFrame::Record(record.to_string().into_bytes()));
                    let _ = stream.read(&mut [0]);
                }
                _ => return,
            }
        }
    });
    address
}

/// Runs an honest server and returns its record.
fn serve_download(stream: &mut TcpStream, hello: &HelloFrame) -> Value {
    use pathbench_traffic::content::{Content, ContentKind};
    let started = clock().now();
    send(stream, &ControlFrame::Accept);
    assert_eq!(next_frame(stream), Some(ControlFrame::Start));
    send(stream, &ControlFrame::Start);
    let mut data = vec![0; BYTES as usize];
    Content::new(hello.test, 0, ContentKind::Download).fill(0, &mut data);
    stream.write_all(&data_header(BYTES as u32)).unwrap();
    stream.write_all(&data).unwrap();
    send(stream, &ControlFrame::End(EndFrame { bytes: BYTES, elapsed_ns: 0, cut_short: false }));
    let _ = next_frame(stream);
    let now = clock().now();
    let mut record = serde_json::to_value(record_by_hand(hello.test, download(), BYTES)).unwrap();
    record["side"] = "server".into();
    record["started"] = started.as_nanos().into();
    record["deliveries"]["origin"] = record["started"].clone();
    record["offered"]["origin"] = record["started"].clone();
    record["offered"]["bytes"] = json!([BYTES]);
    record["offered"]["first"] = record["started"].clone();
    record["offered"]["last"] = record["started"].clone();
    record["ended"] = now.as_nanos().into();
    record["completed"] = true.into();
    record["streams"][0]["completed"] = true.into();
    record
}

fn run_against(in_band: fn(&mut Value)) -> (ClientPlan, ClientOutcome) {
    let plan = plan(Transport::Tcp, lying_server(in_band, |_| {}), download());
    let outcome = run_client(&plan, &clock(), &Unobserved);
    assert_eq!(outcome.client.deliveries.total_bytes(), BYTES, "the client's own record stands");
    assert!(outcome.client.completed);
    (plan, outcome)
}

#[test]
fn a_valid_server_record_is_accepted() {
    let (plan, outcome) = run_against(|_| {});
    assert!(outcome.completed, "{:?}", outcome.error);
    assert!(fetch_record(&plan, true, &outcome.client, &clock()).is_ok());
}

type Change = fn(&mut Value);

/// Falsified fields of a server's record, and the client's error for each.
const FALSIFIED_FIELDS: [(Change, &str); 16] = [
    (|record| record["deliveries"]["origin"] = u64::MAX.into(), "deliveries.origin"),
    (|record| record["started"] = 0.into(), "started"),
    (|record| record["ended"] = u64::MAX.into(), "started"),
    (|record| record["offered"]["bytes"] = json!(vec![0; 4_000_000]), "offered.bytes.length"),
    (|record| record["offered"]["bytes"] = json!([u64::MAX, u64::MAX]), "offered.bytes"),
    (|record| record["offered"]["last"] = u64::MAX.into(), "offered.last"),
    (|record| record["streams"][0]["received_bytes"] = 1.into(), "streams[0].received_bytes"),
    (|record| record["streams"][0]["sent_bytes"] = u64::MAX.into(), "streams[0].sent_bytes"),
    (|record| record["streams"][0]["stream"] = 1.into(), "streams[0].stream"),
    (|record| record["streams"] = json!([record["streams"][0], record["streams"][0]]), "streams[1].stream"),
    (|record| record["side"] = "client".into(), "side"),
    (|record| record["test"] = "0".repeat(32).into(), "test"),
    (|record| record["parameters"]["parameters"]["bytes"] = 7.into(), "parameters"),
    (
        |record| record["path_events"] = json!(vec![json!({"at": 0, "kind": "path-opened"}); 5000]),
        "path_events",
    ),
    (|record| record["errors"] = json!(["\u{1b}]0;owned\u{7}"]), "errors[0]"),
    (|record| record["errors"] = json!(["x".repeat(2000)]), "errors[0].length"),
];

#[test]
fn a_falsified_server_record_is_refused_by_field_and_the_client_record_remains() {
    for (falsify, field) in FALSIFIED_FIELDS {
        let (_, outcome) = run_against(falsify);
        assert!(!outcome.completed && outcome.server.is_none(), "{field}");
        let Some(ClientError::Broken { message }) = outcome.error else { panic!("{:?}", outcome.error) };
        assert!(message.contains(field), "{field}: {message}");
        assert!(message.len() < 600 && !message.chars().any(char::is_control), "{message}");
    }
}

#[test]
fn a_falsified_fetched_record_is_refused_by_field() {
    let address = lying_server(|_| {}, |record| record["ended"] = 0.into());
    let plan = plan(Transport::Tcp, address, download());
    let outcome = run_client(&plan, &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
    let error = fetch_record(&plan, true, &outcome.client, &clock()).unwrap_err();
    assert!(matches!(&error, FetchError::Invalid(invalid) if invalid.field == "started"), "{error}");
}

#[test]
fn fetches_of_a_record_are_rate_limited() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let test = random_id();
    drop(tiny_test(address, test));
    let answers: Vec<_> = (0..12).map(|_| next_frame(&mut ask_for(address, test))).collect();
    let records = answers.iter().filter(|answer| matches!(answer, Some(ControlFrame::Record(_)))).count();
    // One more record for every five seconds on a slow host.
    assert!((8..=10).contains(&records), "{records}");
    let Some(Some(ControlFrame::Refuse(refusal))) = answers.last() else { panic!("{:?}", answers.last()) };
    assert_eq!(refusal.code, RefusalCode::Busy);
    assert!(refusal.retry_after_ms.unwrap() <= 25_000, "{refusal:?}");
    // An unknown test has no record, for any number of fetches.
    assert!((0..20).all(|_| next_frame(&mut ask_for(address, random_id())) == Some(ControlFrame::NotFound)));
    server.stop();
}

#[test]
fn slow_readers_of_a_record_are_disconnected_and_limited_in_number() {
    let short_timeout = ServerLimits { handshake_timeout: 1500 * MS, ..ServerLimits::default() };
    let small = SocketOptions { send_buffer_bytes: Some(4096), ..SocketOptions::default() };
    let options = ServerOptions {
        limits: short_timeout,
        socket: small,
        // Many samples make a record larger than any buffer.
        sample_interval: MS,
        ..ServerOptions::new(vec![(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, clock()).unwrap();
    let address = server.addresses()[0].1;
    let upload = pathbench_record::pattern::ThroughputParameters {
        amount: pathbench_record::pattern::Amount::Duration(1500 * MS),
        rate_bps: Some(1_000_000),
        ..pathbench_record::pattern::ThroughputParameters::default()
    };
    let plan = plan(Transport::Tcp, address, upload);
    let outcome = run_client(&plan, &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
    let mut slow_readers: Vec<TcpStream> = (0..4)
        .map(|_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_recv_buffer_size(2048).unwrap();
            socket.connect(&address.into()).unwrap();
            let mut stream = TcpStream::from(socket);
            send(
                &mut stream,
                &ControlFrame::Fetch(Fetch { version: VERSION, test: plan.test, end_test: false }),
            );
            stream
        })
        .collect();
    std::thread::sleep(300 * MS);
    let Some(ControlFrame::Refuse(refusal)) = next_frame(&mut ask_for(address, plan.test)) else {
        panic!("a fifth reader is served beside four")
    };
    assert_eq!(refusal.code, RefusalCode::Busy);
    // Slow reading does not extend the limit: at 64 KiB/s the record takes at most 30 s; these have 1.5 s.
    let begun = clock().now();
    let mut byte = [0];
    for slow_reader in &mut slow_readers {
        slow_reader.set_read_timeout(Some(10 * MS)).unwrap();
    }
    while server.status().connections > 0 && clock().now().duration_since(begun) < Duration::from_secs(60) {
        for slow_reader in &mut slow_readers {
            let _ = slow_reader.read(&mut byte);
        }
        std::thread::sleep(20 * MS);
    }
    assert!(clock().now().duration_since(begun) < Duration::from_secs(45), "slow_readers remain admitted");
    server.stop();
}

/// Number of threads of this process that sample.
fn samplers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "sampler").count()
}

#[test]
fn a_long_sample_interval_leaves_no_thread_behind() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    for _ in 0..40 {
        let server_sample_interval = Some(Duration::from_secs(3600));
        let plan = ClientPlan { server_sample_interval, ..plan(Transport::Tcp, address, download()) };
        assert!(run_client(&plan, &clock(), &Unobserved).completed);
    }
    // Tests that run at the same time have few sampler threads.
    let gone = (0..50).any(|_| {
        std::thread::sleep(100 * MS);
        samplers() < 25
    });
    assert!(gone, "{} threads sample", samplers());
    server.stop();
}
