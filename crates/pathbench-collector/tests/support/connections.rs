//! Connections of clients that break the rules of HTTP, and the state of the collector they are connected to.

use super::process::{Answer, Collector, line, submission};
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) fn connect(collector: &Collector) -> TcpStream {
    let stream = TcpStream::connect(collector.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    stream
}

/// What the collector sends until it closes the connection.
pub(crate) fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the connection is still open"),
        _ => String::from_utf8_lossy(&text).into_owned(),
    }
}

pub(crate) fn is_alive(collector: &Collector) -> bool {
    let answer: Answer = collector.submit(&[line(&submission())]);
    answer.status == 201
}
