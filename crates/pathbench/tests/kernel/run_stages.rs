//! `pathbench run` on connections whose subflows came to different stages: never opened, opened without MPTCP, without a
//! second subflow, and with bytes that only some figures of the kernel have.

use crate::support::standing::{Lab, SERVER};
use crate::support::supervised::{Supervised, document};
use crate::support::{binary, captured, finish};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Child;
use std::time::Duration;

const SINK_PORT: u16 = 8091;
const ONCE_PORT: u16 = 8092;
const LISTENING: &str = "listening";
/// Address, connections and bytes of each, for the client's task.
const TARGET: &str = "PATHBENCH_TEST_TARGET";
const SENT: usize = 30_000;
const ANSWER: usize = 15_000;
const LARGE: usize = 2_000_000;

fn mptcp_listener(port: u16) -> Socket {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    listener.set_reuse_address(true).unwrap();
    listener.bind(&SocketAddr::from(([0, 0, 0, 0], port)).into()).unwrap();
    listener.listen(64).unwrap();
    listener
}

/// Reads a connection to its end, and answers.
fn answer(mut connection: impl std::io::Read + std::io::Write) {
    let mut bytes = vec![0; 128 * 1024];
    while connection.read(&mut bytes).is_ok_and(|length| length > 0) {}
    let _gone = connection.write_all(&vec![7; ANSWER]);
}

#[test]
#[ignore = "a server of the other tests in a lab's host"]
fn a_sink() {
    let listener = mptcp_listener(SINK_PORT);
    println!("{LISTENING}");
    while let Ok((connection, _)) = listener.accept() {
        std::thread::spawn(move || answer(connection));
    }
}

#[test]
#[ignore = "a server of the other tests in a lab's host"]
fn a_server_of_one_connection() {
    let listener = std::net::TcpListener::bind(("0.0.0.0", ONCE_PORT)).unwrap();
    let (connection, _) = listener.accept().unwrap();
    drop(listener);
    answer(connection);
}

#[test]
#[ignore = "a client of the other tests in a lab's host"]
fn a_client() {
    let target = std::env::var(TARGET).unwrap();
    let words: Vec<&str> = target.split(' ').collect();
    let [address, connections, bytes, wait_ms] = words[..] else { panic!("{target}") };
    let address: SocketAddr = address.parse().unwrap();
    let wait = Duration::from_millis(wait_ms.parse().unwrap());
    for _ in 0..connections.parse::<u32>().unwrap() {
        let Ok(mut connection) = TcpStream::connect_timeout(&address, Duration::from_secs(6)) else {
            continue;
        };
        connection.write_all(&vec![7; bytes.parse().unwrap()]).unwrap();
        // The joins follow the first data.
        std::thread::sleep(wait);
        connection.shutdown(Shutdown::Write).unwrap();
        connection.read_to_end(&mut Vec::new()).unwrap();
    }
}

fn task(name: &str) -> Vec<String> {
    let itself = std::env::current_exe().unwrap();
    let words =
        [itself.to_str().unwrap(), "--ignored", "--exact", "--nocapture", &format!("run_stages::{name}")];
    words.map(str::to_owned).to_vec()
}

/// A lab whose server has the sink.
struct Site {
    lab: Lab,
    sink: Child,
}

impl Site {
    fn start() -> Self {
        let lab = Lab::standing(&[]);
        let task = task("a_sink");
        let words: Vec<&str> = task.iter().map(String::as_str).collect();
        let mut sink = captured(&mut lab.exec("server", &words));
        let mut lines = BufReader::new(sink.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(LISTENING)), "the sink did not start");
        Self { lab, sink }
    }

    fn shell(&self, host: &str, script: &str) {
        let script = format!("PATH=$PATH:/sbin:/usr/sbin; set -e; {script}");
        finish(&mut self.lab.exec(host, &["sh", "-c", &script])).expect(0);
    }

    fn client(&self, target: &str) -> std::process::Command {
        let program = binary();
        let task = task("a_client");
        let mut words = vec![program.to_str().unwrap(), "run", "--json", "--"];
        words.extend(task.iter().map(String::as_str));
        let mut command = self.lab.exec("client", &words);
        command.env(TARGET, target);
        command
    }

    fn run(&self, target: &str) -> Value {
        document(&finish(&mut self.client(target)))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _dead = self.sink.kill();
        let _reaped = self.sink.wait();
    }
}

#[track_caller]
fn only(document: &Value) -> &Value {
    let connections = document["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 1, "{document:#}");
    &connections[0]
}

fn reason(connection: &Value) -> &str {
    connection["multipath"]["reason"].as_str().unwrap()
}

/// Regression: a join without an answer "was opened"; a connection over an interface without carrier had "negotiated".
#[test]
fn what_nothing_answered_was_not_opened() {
    let site = Site::start();
    // The server has no route for its answers.
    site.shell("server", "ip route add blackhole 10.83.1.1/32");
    let found = site.run(&format!("{SERVER}:{SINK_PORT} 1 {SENT} 300"));
    let one = only(&found);
    assert_eq!(one["multipath"]["subflows_total"], 1, "{one:#}");
    assert!(one["multipath"]["subflows_attempted"].as_u64() > Some(1), "{one:#}");
    assert!(reason(one).contains("attempted and not opened"), "{one:#}");
    assert!(!reason(one).contains("was opened but"), "{one:#}");
    assert_eq!(one["multipath"]["used"], false);

    let no_carrier =
        "ip link add usb0 type veth peer name usb1; ip link set usb0 up; ip addr add 192.0.2.1/24 dev usb0";
    site.shell("client", no_carrier);
    let found = site.run("192.0.2.9:80 1 1 0");
    let one = only(&found);
    assert_eq!(
        (&one["multipath"]["negotiated"], &one["is_opened"]),
        (&false.into(), &false.into()),
        "{one:#}"
    );
    assert!(reason(one).contains("usb0 has no carrier"), "{one:#}");
}

/// Regression: "0 connections" after the kernel had suspended MPTCP.
#[test]
fn connections_are_followed_while_the_kernel_has_suspended_mptcp() {
    let site = Site::start();
    site.shell("client", "sysctl -qw net.mptcp.blackhole_timeout=3600");
    site.shell(
        "server",
        "nft add table ip syns; nft 'add chain ip syns first { type filter hook prerouting priority 0; }'; \
         nft add rule ip syns first tcp flags syn drop",
    );
    let mut first = captured(&mut site.client(&format!("{SERVER}:{SINK_PORT} 1 {SENT} 300")));
    // Two SYNs with MP_CAPABLE are dropped, after 0 and 1 s; the third, after 3 s, is without it.
    std::thread::sleep(Duration::from_millis(2600));
    site.shell("server", "nft delete table ip syns");
    let text = std::io::read_to_string(first.stdout.take().unwrap()).unwrap();
    first.wait().unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    let one = only(&found);
    assert!(!reason(one).contains("mid-connection"), "{one:#}");
    assert_eq!(one["is_opened"], true, "{one:#}");

    let found = site.run(&format!("{SERVER}:{SINK_PORT} 1 {LARGE} 0"));
    let one = only(&found);
    assert!(reason(one).contains("suspended") && reason(one).contains("blackhole_timeout"), "{one:#}");
    assert_eq!(one["multipath"]["negotiated"], false);
    assert!(one["bytes_sent"].as_u64() > Some(0), "{one:#}");
    let program = binary();
    let check =
        |site: &Site| finish(&mut site.lab.exec("client", &[program.to_str().unwrap(), "check", "--json"]));
    let level = |checked: &Value| {
        let findings = checked["findings"].as_array().unwrap();
        findings.iter().find(|one| one["id"] == "mptcp-blackhole").unwrap()["level"].clone()
    };
    assert_eq!(level(&document(&check(&site))), "problem");
    site.shell("client", "sysctl -qw net.mptcp.blackhole_timeout=3600");
    assert_eq!(level(&document(&check(&site))), "ok");
    let found = site.run(&format!("{SERVER}:{SINK_PORT} 1 {LARGE} 0"));
    assert_eq!(only(&found)["multipath"]["negotiated"], true, "{found:#}");
}

/// Regression: "the counters of this host show no cause" at a server that closes its listening socket.
#[test]
fn a_server_without_its_listening_socket_is_named_at_both_ends() {
    let site = Site::start();
    let server = Supervised::serve(&site.lab, "run_stages", &task("a_server_of_one_connection"), ONCE_PORT);
    let found = site.run(&format!("{SERVER}:{ONCE_PORT} 1 {LARGE} 300"));
    let one = only(&found);
    assert!(!one["multipath"]["used"].as_bool().unwrap(), "{one:#}");
    assert!(!reason(one).contains("was opened but"), "{one:#}");
    let found = server.wait();
    let one = only(&found);
    assert_eq!(one["role"], "accepted", "{one:#}");
    assert!(reason(one).contains("closed its listening socket at port 8092"), "{one:#}");
}

/// Regression: totals of the last snapshot as if they were exact.
#[test]
fn totals_of_short_connections_are_exact_or_at_least() {
    let site = Site::start();
    let found = site.run(&format!("{SERVER}:{SINK_PORT} 12 {SENT} 0"));
    let connections = found["connections"].as_array().unwrap();
    assert!(!connections.is_empty(), "{found:#}");
    for one in connections {
        for (name, exact, true_bytes) in
            [("bytes_sent", "bytes_sent_exact", SENT), ("bytes_received", "bytes_received_exact", ANSWER)]
        {
            let bytes = one[name].as_u64().unwrap();
            assert!(bytes <= true_bytes as u64, "{name}: {one:#}");
            if one[exact].as_bool().unwrap() {
                assert_eq!(bytes, true_bytes as u64, "{name}: {one:#}");
            }
        }
    }
}
