//! The request with a pattern's parameters, and its rejection by a server's limits.

use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::transport::Transport;
use pathbench_traffic::protocol::{RequestError, TestRequest};
use pathbench_traffic::server::ServerLimits;
use std::time::Duration;

#[test]
fn valid_requests_round_trip_and_invalid_ones_are_reported() {
    let request = TestRequest {
        transport: Transport::Mptcp,
        patience: Duration::from_secs(7),
        parameters: ThroughputParameters::default().into(),
        token: Some("t".to_owned()),
        sample_interval: Duration::from_secs(1),
    };
    assert_eq!(TestRequest::from_json(&request.to_json()).unwrap(), request);
    let foreign = String::from_utf8(request.to_json()).unwrap().replace("throughput", "chat");
    let error = TestRequest::from_json(foreign.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this server does not know the pattern `chat`; it knows ping, bulk, throughput, interactive, \
         responsiveness, datagrams"
    );
    assert!(matches!(TestRequest::from_json(b"{}"), Err(RequestError::Malformed(_))));
    let empty = String::from_utf8(request.to_json()).unwrap().replace("\"streams\":1", "\"streams\":0");
    assert!(matches!(TestRequest::from_json(empty.as_bytes()), Err(RequestError::Parameters(_))));
}

#[test]
fn objections_name_the_requested_and_the_allowed_value() {
    let limits = ServerLimits {
        max_streams: 4,
        max_bytes: Some(1000),
        max_duration: Duration::from_secs(20),
        ..ServerLimits::default()
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
        (fine.into(), Duration::MAX, "allows 100 ms to 2 min"),
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

#[test]
fn each_limit_raises_the_bound() {
    let limits =
        ServerLimits { max_connections_per_client: 8, max_tests_per_client: 1, ..ServerLimits::default() };
    let bound = limits.memory_bound(1);
    assert!(bound.client_bytes < bound.server_bytes, "{bound:?}");
    for more in [
        ServerLimits { max_tests: limits.max_tests + 1, ..limits.clone() },
        ServerLimits { max_connections: limits.max_connections + 1, ..limits.clone() },
        ServerLimits { max_duration: limits.max_duration + Duration::from_secs(1), ..limits.clone() },
        ServerLimits { max_patience: limits.max_patience + Duration::from_secs(1), ..limits.clone() },
        ServerLimits { max_record_bytes: limits.max_record_bytes + 1, ..limits.clone() },
    ] {
        assert!(more.memory_bound(1).server_bytes > bound.server_bytes, "{more:?}");
    }
    assert!(limits.memory_bound(2).server_bytes > bound.server_bytes);
}
