//! `GET /health`, a status for load balancers and monitors, and `GET /metrics`, the same for Prometheus.

use super::log::PanicCount;
use pathbench_program::exit::Failure;
use pathbench_program::exposition::{Exposition, Metric, MetricType, metric};
use pathbench_program::responder::{Request, Responder, Response};
use pathbench_traffic::server::{Server, ServerStatus};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time for one request and its response.
const TIME: Duration = Duration::from_millis(500);

/// Responds until the responder is dropped.
pub(super) fn start(
    address: SocketAddr,
    server: &Arc<Server>,
    panics: PanicCount,
) -> Result<Responder, Failure> {
    let server = Arc::downgrade(server);
    Responder::start(address, "GET /health", TIME, move |request| match server.upgrade() {
        Some(server) => response(request, &server.status(), panics.get()),
        None => Response::json("503 Service Unavailable", &json!({ "status": "stopped" })),
    })
}

fn response(request: &Request, status: &ServerStatus, panics: u64) -> Response {
    match (request.is_read(), request.path.as_str()) {
        (true, "/health") => health(status, panics),
        (true, "/metrics") => Response::metrics(metrics(status, panics)),
        (true, _) => Response::not_found("/health and /metrics exist"),
        _ => Response::method_not_allowed(),
    }
}

fn health(status: &ServerStatus, panics: u64) -> Response {
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
    Response::json(code, &document)
}

const METRICS: [Metric; 6] = [
    metric("tests", MetricType::Gauge, &[], "Running tests."),
    metric("max_tests", MetricType::Gauge, &[], "Maximum number of concurrent tests."),
    metric("connections", MetricType::Gauge, &[], "Open connections."),
    metric("draining", MetricType::Gauge, &[], "1 if the server accepts no new tests."),
    metric("failed_listeners", MetricType::Gauge, &[], "Listeners that accept no connections any more."),
    metric("panics", MetricType::Counter, &[], "Panics of threads."),
];

fn metrics(status: &ServerStatus, panics: u64) -> Exposition {
    let mut metrics = Exposition::new("pathbench_server", &METRICS);
    for (name, value) in [
        ("tests", status.tests as f64),
        ("max_tests", status.max_tests as f64),
        ("connections", status.connections as f64),
        ("draining", f64::from(u8::from(status.draining))),
        ("failed_listeners", status.failed.len() as f64),
        ("panics", panics as f64),
    ] {
        metrics.add(name, &[], value);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::transport::Transport;

    fn status(draining: bool) -> ServerStatus {
        ServerStatus { tests: 1, max_tests: 8, connections: 3, draining, failed: Vec::new() }
    }

    fn text(response: &Response) -> String {
        String::from_utf8(response.body.clone()).unwrap()
    }

    #[test]
    fn only_health_and_metrics_are_answered() {
        let request = |line: &str| Request::parse(&format!("{line} HTTP/1.1")).unwrap().0;
        let get =
            |target: &str, status: &ServerStatus| response(&request(&format!("GET {target}")), status, 2);
        let fine = get("/health", &status(false));
        assert!(fine.status.starts_with("200") && text(&fine).contains(r#""status":"ok""#), "{fine:?}");
        assert!(text(&fine).contains(r#""tests":1"#) && text(&fine).contains(r#""max_tests":8"#), "{fine:?}");
        let leaving = get("/health?x=1", &status(true));
        assert!(leaving.status.starts_with("503") && text(&leaving).contains("draining"), "{leaving:?}");
        assert!(get("/", &status(false)).status.starts_with("404"));
        assert!(response(&request("POST /health"), &status(false), 0).status.starts_with("405"));
        assert!(text(&fine).contains(r#""panics":2"#) && text(&fine).contains(r#""failed_listeners":[]"#));
        let failed = vec![(Transport::Mpquic, SocketAddr::from(([192, 0, 2, 1], 4433)))];
        let failed = get("/health", &ServerStatus { failed, ..status(true) });
        assert!(
            failed.status.starts_with("503") && text(&failed).contains(r#""status":"failed""#),
            "{failed:?}"
        );
        assert!(text(&failed).contains(r#"["192.0.2.1:4433 (mpquic)"]"#), "{failed:?}");
        let metrics = text(&get("/metrics", &status(true)));
        pathbench_testkit::assert_documented(&metrics, "serve.md");
        assert!(
            metrics.contains("\npathbench_server_tests 1\n")
                && metrics.contains("\npathbench_server_draining 1\n")
        );
    }
}
