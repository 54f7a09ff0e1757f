//! A relay between client and server that changes bytes, or drops all bytes silently from some time on.

use crate::common::{clock, next_frame, plan, random_id, send, server};
use pathbench_record::direction::Direction;
use pathbench_record::pattern::{BulkParameters, InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, Unobserved, fetch_record, run_client,
};
use pathbench_traffic::protocol::{ControlFrame, EndFrame, HEADER_BYTES, HelloFrame};
use pathbench_traffic::server::ServerLimits;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// The changes to the relayed bytes.
#[derive(Clone)]
struct Interference {
    /// Offset of a changed byte in the server's data on each connection.
    change: Option<u64>,
    /// Drops all bytes silently while set.
    black_hole: Arc<AtomicBool>,
}

/// Relays bytes from one socket to another until either end closes.
fn relay_bytes(mut from: TcpStream, mut to: TcpStream, change: Option<u64>, black_hole: &AtomicBool) {
    let mut buffer = vec![0; 65_536];
    let mut at: u64 = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if let Some(offset) = change
            && (at..at + count as u64).contains(&offset)
        {
            buffer[(offset - at) as usize] ^= 0x20;
        }
        at += count as u64;
        if !black_hole.load(Ordering::Relaxed) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Listens instead of the server. The threads end with the connections that they relay.
fn interpose(server: SocketAddr, interference: Interference) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(server) = TcpStream::connect(server) else { return };
            for (from, to, change) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap(), None),
                (server, client, interference.change),
            ] {
                let black_hole = Arc::clone(&interference.black_hole);
                // The relay adds no delay by Nagle's algorithm.
                from.set_nodelay(true).unwrap();
                to.set_nodelay(true).unwrap();
                std::thread::spawn(move || relay_bytes(from, to, change, &black_hole));
            }
        }
    });
    address
}

fn interference() -> Interference {
    Interference { change: None, black_hole: Arc::default() }
}

fn interactive(duration: Duration, linger: Duration) -> PatternParameters {
    PatternParameters::Interactive(InteractiveParameters {
        duration,
        linger,
        interval: 50 * MS,
        ..InteractiveParameters::default()
    })
}

fn broken(outcome: &ClientOutcome) -> &str {
    assert!(!outcome.completed);
    match &outcome.error {
        Some(ClientError::Broken { message }) => message,
        error => panic!("{error:?}"),
    }
}

#[test]
fn an_unmodified_relayed_connection_completes_like_a_direct_one() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let via = interpose(address, interference());
    let bulk = PatternParameters::Bulk(BulkParameters { bytes: 2_000_000, upload_bytes: 0, streams: 2 });
    for parameters in [bulk, interactive(300 * MS, 5000 * MS)] {
        let outcome = run_client(&plan(Transport::Tcp, via, parameters), &clock(), &Unobserved);
        assert!(outcome.completed, "{:?}", outcome.error);
    }
    server.stop();
}

#[test]
fn one_wrong_byte_of_a_download_fails_it_and_is_named() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let offset = 1_000_000;
    let via = interpose(address, Interference { change: Some(offset), ..interference() });
    let bulk = PatternParameters::Bulk(BulkParameters { bytes: 3_000_000, ..BulkParameters::default() });
    let outcome = run_client(&plan(Transport::Tcp, via, bulk), &clock(), &Unobserved);
    // ACCEPT and START precede the blocks of 128 KiB, each of which has a header.
    let header = HEADER_BYTES as u64;
    let begin = 2 * header;
    let offset = offset - begin - header * ((offset - begin) / (128 * 1024) + 1);
    let words = format!("byte {offset} of the stream is wrong");
    assert!(broken(&outcome).contains(&words), "{} instead of {words}", broken(&outcome));
    assert_eq!(outcome.client.deliveries.total_bytes(), offset, "only what was right was delivered");
    assert_eq!(outcome.client.fct, None);
    server.stop();
}

#[test]
fn a_wrong_byte_of_an_answer_fails_the_test_and_is_named() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    // ACCEPT and START; then answers of 8 + 100 bytes: the fourth byte of the content of the third.
    let via = interpose(address, Interference { change: Some(16 + 2 * 108 + 8 + 4 + 3), ..interference() });
    let parameters = PingParameters { response_bytes: 100, ..PingParameters::default() };
    let outcome =
        run_client(&plan(Transport::Tcp, via, PatternParameters::Ping(parameters)), &clock(), &Unobserved);
    let message = broken(&outcome);
    assert!(message.contains("ANSWER number 2") && message.contains("byte 3"), "{message}");
    // Two answers were correct, one of them the warm-up's; the third request was sent.
    let answered: Vec<bool> =
        outcome.client.messages.iter().map(|message| message.answered.is_some()).collect();
    assert_eq!(answered, [true, false]);
    server.stop();
}

/// Reports a test's first byte.
struct FirstByte(Mutex<Sender<()>>);

impl ClientObserver for FirstByte {
    fn on_first_byte(&self, _: Timestamp) {
        self.0.lock().unwrap().send(()).unwrap();
    }
}

/// Runs a test whose bytes are all dropped silently from a time `after` its first byte.
fn run_into_black_hole(plan: &ClientPlan, black_hole: &AtomicBool, after: Duration) -> ClientOutcome {
    let (begun, first_byte) = channel();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || run_client(plan, &clock(), &FirstByte(Mutex::new(begun))));
        first_byte.recv().unwrap();
        std::thread::sleep(after);
        black_hole.store(true, Ordering::Relaxed);
        running.join().unwrap()
    })
}

#[test]
fn a_dead_connection_ends_the_test_and_leaves_every_message_in_the_record() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let relay = interference();
    let black_hole = Arc::clone(&relay.black_hole);
    let via = interpose(address, relay);
    let plan =
        ClientPlan { patience: 1000 * MS, ..plan(Transport::Tcp, via, interactive(20_000 * MS, 5000 * MS)) };
    let outcome = run_into_black_hole(&plan, &black_hole, 700 * MS);
    let message = broken(&outcome);
    assert!(message.contains("hung") || message.contains("closed"), "{message}");
    assert!(outcome.hung.unwrap() >= 500 * MS, "{:?}", outcome.hung);
    let fetch = ClientPlan { server: address, ..plan };
    let fetched = fetch_record(&fetch, true, &outcome.client, &clock()).unwrap();
    for (end, flow) in [(&outcome.client, Direction::Upload), (&fetched, Direction::Download)] {
        let messages = &end.messages;
        assert!(!end.completed);
        let first = messages[0];
        assert!(first.acknowledged.is_some());
        // All messages due by the end, at fixed intervals; the last is unacknowledged.
        for (message, sequence) in messages.iter().zip(0_u32..) {
            assert_eq!((message.flow, message.sequence), (flow, sequence));
            assert_eq!(message.due, first.due + 50 * MS * sequence);
        }
        let late = messages.iter().filter(|message| message.acknowledged.is_none()).count();
        assert!(late >= 10, "{late} of {}", messages.len());
        assert!(messages.last().unwrap().acknowledged.is_none());
    }
    server.stop();
}

#[test]
fn pings_into_a_black_hole_count_as_lost() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let relay = interference();
    let black_hole = Arc::clone(&relay.black_hole);
    let via = interpose(address, relay);
    let parameters =
        PingParameters { count: 8, interval: 200 * MS, timeout: 100 * MS, ..PingParameters::default() };
    let plan =
        ClientPlan { patience: 1000 * MS, ..plan(Transport::Tcp, via, PatternParameters::Ping(parameters)) };
    let outcome = run_into_black_hole(&plan, &black_hole, 500 * MS);
    // END is dropped, too.
    assert!(!outcome.completed);
    assert_eq!(outcome.client.messages.len(), 8);
    let lost = outcome.client.messages.iter().filter(|message| message.answered.is_none()).count();
    assert!(lost >= 4, "{lost} lost");
    server.stop();
}

/// Regression: with data right behind START, the kernel of an MPTCP server lost what arrived on a joined subflow.
#[test]
fn a_client_sends_no_data_before_the_servers_start() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(matches!(next_frame(&mut stream), Some(ControlFrame::Hello(_))));
        send(&mut stream, &ControlFrame::Accept);
        assert_eq!(next_frame(&mut stream), Some(ControlFrame::Start));
        stream.set_read_timeout(Some(300 * MS)).unwrap();
        let early = stream.read(&mut [0]).map_err(|error| error.kind());
        send(&mut stream, &ControlFrame::Start);
        (early, next_frame(&mut stream))
    });
    let ping = PatternParameters::Ping(PingParameters::default());
    broken(&run_client(&plan(Transport::Tcp, address, ping), &clock(), &Unobserved));
    let (early, late) = server.join().unwrap();
    assert_eq!(early, Err(std::io::ErrorKind::WouldBlock));
    assert!(matches!(late, Some(ControlFrame::Message(_))), "{late:?}");
}

/// Regression: over quic, the data of the first stream held back the START of the others, and the client read nothing
/// until the data had ended.
#[test]
fn a_server_sends_no_data_before_every_stream_has_its_start() {
    let (server, address) = server(Transport::Tcp, ServerLimits::default());
    let request =
        r#"{"pattern":"bulk","transport":"tcp","patience_ms":9000,"parameters":{"bytes":1000,"streams":2}}"#;
    let test = random_id();
    let mut streams: Vec<TcpStream> = (0..2)
        .map(|index| {
            let mut stream = TcpStream::connect(address).unwrap();
            let hello = ControlFrame::Hello(HelloFrame::new(test, index, request.into()));
            send(&mut stream, &hello);
            stream
        })
        .collect();
    for stream in &mut streams {
        assert_eq!(next_frame(stream), Some(ControlFrame::Accept));
    }
    send(&mut streams[0], &ControlFrame::Start);
    assert_eq!(next_frame(&mut streams[0]), Some(ControlFrame::Start));
    streams[0].set_read_timeout(Some(300 * MS)).unwrap();
    let early = streams[0].read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(early, Err(std::io::ErrorKind::WouldBlock));
    send(&mut streams[1], &ControlFrame::Start);
    assert_eq!(next_frame(&mut streams[1]), Some(ControlFrame::Start));
    for stream in &mut streams {
        stream.set_read_timeout(Some(20_000 * MS)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    }
    drop(streams);
    server.stop();
}

/// Regression: over a lossy path, one lost START held up all streams of a client.
#[test]
fn a_late_start_of_one_stream_does_not_hold_up_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..2).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            assert!(matches!(next_frame(stream), Some(ControlFrame::Hello(_))));
            send(stream, &ControlFrame::Accept);
        }
        let end = ControlFrame::End(EndFrame { bytes: 0, elapsed_ns: 0, cut_short: false });
        streams[0]
            .write_all(&[ControlFrame::Start, end].map(|frame| frame.encode().unwrap()).concat())
            .unwrap();
        assert_eq!(next_frame(&mut streams[0]), Some(ControlFrame::Start));
        next_frame(&mut streams[0])
    });
    let bulk = PatternParameters::Bulk(BulkParameters { bytes: 1000, upload_bytes: 0, streams: 2 });
    broken(&run_client(&plan(Transport::Tcp, address, bulk), &clock(), &Unobserved));
    assert_eq!(server.join().unwrap(), Some(ControlFrame::Done { bytes: 0 }));
}

#[test]
fn many_streams_take_no_more_round_trips_than_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Accepts no stream before all HELLOs have arrived, as if each answer took longer than all requests.
    let server = std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..4).map(|_| listener.accept().unwrap().0).collect();
        let mut asked: Vec<u32> = streams
            .iter_mut()
            .map(|stream| match next_frame(stream) {
                Some(ControlFrame::Hello(hello)) => hello.stream,
                frame => panic!("{frame:?}"),
            })
            .collect();
        asked.sort_unstable();
        for stream in &mut streams {
            send(stream, &ControlFrame::Accept);
        }
        for stream in &mut streams {
            assert_eq!(next_frame(stream), Some(ControlFrame::Start));
            send(stream, &ControlFrame::Start);
        }
        asked
    });
    let bulk = PatternParameters::Bulk(BulkParameters { bytes: 1000, upload_bytes: 0, streams: 4 });
    let plan = ClientPlan { connect_timeout: 20_000 * MS, ..plan(Transport::Tcp, address, bulk) };
    // This server then stops.
    broken(&run_client(&plan, &clock(), &Unobserved));
    assert_eq!(server.join().unwrap(), [0, 1, 2, 3]);
}
