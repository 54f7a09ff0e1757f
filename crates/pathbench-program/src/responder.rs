//! A small HTTP/1.1 server (RFC 9112) for status pages: one request per connection, a deadline for each, bounded requests
//! and threads. A slow client delays only itself.

use crate::clock::RealClock;
use crate::exit::Failure;
use crate::exposition::{self, Exposition};
use pathbench_record::time::{Clock as _, Timestamp};
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Largest request line with its header fields.
const HEAD_BYTES: usize = 8 << 10;
const BODY_BYTES: usize = 16 << 10;
/// Clients at the same time; further ones are closed at once.
const MOST_CLIENTS: usize = 32;
/// After a failed accept(2), most likely EMFILE.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: String,
    fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A header field by its name in lower case; `None` if it is absent or there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(one, _)| one == name).map(|(_, value)| value.as_str());
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    pub fn is_read(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// Parses a request without its body, and the body's length.
    pub fn parse(head: &str) -> Option<(Self, usize)> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut fields = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            fields,
            body: Vec::new(),
        };
        if request.fields.iter().any(|(name, _)| name == "transfer-encoding") {
            return None;
        }
        let lengths = request.fields.iter().filter(|(name, _)| name == "content-length").count();
        let length = match request.field("content-length") {
            Some(text) => text.parse().ok().filter(|length| *length <= BODY_BYTES)?,
            None if lengths > 0 => return None,
            None => 0,
        };
        Some((request, length))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: &'static str,
    pub kind: &'static str,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn new(status: &'static str, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, fields: Vec::new(), body: body.into() }
    }

    pub fn json(status: &'static str, document: &impl serde::Serialize) -> Self {
        let mut body = serde_json::to_vec(document).unwrap_or_default();
        body.push(b'\n');
        Self::new(status, "application/json", body)
    }

    pub fn metrics(exposition: Exposition) -> Self {
        Self::new("200 OK", exposition::CONTENT_TYPE, exposition.text())
    }

    pub fn error(status: &'static str, error: &str) -> Self {
        Self::json(status, &serde_json::json!({ "error": error }))
    }

    pub fn not_found(known: &str) -> Self {
        Self::error("404 Not Found", &format!("only {known}"))
    }

    pub fn method_not_allowed() -> Self {
        Self::error("405 Method Not Allowed", "this method is not allowed here")
    }

    fn bytes(&self, head_only: bool) -> Vec<u8> {
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        for (name, value) in &self.fields {
            let _infallible = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        if !head_only {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

type Answer = dyn Fn(&Request) -> Response + Send + Sync;

/// Responds until it is dropped.
pub struct Responder {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    time: Duration,
}

impl Responder {
    /// `time` is the longest time of one request with its response, `purpose` is for messages: `GET /health`.
    pub fn start(
        address: SocketAddr,
        purpose: &str,
        time: Duration,
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::failed(format!("listening on {address} for {purpose}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (stop, answer): (_, Arc<Answer>) = (Arc::clone(&stopping), Arc::new(answer));
        let thread = thread::Builder::new()
            .name("responder".to_owned())
            .spawn(move || accept_all(&listener, &answer, time, &stop))
            .map_err(failed)?;
        Ok(Self { address, stopping, thread: Some(thread), time })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread. If that fails, the thread ends with the process.
        if TcpStream::connect_timeout(&reachable(self.address), self.time).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// A wildcard address is not a valid destination.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn accept_all(listener: &TcpListener, answer: &Arc<Answer>, time: Duration, stopping: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            thread::sleep(PAUSE);
            continue;
        };
        if clients.fetch_add(1, Ordering::SeqCst) >= MOST_CLIENTS {
            clients.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (answer, count) = (Arc::clone(answer), Arc::clone(&clients));
        let spawned = thread::Builder::new().name("responder".to_owned()).spawn(move || {
            // An error or a panic affects only this client; the panic hook has reported it.
            let _ended = catch_unwind(AssertUnwindSafe(|| serve(stream, answer.as_ref(), time)));
            count.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, time: Duration) -> io::Result<()> {
    let deadline = RealClock.now() + time;
    let response = match read(&mut stream, deadline)? {
        Some(request) => answer(&request).bytes(request.method == "HEAD"),
        None => Response::error("400 Bad Request", "not a request").bytes(false),
    };
    let mut rest = response.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let written = stream.write(rest)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = &rest[written..];
    }
    stream.shutdown(Shutdown::Write)
}

fn left(deadline: Timestamp) -> io::Result<Duration> {
    let left = deadline.duration_since(RealClock.now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The request; `None` if it is none or too large.
fn read(stream: &mut TcpStream, deadline: Timestamp) -> io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 2048];
    let mut more = |bytes: &mut Vec<u8>| -> io::Result<bool> {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let count = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    };
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > HEAD_BYTES || !more(&mut bytes)? {
            return Ok(None);
        }
    };
    let Some((mut request, length)) = std::str::from_utf8(&bytes[..end]).ok().and_then(Request::parse) else {
        return Ok(None);
    };
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if !more(&mut body)? {
            return Ok(None);
        }
    }
    body.truncate(length);
    request.body = body;
    Ok(Some(request))
}
