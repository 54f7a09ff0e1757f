//! `GET /health`: a status for load balancers and monitors, with the required subset of HTTP/1.1 (RFC 9112).

use super::log::PanicCount;
use crate::clock::MonotonicClock;
use crate::exit::Failure;
use pathbench_record::time::Clock as _;
use pathbench_traffic::server::{Server, ServerStatus};
use serde_json::json;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time for one request and its response; requests are served sequentially.
const TIME: Duration = Duration::from_millis(500);

/// Maximum length read of a request; only its first line matters.
const MOST_BYTES: usize = 4096;

/// Responds until it is dropped.
pub(super) struct HealthResponder {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HealthResponder {
    pub(super) fn start(
        address: SocketAddr,
        server: &Arc<Server>,
        panics: PanicCount,
    ) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("listening on {address} for GET /health: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (stop, server) = (Arc::clone(&stopping), Arc::downgrade(server));
        let thread = thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || respond(&listener, &server, &panics, &stop))
            .map_err(failed)?;
        Ok(Self { address, stopping, thread: Some(thread) })
    }
}

impl Drop for HealthResponder {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread. If that fails, the thread ends with the process.
        if TcpStream::connect_timeout(&reachable(self.address), TIME).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// A wildcard address is not a valid destination.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr};
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn respond(listener: &TcpListener, server: &Weak<Server>, panics: &PanicCount, stopping: &AtomicBool) {
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            // An error affects only this client.
            Ok((stream, _)) => drop(answer(stream, server, panics)),
            // EMFILE is the most likely error.
            Err(_) => thread::sleep(TIME),
        }
    }
}

fn answer(mut stream: TcpStream, server: &Weak<Server>, panics: &PanicCount) -> io::Result<()> {
    let deadline = MonotonicClock.now() + TIME;
    let mut request = Vec::new();
    let mut buffer = [0; 512];
    while !request.windows(2).any(|pair| pair == b"\r\n") {
        let left = deadline.since(MonotonicClock.now());
        if left.is_zero() || request.len() >= MOST_BYTES {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let Some(server) = server.upgrade() else { return Ok(()) };
    stream.set_write_timeout(Some(TIME))?;
    stream.write_all(response(line, &server.status(), panics.get()).as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

/// The complete response to a request with this first line.
fn response(line: &[u8], status: &ServerStatus, panics: u64) -> String {
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let (code, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/health") => {
            let failed: Vec<String> =
                status.failed.iter().map(|(transport, address)| format!("{address} ({transport})")).collect();
            let (code, word) = match (failed.is_empty(), status.draining) {
                (false, _) => ("503 Service Unavailable", "failed"),
                (true, true) => ("503 Service Unavailable", "draining"),
                (true, false) => ("200 OK", "ok"),
            };
            let document = json!({
                "status": word,
                "tests": status.tests,
                "max_tests": status.max_tests,
                "connections": status.connections,
                "failed_listeners": failed,
                "panics": panics,
            });
            (code, document)
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", json!({ "error": "only /health exists" })),
        _ => ("405 Method Not Allowed", json!({ "error": "only GET is allowed" })),
    };
    let body = format!("{body}\n");
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if method == b"HEAD" { head } else { head + &body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::transport::Transport;

    #[test]
    fn only_health_is_answered() {
        let status =
            |draining| ServerStatus { tests: 1, max_tests: 8, connections: 3, draining, failed: Vec::new() };
        let answer_to = |line: &str, draining| response(line.as_bytes(), &status(draining), 2);
        let fine = answer_to("GET /health HTTP/1.1", false);
        assert!(fine.starts_with("HTTP/1.1 200 OK\r\n") && fine.contains(r#""status":"ok""#), "{fine}");
        assert!(fine.contains(r#""tests":1"#) && fine.contains(r#""max_tests":8"#), "{fine}");
        let leaving = answer_to("GET /health?x=1 HTTP/1.0", true);
        assert!(leaving.starts_with("HTTP/1.1 503 ") && leaving.contains("draining"), "{leaving}");
        assert!(answer_to("GET / HTTP/1.1", false).starts_with("HTTP/1.1 404 "));
        assert!(answer_to("POST /health HTTP/1.1", false).starts_with("HTTP/1.1 405 "));
        assert!(answer_to("", false).starts_with("HTTP/1.1 405 "));
        assert!(answer_to("HEAD /health HTTP/1.1", false).ends_with("\r\n\r\n"));
        assert!(fine.contains(r#""panics":2"#) && fine.contains(r#""failed_listeners":[]"#), "{fine}");
        let failed = vec![(Transport::Mpquic, SocketAddr::from(([192, 0, 2, 1], 4433)))];
        let failed = response(b"GET /health", &ServerStatus { failed, ..status(true) }, 1);
        assert!(failed.starts_with("HTTP/1.1 503 ") && failed.contains(r#""status":"failed""#), "{failed}");
        assert!(failed.contains(r#"["192.0.2.1:4433 (mpquic)"]"#), "{failed}");
    }
}
