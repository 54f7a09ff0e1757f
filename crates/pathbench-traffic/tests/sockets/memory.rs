//! The memory of a server under hostile clients, compared with the bound of its limits.

#![allow(clippy::print_stdout, reason = "the server reports its addresses, the test the memory")]

use crate::common::{clock, random_id};
use pathbench_record::end::TestId;
use pathbench_record::transport::Transport;
use pathbench_traffic::protocol::{
    ControlFrame, DecodedEvent, Decoder, Fetch, HelloFrame, VERSION, data_header,
};
use pathbench_traffic::server::{Server, ServerLimits, ServerOptions};
use pathbench_transport::{ConnectOptions, Connection, Security, ServerIdentity, Session, Trust};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Set in the server's process.
const ROLE: &str = "PATHBENCH_MEMORY_SERVER";
const MIB: f64 = (1 << 20) as f64;

fn limits() -> ServerLimits {
    ServerLimits {
        max_tests: 2,
        max_tests_per_client: 2,
        max_connections: 96,
        max_connections_per_client: 96,
        max_streams: 16,
        max_duration: 5 * SECOND,
        max_patience: SECOND,
        handshake_timeout: 3 * SECOND,
        max_record_bytes: 4 << 20,
        ..ServerLimits::default()
    }
}

/// Runs the server until its standard input ends.
fn serve() {
    let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
    let fingerprint = identity.fingerprint();
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = ServerOptions {
        limits: limits(),
        identity: Some(identity.into()),
        sample_interval: MS,
        ..ServerOptions::new(vec![(Transport::Tcp, anywhere), (Transport::Mpquic, anywhere)])
    };
    let server = Server::start(options, clock()).unwrap();
    let addresses = server.addresses();
    println!("\nserving {} {} {fingerprint}", addresses[0].1, addresses[1].1);
    let _end = std::io::stdin().read(&mut [0]);
    drop(server);
}

/// A server in a separate process, so that its memory can be read separately.
struct Process {
    child: Child,
    _output: BufReader<ChildStdout>,
    tcp: SocketAddr,
    quic: SocketAddr,
    security: Security,
}

impl Process {
    fn start(test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("memory::{test}"), "--exact", "--nocapture"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let words: Vec<String> = loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server did not start");
            if line.starts_with("serving ") {
                break line.split_whitespace().map(str::to_owned).collect();
            }
        };
        let security = Security::Tls(Trust::Fingerprint(words[3].parse().unwrap()));
        let (tcp, quic) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        Self { child, _output: output, tcp, quic, security }
    }

    /// A figure of /proc/PID/status in bytes.
    fn status(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1024.0
    }

    fn session(&self, transport: Transport) -> Session {
        let (remote, security) = match transport {
            Transport::Tcp | Transport::Mptcp | Transport::Udp => (self.tcp, Security::Clear),
            Transport::Quic | Transport::Mpquic => (self.quic, self.security.clone()),
        };
        Session::new(
            transport,
            ConnectOptions { security, ..ConnectOptions::new(remote, 10 * SECOND) },
            clock(),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _closed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Connections, each with the beginning of a long HELLO and as many more bytes as the server accepts.
fn fill_connections(server: &Process, transport: Transport, count: usize, stop: &AtomicBool) {
    let hello = ControlFrame::Hello(HelloFrame::new(random_id(), 0, vec![b' '; 60_000])).encode().unwrap();
    while !stop.load(Ordering::Relaxed) {
        let sessions: Vec<Session> = (0..count).map(|_| server.session(transport)).collect();
        // Over QUIC, also a second stream of each connection.
        let opened = sessions.iter().chain(&sessions).filter_map(|session| session.open().ok());
        let held: Vec<Connection> = opened.collect();
        for connection in &held {
            let _refused = connection.send(&hello[..hello.len() - 1], Some(20 * MS));
            let _full = connection.send(&vec![b' '; 1 << 20], Some(5 * MS));
        }
        pause(stop, 2 * SECOND);
    }
}

/// The streams of an admitted and started test.
fn started(session: &Session, transport: Transport, direction: &str) -> Option<(TestId, Vec<Connection>)> {
    let (test, streams) = (random_id(), limits().max_streams);
    let request = format!(
        r#"{{"pattern":"throughput","transport":"{transport}","patience_ms":1000,"parameters":{{"direction":
            "{direction}","streams":{streams},"amount":{{"duration_ms":5000}},"block_bytes":4194304}}}}"#
    );
    let mut connections = Vec::new();
    for index in 0..streams {
        let connection = session.open().ok()?;
        let hello =
            ControlFrame::Hello(HelloFrame::new(test, index, request.clone().into_bytes())).encode().unwrap();
        connection.send(&hello, Some(SECOND)).ok()?;
        connections.push(connection);
    }
    for connection in &connections {
        (frame(connection)? == ControlFrame::Accept).then_some(())?;
    }
    for connection in &connections {
        connection.send(&ControlFrame::Start.encode().unwrap(), Some(SECOND)).ok()?;
        (frame(connection)? == ControlFrame::Start).then_some(())?;
    }
    Some((test, connections))
}

/// The next frame, read byte by byte.
fn frame(connection: &Connection) -> Option<ControlFrame> {
    let mut decoder = Decoder::new(1 << 16);
    let mut byte = [0];
    while connection.receive(&mut byte, Some(5 * SECOND)).ok()? == 1 {
        if let (_, Some(DecodedEvent::Frame(frame))) = decoder.decode(&byte).ok()? {
            return Some(frame);
        }
    }
    None
}

/// Downloads with a client that reads nothing and sends as much as the windows allow.
fn fill_windows(server: &Process, tests: &AtomicUsize, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let session = server.session(Transport::Mpquic);
        let Some((_, streams)) = started(&session, Transport::Mpquic, "download") else {
            pause(stop, 100 * MS);
            continue;
        };
        tests.fetch_add(1, Ordering::Relaxed);
        let junk = vec![7; 1 << 20];
        for _ in 0..20 {
            for stream in &streams {
                let _full = stream.send(&junk, Some(MS));
            }
            pause(stop, 200 * MS);
        }
    }
}

/// Uploads with as many samples, bins and silences as possible (a byte on each stream every 21 ms), then fetches of
/// their records that are not read.
fn fill_records(server: &Process, tests: &AtomicUsize, stop: &AtomicBool) {
    let mut fetching = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let session = server.session(Transport::Tcp);
        let Some((test, streams)) = started(&session, Transport::Tcp, "upload") else {
            pause(stop, 100 * MS);
            continue;
        };
        tests.fetch_add(1, Ordering::Relaxed);
        let header = data_header(1 << 20);
        for stream in &streams {
            let _closed = stream.send(&header, Some(SECOND));
        }
        for _ in 0..100 {
            for stream in &streams {
                let _closed = stream.send(&[0], Some(SECOND));
            }
            pause(stop, 21 * MS);
        }
        drop(streams);
        let fetch = ControlFrame::Fetch(Fetch { version: VERSION, test, end_test: true }).encode().unwrap();
        for transport in [Transport::Tcp, Transport::Quic] {
            let session = server.session(transport);
            for _ in 0..4 {
                let Ok(connection) = session.open() else { continue };
                let _closed = connection.send(&fetch, Some(SECOND));
                fetching.push_back(connection);
            }
        }
        while fetching.len() > 16 {
            fetching.pop_front();
        }
    }
}

fn pause(stop: &AtomicBool, time: Duration) {
    let clock = clock();
    let end = clock.now() + time;
    while !stop.load(Ordering::Relaxed) && clock.now() < end {
        thread::sleep(MS);
    }
}

type Load<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs all `loads` for `time`, each in a thread.
fn measure_under(time: Duration, stop: &AtomicBool, loads: Vec<Load<'_>>) {
    stop.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        for load in loads {
            scope.spawn(load);
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn hostile_clients_keep_a_server_within_its_memory_bound() {
    if std::env::var_os(ROLE).is_some() {
        return serve();
    }
    let server = Process::start("hostile_clients_keep_a_server_within_its_memory_bound");
    let idle = server.status("VmRSS");
    let (stop, tests) = (AtomicBool::new(false), AtomicUsize::new(0));

    // Without tests, so that their larger memory does not hide that of connections.
    let tcp = || fill_connections(&server, Transport::Tcp, 16, &stop);
    let quic = || fill_connections(&server, Transport::Mpquic, 32, &stop);
    measure_under(5 * SECOND, &stop, vec![Box::new(tcp), Box::new(quic)]);
    let growth = server.status("VmHWM") - idle;
    let bound = ServerLimits { max_tests: 0, ..limits() }.memory_bound(1).client_bytes as f64;
    println!("without tests: {:.0} MiB more, bound {:.0} MiB", growth / MIB, bound / MIB);
    assert!(growth > 5.0 * MIB, "connections took only {:.1} MiB", growth / MIB);
    assert!(growth < bound);

    let windows = || fill_windows(&server, &tests, &stop);
    let records = || fill_records(&server, &tests, &stop);
    measure_under(9 * SECOND, &stop, vec![Box::new(tcp), Box::new(windows), Box::new(records)]);
    let growth = server.status("VmHWM") - idle;
    let (bound, tests) = (limits().memory_bound(1), tests.into_inner());
    println!(
        "with {tests} tests: {:.0} MiB more, bound {:.0} MiB for a client and {:.0} MiB for the server",
        growth / MIB,
        bound.client_bytes as f64 / MIB,
        bound.server_bytes as f64 / MIB,
    );
    assert!(tests >= 2, "{tests} tests started");
    assert!(growth > 40.0 * MIB, "tests took only {:.0} MiB", growth / MIB);
    assert!(growth < bound.client_bytes as f64);
    assert!(server.status("VmHWM") < bound.server_bytes as f64);
}
