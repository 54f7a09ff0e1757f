//! `GET /metrics` of a running collector: the names, the format, and what the counters count.

#![allow(clippy::float_cmp, reason = "the values are counts")]

use crate::support::process::{Collector, DELETION_TOKEN, line, name, report_token, submission};
use pathbench_collector::metrics::{METRICS, PREFIX};
use pathbench_program::exposition::{BUILD, CONTENT_TYPE, Metric, MetricType};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// An exposition, parsed strictly.
#[derive(Debug)]
struct Parsed {
    /// Name and kind, in order.
    families: Vec<(String, String)>,
    /// A sample's name with its labels as written.
    samples: BTreeMap<String, f64>,
}

impl Parsed {
    fn new(text: &str) -> Self {
        let (mut families, mut samples) = (Vec::new(), BTreeMap::new());
        let mut lines = text.strip_suffix("# EOF\n").unwrap().lines().peekable();
        while let Some(help) = lines.next() {
            let (family, help) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
            assert!(help.ends_with('.'), "{help}");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {family} ")).unwrap();
            families.push((family.to_owned(), kind.to_owned()));
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let metric = listed().find(|one| format!("{PREFIX}_{}", one.name) == family).unwrap();
                check_sample(metric, sample);
                let value = value.parse().unwrap();
                assert!(samples.insert(sample.to_owned(), value).is_none(), "{sample} twice");
            }
        }
        Self { families, samples }
    }

    fn of(collector: &Collector) -> Self {
        let answer = collector.get("/metrics");
        assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, CONTENT_TYPE));
        Self::new(&answer.text())
    }

    /// 0 where no such sample exists.
    fn value(&self, sample: &str) -> f64 {
        self.samples.get(&format!("pathbench_collector_{sample}")).copied().unwrap_or(0.0)
    }

    fn requests(&self, route: &str, status: u16) -> f64 {
        self.value(&format!("http_requests_total{{route=\"{route}\",status=\"{status}\"}}"))
    }

    fn lines(&self, status: &str) -> f64 {
        self.value(&format!("lines_total{{status=\"{status}\"}}"))
    }
}

fn listed() -> impl Iterator<Item = Metric> {
    [BUILD].into_iter().chain(METRICS)
}

/// The suffix and the names of the labels are those of the metric.
fn check_sample(metric: Metric, sample: &str) {
    let (full, labels) = sample.split_once('{').unwrap_or((sample, ""));
    let suffix = full.strip_prefix(&format!("{PREFIX}_{}", metric.name)).unwrap();
    assert!(metric.suffixes().contains(&suffix), "{sample}");
    let mut expected = metric.labels.to_vec();
    if suffix == "_bucket" {
        expected.insert(0, "le");
    }
    let found: Vec<&str> = if labels.is_empty() {
        Vec::new()
    } else {
        let pairs = labels.strip_suffix("\"}").unwrap().split("\",");
        pairs.map(|pair| pair.split_once("=\"").unwrap().0).collect()
    };
    assert_eq!(found, expected, "{sample}");
}

/// Reads until `is_reached` holds, about 20 s.
fn wait_for(collector: &Collector, is_reached: impl Fn(&Parsed) -> bool) -> Parsed {
    for _ in 0..200 {
        let parsed = Parsed::of(collector);
        if is_reached(&parsed) {
            return parsed;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:#?}", Parsed::of(collector));
}

#[test]
fn names_and_types_are_those_of_the_list_and_of_the_documentation() {
    let collector = Collector::start(&["--open"]);
    let parsed = Parsed::of(&collector);
    let families: Vec<(String, String)> =
        listed().map(|one| (format!("{PREFIX}_{}", one.name), one.kind.as_str().to_owned())).collect();
    assert_eq!(parsed.families, families);
    let row = |metric: Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        // Without the suffixes of a histogram.
        let suffix = if metric.kind == MetricType::Histogram { "" } else { metric.suffixes()[0] };
        let (name, kind) = (metric.name, metric.kind.as_str());
        format!("| `{PREFIX}_{name}{suffix}` | {kind} | {} | {} |", labels.join(", "), metric.help)
    };
    let rows: Vec<String> = listed().map(row).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/collect.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let documented: Vec<&str> =
        docs.lines().filter(|line| line.starts_with("| `pathbench_collector_")).collect();
    assert_eq!(documented, rows, "the table in docs/collect.md shall be\n{}", rows.join("\n"));
}

#[test]
fn counters_follow_submissions_and_deletions() {
    let collector = Collector::start(&["--open"]);
    let first = submission();
    let body = line(&first);
    assert_eq!(collector.submit(&[body.clone(), line(&submission())]).status, 201);
    assert_eq!(collector.submit(std::slice::from_ref(&body)).status, 200);
    let mut other = first.clone();
    other.summary.scenario = name("another");
    assert_eq!(collector.submit(&[line(&other)]).status, 409);
    assert_eq!(collector.submit(&["{}".to_owned()]).status, 422);
    let parsed = wait_for(&collector, |parsed| parsed.value("results{consent=\"public\"}") == 2.0);
    let by_status = ["created", "known", "conflict", "invalid", "deleted"].map(|one| parsed.lines(one));
    assert_eq!(by_status, [2.0, 1.0, 1.0, 1.0, 0.0]);
    let requests = [200, 201, 409, 422].map(|status| parsed.requests("/v1/results", status));
    assert_eq!(requests, [1.0; 4]);
    assert_eq!(parsed.value("committed_results_total"), 2.0);
    assert_eq!(parsed.value("commit_duration_seconds_count"), 3.0);
    assert_eq!(parsed.value("commit_duration_seconds_bucket{le=\"+Inf\"}"), 3.0);
    assert!(parsed.value("commit_duration_seconds_sum") > 0.0);
    assert_eq!(parsed.value("http_request_duration_seconds_count{route=\"/v1/results\"}"), 4.0);
    assert!(parsed.value("received_bytes_total") > 3.0 * body.len() as f64);
    assert!(parsed.value("stored_bytes_total{part=\"summary\"}") > 0.0);
    assert_eq!(parsed.value("follow_sequence"), 2.0);
    for none in ["failed_commits_total", "panics_total", "queue_groups", "follow_errors_total"] {
        assert_eq!(parsed.value(none), 0.0, "{none}");
    }

    let path = format!("/v1/results/{}", first.id);
    assert_eq!(collector.request("DELETE", &path).bearer(DELETION_TOKEN).send().status, 200);
    assert_eq!(collector.submit(&[body]).status, 410);
    let admin = collector.command(&["token", "--admin"]);
    let all = collector.get("/v1/results").json();
    let id = all["results"][0]["id"].as_str().unwrap_or_default().to_owned();
    let path = format!("/v1/admin/results/{id}");
    assert_eq!(collector.request("DELETE", &path).bearer(&admin).send().status, 200, "{all}");
    let parsed = wait_for(&collector, |parsed| parsed.value("results{consent=\"public\"}") == 0.0);
    let causes = ["token", "operator", "retention"];
    let causes = causes.map(|cause| parsed.value(&format!("deletions_total{{cause=\"{cause}\"}}")));
    assert_eq!((causes, parsed.lines("deleted")), ([1.0, 1.0, 0.0], 1.0));
}

#[test]
fn unknown_paths_share_one_route_and_a_flood_is_counted() {
    let collector = Collector::start(&["--open", "--rate-limit", "5"]);
    let routes = |parsed: &Parsed| -> BTreeSet<String> {
        let requests = parsed.samples.keys();
        requests.filter(|one| one.starts_with("pathbench_collector_http_requests_total")).cloned().collect()
    };
    for number in 0..5 {
        assert_eq!(collector.get(&format!("/nothing/{number}")).status, 404);
        assert_eq!(collector.get(&format!("/charts/{number}")).status, 404);
    }
    let parsed = Parsed::of(&collector);
    assert_eq!((parsed.requests("other", 404), parsed.requests("/charts/{name}", 404)), (5.0, 5.0));
    assert_eq!(routes(&parsed).len(), 2, "{parsed:#?}");
    let limited = (0..40).filter(|_| collector.get("/health").status == 429).count() as f64;
    std::thread::sleep(Duration::from_millis(500));
    let parsed = Parsed::of(&collector);
    assert!(limited >= 10.0, "{limited}");
    assert_eq!(parsed.value("rate_limited_total{route=\"/health\"}"), limited);
    assert_eq!(parsed.requests("/health", 429), limited);
    assert_eq!(parsed.requests("/health", 200), 40.0 - limited);
}

#[test]
fn connections_beyond_a_limit_are_counted() {
    let collector = Collector::start(&["--open", "--max-connections-per-client", "3"]);
    let open: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(collector.address()).unwrap()).collect();
    let parsed = wait_for(&collector, |parsed| parsed.value("http_connections") == 3.0);
    assert_eq!(parsed.value("http_refused_total{reason=\"client\"}"), 0.0);
    // The connection of that answer ends first.
    std::thread::sleep(Duration::from_millis(500));
    let third = TcpStream::connect(collector.address()).unwrap();
    let mut refused = TcpStream::connect(collector.address()).unwrap();
    refused.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Closed at once: the end of the stream, or a reset.
    assert!(matches!(refused.read(&mut [0]), Ok(0) | Err(_)));
    drop((open, third));
    std::thread::sleep(Duration::from_millis(500));
    let parsed = Parsed::of(&collector);
    assert_eq!(parsed.value("http_refused_total{reason=\"client\"}"), 1.0);
    assert_eq!(parsed.value("http_connections"), 1.0);
}

#[test]
fn agents_servers_and_tokens_are_counted() {
    let collector = Collector::start(&["--open"]);
    let key = collector.command(&["server", "add", "nyc", "--address", "192.0.2.1:4433"]);
    collector.command(&["server", "add", "lost"]);
    let key = key.lines().find(|line| line.len() == 64).unwrap_or_else(|| panic!("{key}"));
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let token = report_token(key, "nyc", now_s);
    let report = json!({ "address": "0.0.0.0:4433", "fingerprint": null, "transports": ["tcp"],
        "tests": 1, "max_tests": 4, "draining": false, "version": "0.1.0" });
    let reported = collector.request("PUT", "/v1/servers/nyc").bearer(&token).json(&report).send();
    assert_eq!(reported.status, 204, "{}", reported.text());
    let agent = "00000000-0000-0000-0000-000000000007";
    let check_in = json!({ "agent": agent, "name": "berlin", "version": "0.1.0",
        "consent": "public", "outbox": 0, "oldest_s": 0 });
    let answer = collector.request("POST", "/v1/check-in").json(&check_in).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let live = json!({ "agent": "berlin", "runs_done": 0, "runs_planned": 1, "paths": [] });
    let path = format!("/v1/live/{agent}");
    assert_eq!(collector.request("PUT", &path).json(&live).send().status, 204);
    let parsed = Parsed::of(&collector);
    assert_eq!((parsed.value("agents"), parsed.value("live_measurements")), (1.0, 1.0));
    let states = ["ready", "busy", "draining", "expired"];
    let states = states.map(|state| parsed.value(&format!("servers{{state=\"{state}\"}}")));
    assert_eq!(states, [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(parsed.value("tokens_total{server=\"nyc\"}"), 1.0);
    assert_eq!(parsed.value(&format!("build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);
    let age_s = now_s as f64 - parsed.value("start_time_seconds");
    assert!((-1.0..60.0).contains(&age_s), "{age_s}");
    // However often Prometheus asks, the database answers once in 10 s.
    collector.command(&["server", "add", "another"]);
    assert_eq!(Parsed::of(&collector).value("servers{state=\"expired\"}"), 1.0);
}
