//! The server as a process of its own, watched from outside.

use pathbench_record::time::Clock as _;
use pathbench_testkit::MonotonicClock;
use pathbench_testkit::soak::ProcessReading;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that runs `pathbench serve` on loopback, open to everybody.
pub(crate) struct ServerProcess {
    child: Child,
    health: SocketAddr,
    pub(crate) tcp: SocketAddr,
    pub(crate) quic: SocketAddr,
    pub(crate) fingerprint: String,
}

/// The server's resources at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) process: ProcessReading,
    pub(crate) tests: u64,
    pub(crate) connections: u64,
}

impl ServerProcess {
    pub(crate) fn start(limits: &[&str]) -> Result<Self, String> {
        let words = |error: &dyn std::fmt::Display| format!("starting the server: {error}");
        let health = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .map_err(|error| words(&error))?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_pathbench"))
            .args(["serve", "--open", "--json", "--quiet", "--listen", "127.0.0.1", "--port", "0"])
            .args(["--health", &health.to_string()])
            .args(limits)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| words(&error))?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        BufReader::new(stdout).read_line(&mut line).map_err(|error| words(&error))?;
        let announced: Value = serde_json::from_str(&line).map_err(|error| words(&error))?;
        let listening = |transport: &str| {
            announced["listening"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|place| place["transports"].to_string().contains(transport))
                .and_then(|place| place["address"].as_str()?.parse().ok())
                .ok_or_else(|| format!("the server does not serve {transport}: {line}"))
        };
        Ok(Self {
            child,
            health,
            tcp: listening("tcp")?,
            quic: listening("quic")?,
            fingerprint: announced["fingerprint"].as_str().unwrap_or_default().to_owned(),
        })
    }

    pub(crate) fn read(&self) -> Result<Reading, String> {
        let process = ProcessReading::of_process(self.child.id())?;
        let health = self.health()?;
        Ok(Reading {
            process,
            tests: health["tests"].as_u64().unwrap_or_default(),
            connections: health["connections"].as_u64().unwrap_or_default(),
        })
    }

    /// The answer to `GET /health`.
    fn health(&self) -> Result<Value, String> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.health)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            let mut response = String::new();
            stream.read_to_string(&mut response)?;
            Ok(response)
        };
        let response = ask().map_err(|error| format!("GET /health: {error}"))?;
        let (head, body) = response.split_once("\r\n\r\n").ok_or("GET /health: no body")?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("GET /health: {head} {body}"));
        }
        serde_json::from_str(body).map_err(|error| format!("GET /health: {error}"))
    }

    /// Time until the server has released all resources of its clients.
    pub(crate) fn wait_until_idle(&self, most: Duration) -> Result<Duration, String> {
        let begun = MonotonicClock.now();
        loop {
            let reading = self.read()?;
            let waited = reading.process.at.duration_since(begun);
            if reading.tests == 0 && reading.connections == 0 {
                return Ok(waited);
            }
            if waited > most {
                return Err(format!("slots leaked: {reading:?}"));
            }
            MonotonicClock.sleep_until(reading.process.at + Duration::from_millis(200));
        }
    }

    /// Ends the server, which has no test left, with SIGTERM.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| format!("SIGTERM to the server: {error}"))?;
        let status = self.child.wait().map_err(|error| format!("waiting for the server: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}")) }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
