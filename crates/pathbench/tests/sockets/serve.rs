//! `pathbench serve` as seen by its operator and its clients, over loopback, on free ports.

use crate::support;
use crate::support::{Finished, Workplace, captured, processes, within};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// Timeout of each wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and its announcement.
pub(crate) struct Serving {
    child: Child,
    announcement: Value,
}

impl Serving {
    pub(crate) fn start(work: &Workplace, arguments: &[&str]) -> Self {
        let all = [&["serve", "--json", "--port", "0"], arguments].concat();
        let mut child = captured(&mut work.pathbench(&all));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(announcement) = serde_json::from_str(&line) else {
            let finished = support::ended(child);
            panic!("no announcement: {finished:#?}");
        };
        Self { child, announcement }
    }

    /// The server's tcp port.
    pub(crate) fn port(&self) -> u16 {
        let listening = self.announcement["listening"].as_array().unwrap();
        let address = listening[0]["address"].as_str().unwrap();
        address.parse::<SocketAddr>().unwrap().port()
    }

    pub(crate) fn fingerprint(&self) -> &str {
        self.announcement["fingerprint"].as_str().unwrap()
    }

    /// A quick test against this server, with additional `options`.
    fn test(&self, work: &Workplace, server: &str, options: &[&str]) -> Finished {
        let fixed = ["test", server, "--fingerprint", self.fingerprint(), "--quiet", "--json", "--no-report"];
        work.run(&[&fixed[..], QUICK, options].concat())
    }

    fn signal(&self, signal: Signal) {
        processes::signal(i32::try_from(self.child.id()).unwrap(), signal);
    }

    /// Waits for its end.
    fn finish(mut self) -> Finished {
        assert!(within(PATIENCE, || self.child.try_wait().unwrap().is_some()), "it does not end");
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        Finished { code, stdout: String::new(), stderr }
    }

    /// Ends the server with SIGTERM.
    pub(crate) fn stop(self) -> Finished {
        self.signal(Signal::TERM);
        self.finish()
    }
}

/// One short run.
const QUICK: &[&str] = &["--patterns", "ping", "--transports", "tcp", "--repeat", "1"];

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

#[test]
fn the_announced_client_command_works() {
    let work = Workplace::new();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1"]);
    let command = server.announcement["command"].as_str().unwrap().to_owned();
    assert!(command.contains(&format!("127.0.0.1:{}", server.port())), "{command}");
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let measured = work.run(&[&words[..], QUICK, &["--quiet", "--json", "--no-report"]].concat()).expect(0);
    let document = document(&measured);
    assert_eq!(document["runs"].as_array().unwrap().len(), 1, "{document}");
    assert_eq!(document["runs"][0]["completed"], true, "{document}");
    let finished = server.stop().expect(0);
    assert!(
        finished.stderr.contains(r#""event":"started""#) && finished.stderr.contains(r#""event":"ended""#)
    );
    // The log contains no client address.
    assert!(!finished.stderr.contains("127.0.0.1"), "{}", finished.stderr);
}

#[test]
fn every_transport_is_served_on_ipv4_and_ipv6() {
    let work = Workplace::new();
    let second = free_udp_port().to_string();
    let server = Serving::start(&work, &["--open", "--log-clients", "--quic-port", &second]);
    let mut places = vec![format!("127.0.0.1:{}", server.port())];
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        places.push(format!("[::1]:{}", server.port()));
    }
    for place in places {
        let measured =
            server.test(&work, &place, &["--transports", "tcp,quic", "--tls", "--quic-port", &second]);
        let document = document(&measured.expect(0));
        let runs = document["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2, "{document}");
        for run in runs {
            assert_eq!(run["completed"], true, "{run}");
            assert_eq!(run["encrypted"], true, "{run}");
        }
    }
    let finished = server.stop().expect(0);
    assert!(finished.stderr.contains("127.0.0.1:"), "{}", finished.stderr);
}

/// Nothing is measured against a server that is not the expected one, and nothing is sent to it in clear text.
#[test]
fn a_server_without_the_right_certificate_is_not_tested() {
    let work = Workplace::new();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1"]);
    let place = format!("127.0.0.1:{}", server.port());
    let other = "ab".repeat(32);
    let one_name = ["--certificate-name", "elsewhere.example"];
    let cases: [&[&str]; 6] = [
        &[],
        &["--fingerprint", &other],
        &["--fingerprint", &other, "--transports", "tcp"],
        &["--token", "some-token", "--transports", "tcp"],
        &[&one_name[..], &["--transports", "tcp"]].concat(),
        &["--transports", "quic"],
    ];
    for options in cases {
        let test = ["test", &place, "--quiet", "--out", "none", "--patterns", "ping", "--repeat", "1"];
        let refused = work.run(&[&test[..], options].concat()).expect(3);
        let stderr = refused.stderr.trim().to_owned();
        refused.reports(&["not the expected server", "--fingerprint"]);
        assert_eq!(stderr.matches("not the expected server").count(), 1, "{stderr}");
        assert!(!work.path().join("none").exists(), "{options:?}");
    }
    // Who asks for clear text without a secret gets it.
    let clear = ["test", &place, "--quiet", "--out", "clear", "--no-report", "--patterns", "ping"];
    work.run(&[&clear[..], &["--transports", "tcp", "--repeat", "1"]].concat()).expect(0);
    // As an agent calls it: the checked address, and the name that the certificate must have.
    let made = ["serve", "certificate", "--cert", "c.pem", "--key", "k.pem", "elsewhere.example"];
    work.run(&made).expect(0);
    let named =
        Serving::start(&work, &["--open", "--listen", "127.0.0.1", "--cert", "c.pem", "--key", "k.pem"]);
    let place = format!("127.0.0.1:{}", named.port());
    let test = ["test", &place, "--ca", "c.pem", "--quiet", "--json", "--no-report"];
    let all = ["--patterns", "ping", "--repeat", "1", "--transports", "tcp,quic"];
    let measured = work.run(&[&test[..], &one_name, &all].concat()).expect(0);
    assert_eq!(document(&measured)["runs"].as_array().unwrap().len(), 2);
    work.run(&[&test[..], &all].concat()).expect(3).reports(&["not the expected server"]);
    let finished = server.stop().expect(0);
    // Those of the one command that was not refused: two pings, a comparison of the clocks, and the measurement.
    assert_eq!(finished.stderr.matches(r#""event":"started""#).count(), 4, "{}", finished.stderr);
}

fn free_udp_port() -> u16 {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn tokens_are_made_and_asked_for() {
    let work = Workplace::new();
    work.run(&["serve", "key", "tokens.key"]).expect(0);
    let secret =
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(work.path().join("tokens.key")).unwrap());
    assert_eq!(secret & 0o777, 0o600);
    work.run(&["serve", "key", "tokens.key"]).expect(2).reports(&["does not overwrite"]);
    let mint = |valid: &str| {
        let made = work.run(&["serve", "token", "--key", "tokens.key", "--valid", valid, "--name", "alice"]);
        made.expect(0).stdout.trim().to_owned()
    };
    let (token, brief) = (mint("1h"), mint("1s"));
    work.run(&["serve", "key", "other.key"]).expect(0);
    let foreign = work.run(&["serve", "token", "--key", "other.key"]).expect(0).stdout.trim().to_owned();
    let given_away = mint("1h");
    let revoked = work.path().join("revoked");
    std::fs::write(&revoked, "# tokens\n0123456789abcdef # lost\n").unwrap();
    let options = ["--listen", "127.0.0.1", "--token-key", "tokens.key", "--revoked", "revoked"];
    let server = Serving::start(&work, &options);
    let place = format!("127.0.0.1:{}", server.port());
    server.test(&work, &place, &["--token", &given_away]).expect(0);
    std::fs::write(&revoked, format!("{given_away}\n")).unwrap();
    let is_refused = (0..30).any(|_| {
        std::thread::sleep(Duration::from_millis(500));
        server.test(&work, &place, &["--token", &given_away]).stderr.contains("was revoked")
    });
    assert!(is_refused, "revoked while the server runs");
    server.test(&work, &place, &["--token", &token]).expect(0);
    server.test(&work, &place, &[]).expect(4).reports(&["requires a token"]);
    server.test(&work, &place, &["--token", &foreign]).expect(4).reports(&["did not issue this token"]);
    server.test(&work, &place, &["--token", "rubbish"]).expect(4).reports(&["not a token"]);
    std::thread::sleep(Duration::from_millis(2100));
    server.test(&work, &place, &["--token", &brief]).expect(4).reports(&["expired"]);
    let finished = server.stop().expect(0);
    assert!(finished.stderr.contains(r#""code":"access""#), "{}", finished.stderr);
    assert!(!finished.stderr.contains(&token) && !finished.stderr.contains(&brief));
}

#[test]
fn mistakes_are_reported_before_anything_listens() {
    let work = Workplace::new();
    work.run(&["serve"]).expect(2).reports(&["--token-key", "--open"]);
    work.run(&["serve", "--open", "--token-key", "x"]).expect(2);
    work.run(&["serve", "--token-key", "/nonexistent"]).expect(2).reports(&["/nonexistent"]);
    std::fs::write(work.path().join("weak.key"), "secret\n").unwrap();
    std::fs::write(work.path().join("revoked"), "# none\nmallory\n").unwrap();
    work.run(&["serve", "key", "strong.key"]).expect(0);
    let wrong = ["serve", "--token-key", "strong.key", "--revoked", "revoked"];
    work.run(&wrong).expect(2).reports(&["revoked, line 2", "serial number"]);
    work.run(&["serve", "--token-key", "weak.key"]).expect(2).reports(&["weak.key", "at least 32"]);
    work.run(&["serve", "--open", "--cert", "c.pem"]).expect(2);
    work.run(&["serve", "--open", "--cert", "c.pem", "--key", "k.pem"]).expect(2).reports(&["c.pem"]);
    work.run(&["serve", "--open", "--listen", "localhost"]).expect(2).reports(&["not an IP address"]);
    // No host has an address of TEST-NET-1 (RFC 5737).
    work.run(&["serve", "--open", "--listen", "192.0.2.1"])
        .expect(2)
        .reports(&["192.0.2.1", "not an address"]);
    work.run(&["serve", "--open", "--max-rate", "1kbit"]).expect(2).reports(&["1mbit"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let work = Workplace::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = work.run(&["serve", "--open", "--listen", "127.0.0.1", "--port", &port]);
    refused.expect(1).reports(&[&format!("127.0.0.1:{port}"), "is in use"]);
}

#[test]
fn a_certificate_that_is_kept_has_the_same_fingerprint_at_each_start() {
    let work = Workplace::new();
    let made =
        work.run(&["serve", "certificate", "--cert", "c.pem", "--key", "k.pem", "server.test"]).expect(0);
    let start = || {
        let arguments = ["--open", "--listen", "127.0.0.1", "--cert", "c.pem", "--key", "k.pem"];
        let server = Serving::start(&work, &arguments);
        let fingerprint = server.fingerprint().to_owned();
        assert_eq!(server.announcement["certificate_generated"], false);
        server.stop().expect(0);
        fingerprint
    };
    let (first, second) = (start(), start());
    assert_eq!(first, second);
    assert!(made.stdout.contains(&first), "{}", made.stdout);
}

fn get_health(address: SocketAddr) -> Option<(String, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.lines().next()?.to_owned(), serde_json::from_str(body).ok()?))
}

/// A client whose test has no end: an upload that sends no further frame.
fn endless_test(port: u16) -> TcpStream {
    use pathbench_record::end::TestId;
    use pathbench_traffic::protocol::{ControlFrame, HelloFrame};
    let request = br#"{"pattern":"throughput","transport":"tcp","patience_ms":20000,"parameters":{
        "direction":"upload","streams":1,"amount":{"duration_ms":5000},"block_bytes":131072}}"#;
    let mut id = [0; 16];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut id).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(&ControlFrame::Hello(HelloFrame::new(TestId(id), 0, request.to_vec())).encode().unwrap())
        .unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer.to_vec(), ControlFrame::Accept.encode().unwrap());
    stream.write_all(&ControlFrame::Start.encode().unwrap()).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer.to_vec(), ControlFrame::Start.encode().unwrap());
    stream
}

#[test]
fn a_stopped_server_finishes_its_tests_and_refuses_new_ones() {
    let work = Workplace::new();
    let health = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1", "--health", &health.to_string()]);
    let place = format!("127.0.0.1:{}", server.port());
    let (status, idle) = get_health(health).unwrap();
    assert!(status.contains("200") && idle["status"] == "ok" && idle["tests"] == 0, "{status} {idle}");
    let running = endless_test(server.port());
    assert!(within(PATIENCE, || get_health(health).is_some_and(|(_, now)| now["tests"] == 1)));
    server.signal(Signal::TERM);
    let draining =
        || get_health(health).is_some_and(|(line, now)| line.contains("503") && now["status"] == "draining");
    assert!(within(PATIENCE, draining));
    server.test(&work, &place, &[]).expect(4).reports(&["shutting down"]);
    assert_eq!(get_health(health).unwrap().1["tests"], 1);
    drop(running);
    let finished = server.finish().expect(0);
    assert!(finished.stderr.contains("waiting for the end of 1"), "{}", finished.stderr);
}

#[test]
fn a_second_signal_ends_running_tests() {
    let work = Workplace::new();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1"]);
    let mut running = endless_test(server.port());
    server.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(500));
    let begun = now();
    server.signal(Signal::INT);
    server.finish().expect(0);
    // The server's patience and the length of the test are longer.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!matches!(running.read(&mut [0; 64]), Ok(1..)));
}

#[allow(clippy::disallowed_methods, reason = "a test is an outermost shell")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_busy_server_names_the_time_to_retry_and_its_limits() {
    let work = Workplace::new();
    let options = ["--open", "--listen", "127.0.0.1", "--max-tests", "1", "--max-bytes", "1MB"];
    let server = Serving::start(&work, &options);
    let running = endless_test(server.port());
    let mut second = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let refusal = refusal_of(&mut second, r#""amount":{"duration_ms":1000}"#);
    assert_eq!(refusal["code"], "busy", "{refusal}");
    assert!(refusal["retry_after_ms"].as_u64().is_some_and(|ms| ms >= 1000), "{refusal}");
    drop(running);
    let mut third = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let refusal = refusal_of(&mut third, r#""amount":{"bytes":9000000}"#);
    assert_eq!(refusal["code"], "limit", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("allows 1000000"), "{refusal}");
    server.stop().expect(0);
}

/// The server's answer to a refused request.
fn refusal_of(stream: &mut TcpStream, amount: &str) -> Value {
    use pathbench_record::end::TestId;
    use pathbench_traffic::protocol::{ControlFrame, HelloFrame};
    let request = format!(
        r#"{{"pattern":"throughput","transport":"tcp","patience_ms":20000,"parameters":{{
            "direction":"upload","streams":1,{amount},"block_bytes":131072}}}}"#
    );
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = ControlFrame::Hello(HelloFrame::new(TestId([9; 16]), 0, request.into_bytes()));
    stream.write_all(&hello.encode().unwrap()).unwrap();
    let mut header = [0; 8];
    stream.read_exact(&mut header).unwrap();
    assert_eq!(header[0], 3, "not a refusal: {header:?}");
    let mut body = vec![0; u32::from_be_bytes(header[4..].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn a_slow_or_foreign_client_of_the_health_port_does_not_hold_it_up() {
    let work = Workplace::new();
    let health = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1", "--health", &health.to_string()]);
    let _silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(health).unwrap()).collect();
    let mut foreign = TcpStream::connect(health).unwrap();
    foreign.write_all(&[0xff; 10_000]).unwrap();
    assert!(get_health(health).is_some());
    server.stop().expect(0);
}

/// A renewed certificate counts without a restart, and SIGHUP stops no server.
#[test]
fn a_renewed_certificate_is_announced_and_used_after_sighup() {
    let work = Workplace::new();
    let make = |name: &str| {
        let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
        work.run(&["serve", "certificate", "--cert", &cert, "--key", &key, "localhost"]).expect(0).stdout
    };
    make("served");
    let shown = make("renewed");
    let fingerprint = shown.split_whitespace().find(|word| word.len() == 64).unwrap().to_owned();
    let mut server = Serving::start(
        &work,
        &["--open", "--listen", "127.0.0.1", "--cert", "served.pem", "--key", "served.key"],
    );
    let place = format!("127.0.0.1:{}", server.port());
    server.test(&work, &place, &["--tls"]).expect(0);
    let file = |name: &str| work.path().join(name);
    std::fs::write(file("served.pem"), "broken").unwrap();
    let mut log = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let mut notice = |words: &str| {
        server.signal(Signal::HUP);
        log.find(|line| line.as_ref().unwrap().contains(words)).unwrap().unwrap()
    };
    let broken = notice("stays in use");
    assert!(broken.contains("served.pem"), "{broken}");
    std::fs::rename(file("renewed.pem"), file("served.pem")).unwrap();
    std::fs::rename(file("renewed.key"), file("served.key")).unwrap();
    let renewed = notice("new certificate");
    assert!(renewed.contains(&fingerprint), "{renewed}");
    // The former fingerprint is that of another server now.
    assert_ne!(server.test(&work, &place, &["--tls"]).code, Some(0));
    server.announcement["fingerprint"] = fingerprint.into();
    server.test(&work, &place, &["--tls"]).expect(0);
    server.signal(Signal::TERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}
