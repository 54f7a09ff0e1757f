//! The request that carries a pattern's parameters, and what a server's limits say to them.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::transport::Transport;
use pathbench_traffic::request::{Request, RequestError};
use pathbench_traffic::server::Limits;
use std::time::Duration;

pathbench_kerneltest::privilege_independent!();

#[test]
fn requests_round_trip_and_others_are_named() {
    let request = Request {
        transport: Transport::Mptcp,
        patience: Duration::from_secs(7),
        parameters: ThroughputParameters::default().into(),
        token: Some("t".to_owned()),
        sample_interval: Duration::from_secs(1),
    };
    assert_eq!(Request::from_json(&request.to_json()).unwrap(), request);
    let foreign = String::from_utf8(request.to_json()).unwrap().replace("throughput", "chat");
    let error = Request::from_json(foreign.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this server does not know the pattern `chat`; it knows ping, bulk, throughput, interactive"
    );
    assert!(matches!(Request::from_json(b"{}"), Err(RequestError::Malformed(_))));
    let empty = String::from_utf8(request.to_json()).unwrap().replace("\"streams\":1", "\"streams\":0");
    assert!(matches!(Request::from_json(empty.as_bytes()), Err(RequestError::Parameters(_))));
}

#[test]
fn objections_name_what_was_asked_and_what_is_allowed() {
    let limits = Limits {
        max_streams: 4,
        max_bytes: Some(1000),
        max_duration: Duration::from_secs(20),
        ..Limits::default()
    };
    let patience = Duration::from_secs(5);
    let fine = ThroughputParameters::default();
    assert_eq!(limits.objection(&fine.clone().into(), patience), None);
    let interactive = InteractiveParameters::default();
    let bulk =
        |bytes, upload_bytes| PatternParameters::Bulk(BulkParameters { bytes, upload_bytes, streams: 1 });
    let cases: [(PatternParameters, Duration, &str); 9] = [
        (ThroughputParameters { streams: 5, ..fine.clone() }.into(), patience, "allows 4"),
        (
            ThroughputParameters { amount: Amount::Bytes(1001), ..fine.clone() }.into(),
            patience,
            "allows 1000",
        ),
        (ThroughputParameters { omit: Duration::from_secs(11), ..fine.clone() }.into(), patience, "21 s"),
        (fine.into(), Duration::MAX, "allows 0.1 to 120 s"),
        (bulk(1001, 0), patience, "1001 bytes"),
        (bulk(10, 1002), patience, "1002 bytes"),
        (
            PatternParameters::Ping(PingParameters { count: 200, ..PingParameters::default() }),
            patience,
            "2010 bytes",
        ),
        (PatternParameters::Interactive(interactive.clone()), patience, "275400 bytes"),
        (
            PatternParameters::Interactive(InteractiveParameters {
                duration: Duration::from_secs(19),
                interval: Duration::from_secs(19),
                request_bytes: 10,
                ..interactive
            }),
            patience,
            "24 s",
        ),
    ];
    for (parameters, patience, words) in cases {
        let objection = limits.objection(&parameters, patience).unwrap_or_default();
        assert!(objection.contains(words), "{objection}");
    }
}
