//! Peers that send garbage, become silent or disconnect cost the other end a limited time, and a record remains.

use crate::bodies::honest::record_by_hand;
use crate::common::{clock, next_frame, plan, random_id, send, server};
use pathbench_record::direction::DataDirection;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientError, FetchError, Unobserved, fetch_record, run_client};
use pathbench_traffic::protocol::{ControlFrame, HelloFrame, data_header};
use pathbench_traffic::server::ServerLimits;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// The HELLO of a hand-written client.
fn hello(test: TestId, direction: &str) -> HelloFrame {
    let request = format!(
        r#"{{"pattern":"throughput","transport":"tcp","patience_ms":60000,"parameters":{{
            "direction":"{direction}","streams":1,"amount":{{"bytes":1000000}},"block_bytes":131072}}}}"#
    );
    HelloFrame::new(test, 0, request.into_bytes())
}

/// A client whose test has begun.
fn started(server: SocketAddr, test: TestId, direction: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(&ControlFrame::Hello(hello(test, direction)).encode().unwrap()).unwrap();
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Accept));
    send(&mut stream, &ControlFrame::Start);
    assert_eq!(next_frame(&mut stream), Some(ControlFrame::Start));
    stream
}

fn assert_serves(server: SocketAddr) {
    let parameters =
        ThroughputParameters { amount: Amount::Bytes(100_000), ..ThroughputParameters::default() };
    let outcome = run_client(&plan(Transport::Tcp, server, parameters), &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
}

/// The server's record of a hand-written test.
fn fetched(
    server: SocketAddr,
    test: TestId,
    direction: &str,
    end_test: bool,
) -> Result<EndRecord, FetchError> {
    let HelloFrame { request, .. } = hello(test, direction);
    let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
    let throughput: ThroughputParameters = serde_json::from_value(request["parameters"].clone()).unwrap();
    let client = record_by_hand(test, throughput.into(), 50_000);
    let plan = plan(Transport::Tcp, server, client.parameters.clone());
    fetch_record(&plan, end_test, &client, &clock())
}

/// Whether the server closes (or resets) within `time` without sending.
fn closes_within(stream: &mut TcpStream, time: Duration) -> bool {
    stream.set_read_timeout(Some(time)).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn incoming_garbage_silent_peers_and_slow_writers_are_dropped() {
    let few = ServerLimits { handshake_timeout: 300 * MS, max_tests: 1, ..ServerLimits::default() };
    let (server, address) = server(Transport::Tcp, few);
    let mut browser = TcpStream::connect(address).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(closes_within(&mut browser, 3000 * MS));
    let mut endless = TcpStream::connect(address).unwrap();
    endless.write_all(&(1_u64 << 63).to_be_bytes()).unwrap();
    assert!(closes_within(&mut endless, 3000 * MS));
    let mut silent = TcpStream::connect(address).unwrap();
    assert!(closes_within(&mut silent, 3000 * MS));
    // Single bytes do not extend the time limit.
    let mut slow = TcpStream::connect(address).unwrap();
    let bytes = ControlFrame::Hello(hello(random_id(), "upload")).encode().unwrap();
    let gave_up = bytes.iter().take(30).any(|byte| {
        std::thread::sleep(50 * MS);
        slow.write_all(&[*byte]).is_err()
    });
    assert!(gave_up || closes_within(&mut slow, 3000 * MS));
    // Accepted but never started: the slot is free after the handshake time.
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(&ControlFrame::Hello(hello(random_id(), "upload")).encode().unwrap()).unwrap();
    assert_eq!(next_frame(&mut waiting), Some(ControlFrame::Accept));
    assert!(closes_within(&mut waiting, 3000 * MS));
    assert_serves(address);
    server.stop();
}

#[test]
fn requests_of_another_version_or_pattern_are_refused_with_a_reason() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let ours = hello(random_id(), "upload");
    let foreign = String::from_utf8(ours.request.clone()).unwrap().replace("throughput", "chat");
    let wrong = [
        (HelloFrame { version: 9, ..ours.clone() }, "version 9"),
        (HelloFrame { request: foreign.into_bytes(), ..ours.clone() }, "`chat`"),
        (HelloFrame { request: b"nonsense".to_vec(), ..ours.clone() }, "malformed"),
        (HelloFrame { stream: 1, ..ours }, "stream 1 of a test of 1"),
    ];
    for (hello, words) in wrong {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&ControlFrame::Hello(hello).encode().unwrap()).unwrap();
        let Some(ControlFrame::Refuse(refusal)) = next_frame(&mut stream) else { panic!("not refused") };
        assert!(refusal.message.contains(words), "{}", refusal.message);
    }
    assert_serves(address);
    server.stop();
}

#[test]
fn excess_connections_are_closed_and_the_others_continue() {
    let (server, address) = server(
        Transport::Tcp,
        ServerLimits { max_connections: 2, handshake_timeout: 600 * MS, ..ServerLimits::default() },
    );
    let _first = TcpStream::connect(address).unwrap();
    let _second = TcpStream::connect(address).unwrap();
    std::thread::sleep(100 * MS);
    let mut third = TcpStream::connect(address).unwrap();
    assert!(closes_within(&mut third, 400 * MS));
    std::thread::sleep(1000 * MS);
    assert_serves(address);
    server.stop();
}

#[test]
fn a_client_that_disconnects_silently_leaves_a_record_and_its_slot() {
    let (server, address) = server(Transport::Tcp, ServerLimits { max_tests: 1, ..ServerLimits::default() });
    let test = random_id();
    let mut stream = started(address, test, "upload");
    stream.write_all(&data_header(50_000)).unwrap();
    stream.write_all(&vec![1; 30_000]).unwrap();
    drop(stream);
    // Sleeps first: the fetch could arrive before the server notices that the client has disconnected.
    let record = (0..100).find_map(|_| {
        std::thread::sleep(50 * MS);
        fetched(address, test, "upload", false).ok()
    });
    let record = record.unwrap();
    assert!(!record.completed);
    assert_eq!(record.deliveries.total_bytes(), 30_000);
    assert!(record.errors[0].contains("closed the connection"), "{:?}", record.errors);
    assert!(record.streams[0].hung_ns.is_some());
    assert_serves(address);
    server.stop();
}

#[test]
fn a_test_that_the_client_gave_up_can_be_ended_and_fetched_over_another_connection() {
    let (server, address) = server(Transport::Tcp, ServerLimits { max_tests: 1, ..ServerLimits::default() });
    for direction in ["upload", "download", "both"] {
        let test = random_id();
        // The client neither sends nor reads: a path that failed silently.
        let _stalled = started(address, test, direction);
        std::thread::sleep(150 * MS);
        let error = fetched(address, test, direction, false).unwrap_err().to_string();
        assert!(error.contains("still runs"), "{error}");
        let record = fetched(address, test, direction, true).unwrap();
        assert!(!record.completed, "{direction}");
        assert!(record.errors[0].contains("aborted"), "{:?}", record.errors);
        assert!(!record.samples.is_empty());
        assert_serves(address);
    }
    server.stop();
}

/// A server that accepts a test and then neither reads nor writes.
fn stalled_server() -> (SocketAddr, std::thread::JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(matches!(next_frame(&mut stream), Some(ControlFrame::Hello(_))));
        for frame in [ControlFrame::Accept, ControlFrame::Start] {
            send(&mut stream, &frame);
        }
        stream
    });
    (address, thread)
}

#[test]
fn a_test_without_progress_ends_after_its_patience_and_records_the_silence() {
    for direction in DataDirection::ALL {
        let (address, thread) = stalled_server();
        let parameters = ThroughputParameters {
            direction,
            amount: Amount::Duration(Duration::from_secs(20)),
            ..ThroughputParameters::default()
        };
        let mut plan = plan(Transport::Tcp, address, parameters);
        plan.patience = 600 * MS;
        let outcome = run_client(&plan, &clock(), &Unobserved);
        assert!(!outcome.completed && outcome.server.is_none());
        let hung = outcome.hung.unwrap();
        assert!(hung >= 300 * MS && hung < 5000 * MS, "{direction:?}: {hung:?}");
        let Some(ClientError::Broken { message }) = outcome.error else { panic!("{:?}", outcome.error) };
        assert!(message.contains("hung"), "{message}");
        drop(thread.join());
    }
}

#[test]
fn a_server_of_another_protocol_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        stream
    });
    let outcome =
        run_client(&plan(Transport::Tcp, address, ThroughputParameters::default()), &clock(), &Unobserved);
    assert!(matches!(outcome.error, Some(ClientError::Handshake { .. })), "{:?}", outcome.error);
    drop(thread.join());
}

#[test]
fn a_server_that_stops_ends_the_test_at_once() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let client = std::thread::spawn(move || {
        let parameters = ThroughputParameters {
            amount: Amount::Duration(Duration::from_secs(20)),
            ..ThroughputParameters::default()
        };
        run_client(&plan(Transport::Tcp, address, parameters), &clock(), &Unobserved)
    });
    std::thread::sleep(300 * MS);
    server.stop();
    let outcome = client.join().unwrap();
    assert!(!outcome.completed);
    assert!(outcome.client.offered.total_bytes() > 0);
    let span = outcome.client.ended.duration_since(outcome.client.started);
    assert!(span < Duration::from_secs(5), "{span:?}");
}
