//! The bodies of the fuzz targets. The ordinary tests run them, too.

#![allow(clippy::unwrap_used, reason = "a finding panics")]

use pathbench_program::responder::Request;

/// Largest body of a request.
const BODY_BYTES: usize = 16 << 10;

/// The head of a request of a status page, as bytes and with a right beginning: no panic, a bounded body, and no field that
/// another server could understand otherwise.
pub(crate) fn requests(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    read(&text);
    read(&format!("POST /{} HTTP/1.1\r\nContent-Length: {}", text.replace(' ', "\r\n"), bytes.len()));
    read(&format!("GET / HTTP/1.1\r\n{}", text.replace(' ', "\r\n")));
}

fn read(head: &str) {
    let Some((request, length)) = Request::parse(head) else { return };
    assert!(length <= BODY_BYTES);
    assert!(request.body.is_empty() && !request.path.contains('?') && !request.path.contains(' '));
    assert!(!request.method.contains(' ') && !request.query.contains("\r\n"));
    assert_eq!(request.field("transfer-encoding"), None);
    match request.field("content-length") {
        Some(text) => assert_eq!(text.parse(), Ok(length)),
        None => assert_eq!(length, 0),
    }
}
