//! The server of status pages over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

use pathbench_program::responder::{Request, Responder, Response};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[test]
fn slow_clients_do_not_delay_others_and_panics_stay_with_their_client() {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let answer = |request: &Request| {
        assert_ne!(request.path, "/panic");
        Response::new("200 OK", "text/plain", request.body.clone())
    };
    let responder = Responder::start(anywhere, "a test", Duration::from_secs(20), answer).unwrap();
    let _slow: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(responder.address()).unwrap()).collect();
    let exchange = |text: &str| {
        let mut stream = TcpStream::connect(responder.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let good = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
    assert!(exchange(good).unwrap().ends_with("\r\n\r\nhi"));
    assert!(exchange("nonsense\r\n\r\n").unwrap().starts_with("HTTP/1.1 400 "));
    assert_eq!(exchange("GET /panic HTTP/1.1\r\n\r\n").unwrap_or_default(), "");
    assert!(exchange(good).unwrap().ends_with("\r\n\r\nhi"));
}
