//! A client with an address of its own: requests over new connections, and whole answers.

use crate::support::process::Answer;
use pathbench_record::time::Clock as _;
use pathbench_testkit::MonotonicClock;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A client at `local`, which is patient with the machine's other work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpClient {
    pub(crate) collector: SocketAddr,
    pub(crate) local: Ipv4Addr,
    pub(crate) patience: Duration,
}

/// The head of a request, for a connection that ends with its answer.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut lines = vec![
        format!("{method} {path} HTTP/1.1"),
        "Host: collector".to_owned(),
        "Connection: close".to_owned(),
    ];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    format!(
        "{}

",
        lines.join(
            "
"
        )
    )
}

impl HttpClient {
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((self.local, 0)).into())?;
        socket.connect_timeout(&self.collector.into(), self.patience)?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_write_timeout(Some(self.patience))?;
        Ok(socket)
    }

    /// A connection on which a request was sent.
    pub(crate) fn send(&self, head: &str, body: &[u8]) -> io::Result<Socket> {
        let socket = self.connect()?;
        (&socket).write_all(&[head.as_bytes(), body].concat())?;
        Ok(socket)
    }

    /// The whole answer to a request.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, String> {
        let length = body.len().to_string();
        let mut headers = headers.to_vec();
        if !body.is_empty() {
            headers.push(("Content-Length", &length));
        }
        let socket = self.send(&head(method, path, &headers), body).map_err(|error| error.to_string())?;
        parse(&self.read_to_end(&socket).map_err(|error| error.to_string())?)
    }

    fn read_to_end(&self, mut socket: &Socket) -> io::Result<Vec<u8>> {
        let until = MonotonicClock.now() + self.patience;
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match socket.read(&mut buffer)? {
                0 => return Ok(answer),
                count => answer.extend_from_slice(&buffer[..count]),
            }
            if MonotonicClock.now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// The answer in the bytes of a connection; an error unless it is complete.
fn parse(bytes: &[u8]) -> Result<Answer, String> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no head")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or("no status")?;
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let body = if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        unchunked(rest)?
    } else {
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if rest.len() != length {
            return Err(format!("status {status}, {} of {length} bytes", rest.len()));
        }
        rest.to_vec()
    };
    Ok(Answer { status, headers, body })
}

/// RFC 9112, section 7.1.
fn unchunked(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let broken = || format!("the answer breaks off after {} bytes", body.len());
        let end = rest.windows(2).position(|two| two == b"\r\n").ok_or_else(broken)?;
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.ok_or_else(broken)?;
        let chunk = rest.get(end + 2..end + 2 + size + 2).ok_or_else(broken)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[end + 2 + size + 2..];
    }
}
