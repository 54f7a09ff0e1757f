//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_program::responder::Request;

#[test]
fn requests_are_parsed_strictly() {
    let (request, length) =
        Request::parse("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n").unwrap();
    assert_eq!((request.path.as_str(), request.query.as_str(), length), ("/a", "b=c", 3));
    assert_eq!(request.field("host"), Some("x"));
    for wrong in [
        "",
        "GET /",
        "GET / HTTP/2",
        "GET / x HTTP/1.1",
        "GET / HTTP/1.1\r\nno colon",
        "POST / HTTP/1.1\r\nContent-Length: 99999",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ] {
        assert!(Request::parse(wrong).is_none(), "{wrong}");
    }
    let (twice, _) = Request::parse("GET / HTTP/1.1\r\nHost: a\r\nHost: b").unwrap();
    assert_eq!(twice.field("host"), None);
}

/// The body of the fuzz target, run over generated inputs, so that it stays valid between fuzzing sessions.
mod fuzz_bodies {
    use crate::bodies;
    use pathbench_testkit::run_fuzz_body;

    #[test]
    fn requests() {
        run_fuzz_body(env!("CARGO_MANIFEST_DIR"), "requests", 2000, 200, bodies::requests);
    }
}
