//! Metrics in the text format of Prometheus (version 0.0.4).
//!
//! [`METRICS`] has every name with its labels; the parts of the collector fill an [`Exposition`] when Prometheus asks.

mod durations;

pub use durations::Durations;

use crate::reader::ResultReader;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// `Content-Type` of an exposition.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, help, labels }
}

use Kind::{Counter, Gauge, Histogram};

/// Every metric of the collector, by name.
pub const METRICS: [Metric; 28] = [
    metric("pathbench_collector_agents", Gauge, &[], "Agents that checked in within the last day."),
    metric("pathbench_collector_build_info", Gauge, &["version"], "1, with the version of the collector."),
    metric(
        "pathbench_collector_commit_duration_seconds",
        Histogram,
        &[],
        "Time of a commit, raw parts included.",
    ),
    metric("pathbench_collector_committed_results_total", Counter, &[], "New results of all commits."),
    metric(
        "pathbench_collector_deletions_total",
        Counter,
        &["cause"],
        "Results deleted by this collector: token, operator, retention.",
    ),
    metric(
        "pathbench_collector_failed_commits_total",
        Counter,
        &[],
        "Commits that failed in the database or the raw store.",
    ),
    metric("pathbench_collector_follow_errors_total", Counter, &[], "Failed reads of the change feed."),
    metric(
        "pathbench_collector_follow_sequence",
        Gauge,
        &[],
        "Sequence number of the last change in the columns.",
    ),
    metric("pathbench_collector_http_connections", Gauge, &[], "Open connections."),
    metric(
        "pathbench_collector_http_refused_total",
        Counter,
        &["reason"],
        "Connections that the collector closed, by reason: connections, client, tls (failed handshake), time.",
    ),
    metric(
        "pathbench_collector_http_request_duration_seconds",
        Histogram,
        &["route"],
        "Time from a request's head to the head of its answer.",
    ),
    metric(
        "pathbench_collector_http_requests_total",
        Counter,
        &["route", "status"],
        "Requests by route and status.",
    ),
    metric(
        "pathbench_collector_lines_total",
        Counter,
        &["status"],
        "Submitted lines by status: created, known, conflict, deleted, invalid, large, busy.",
    ),
    metric("pathbench_collector_live_measurements", Gauge, &[], "Running measurements with a report."),
    metric(
        "pathbench_collector_panics_total",
        Counter,
        &[],
        "Contained panics of requests and of the writer.",
    ),
    metric("pathbench_collector_queue_bytes", Gauge, &[], "Bytes that wait for the writer."),
    metric("pathbench_collector_queue_capacity_groups", Gauge, &[], "Groups that the queue can hold."),
    metric("pathbench_collector_queue_groups", Gauge, &[], "Groups of submissions that wait for the writer."),
    metric(
        "pathbench_collector_rate_limited_total",
        Counter,
        &["route"],
        "Requests above the rate of their client.",
    ),
    metric("pathbench_collector_read_failures_total", Counter, &[], "Pages and files that failed."),
    metric(
        "pathbench_collector_received_bytes_total",
        Counter,
        &[],
        "Bytes of bodies, before decompression.",
    ),
    metric(
        "pathbench_collector_refused_groups_total",
        Counter,
        &[],
        "Groups for which the queue had no room.",
    ),
    metric("pathbench_collector_results", Gauge, &["consent"], "Results in the columns."),
    metric(
        "pathbench_collector_servers",
        Gauge,
        &["state"],
        "Registered test servers: ready, busy, draining, expired.",
    ),
    metric("pathbench_collector_start_time_seconds", Gauge, &[], "Unix time of the start."),
    metric(
        "pathbench_collector_stored_bytes_total",
        Counter,
        &["part"],
        "Stored bytes of new results: raw, summary.",
    ),
    metric("pathbench_collector_tokens_total", Counter, &["server"], "Tokens for test servers."),
    metric("pathbench_collector_unreadable_results", Gauge, &[], "Results whose facts cannot be read."),
];

pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|one| one.name == name)
}

/// Samples, in the order of [`METRICS`]; a metric without samples has its help and type. A name that is not in the list, or with other labels, is left out: a test of
/// its caller finds that.
#[derive(Debug, Clone, Default)]
pub struct Exposition {
    samples: BTreeMap<&'static str, String>,
}

/// A histogram: upper bounds with cumulative counts, and the sum of all values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Buckets {
    /// Ascending; without the last bucket, `+Inf`.
    pub bounds: Vec<(f64, u64)>,
    pub sum: f64,
    pub count: u64,
}

impl Exposition {
    /// A sample of a counter or gauge; labels in the order of the list.
    pub fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        if let Some(metric) = find(name).filter(|one| one.labels.len() == labels.len()) {
            let labels = braces(metric.labels.iter().copied().zip(labels.iter().copied()));
            self.line(metric, &format!("{}{labels}", metric.name), value);
        }
    }

    pub fn add_histogram(&mut self, name: &str, labels: &[&str], buckets: &Buckets) {
        let metric = find(name).filter(|one| one.labels.len() == labels.len() && one.kind == Histogram);
        let Some(metric) = metric else { return };
        let pairs = || metric.labels.iter().copied().zip(labels.iter().copied());
        let bounds = buckets.bounds.iter().map(|(bound, count)| (number(*bound), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), buckets.count)]) {
            let labels = braces(pairs().chain([("le", bound.as_str())]));
            self.line(metric, &format!("{}_bucket{labels}", metric.name), count as f64);
        }
        let labels = braces(pairs());
        self.line(metric, &format!("{}_sum{labels}", metric.name), buckets.sum);
        self.line(metric, &format!("{}_count{labels}", metric.name), buckets.count as f64);
    }

    fn line(&mut self, metric: &'static Metric, sample: &str, value: f64) {
        let lines = self.samples.entry(metric.name).or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{sample} {}", number(value));
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for metric in METRICS {
            let lines = self.samples.get(metric.name).map_or("", String::as_str);
            let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
            let kind = metric.kind.name();
            let _ = write!(text, "# HELP {} {help}\n# TYPE {} {kind}\n{lines}", metric.name, metric.name);
        }
        text
    }
}

/// `NaN`, `+Inf` and `-Inf` as the format has them.
fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

fn braces<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl ResultReader {
    /// Adds the metrics of the columns and of reading.
    pub fn add_metrics(&self, exposition: &mut Exposition) {
        let (public, all, sequence, unreadable) = {
            let columns = self.columns();
            (columns.public_results(), columns.results(), columns.last_sequence(), columns.unreadable())
        };
        exposition.add("pathbench_collector_results", &["public"], public as f64);
        exposition.add("pathbench_collector_results", &["private"], (all - public) as f64);
        exposition.add("pathbench_collector_follow_sequence", &[], sequence as f64);
        exposition.add("pathbench_collector_unreadable_results", &[], unreadable as f64);
        let failures = self.failures.load(Ordering::Relaxed);
        exposition.add("pathbench_collector_read_failures_total", &[], failures as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        assert!(METRICS.is_sorted_by_key(|one| one.name));
        for one in METRICS {
            assert!(one.name.starts_with("pathbench_collector_"), "{}", one.name);
            assert_eq!(one.name.ends_with("_total"), one.kind == Counter, "{}", one.name);
            assert!(one.name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{}", one.name);
            assert!(one.help.ends_with('.'), "{}", one.name);
            assert!(!one.labels.contains(&"le"), "{}", one.name);
        }
    }

    #[test]
    fn an_exposition_has_help_type_and_escaped_labels() {
        let mut exposition = Exposition::default();
        exposition.add("pathbench_collector_tokens_total", &["a\"b\\c\nd"], 2.0);
        exposition.add("pathbench_collector_tokens_total", &["e"], 1e15);
        exposition.add("pathbench_collector_agents", &[], f64::INFINITY);
        // Unknown names and wrong labels are left out.
        exposition.add("pathbench_collector_nothing", &[], 1.0);
        exposition.add("pathbench_collector_agents", &["x"], 1.0);
        let text = exposition.text();
        for part in [
            "# HELP pathbench_collector_agents Agents that checked in within the last day.\n\
             # TYPE pathbench_collector_agents gauge\n\
             pathbench_collector_agents +Inf\n\
             # HELP pathbench_collector_build_info ",
            "# TYPE pathbench_collector_tokens_total counter\n\
             pathbench_collector_tokens_total{server=\"a\\\"b\\\\c\\nd\"} 2\n\
             pathbench_collector_tokens_total{server=\"e\"} 1000000000000000\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(text.matches("# TYPE ").count(), METRICS.len());
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 3);
    }

    #[test]
    fn a_histogram_has_buckets_sum_and_count() {
        let mut exposition = Exposition::default();
        let buckets = Buckets { bounds: vec![(0.1, 3), (1.0, 4)], sum: 7.5, count: 6 };
        exposition.add_histogram("pathbench_collector_http_request_duration_seconds", &["/"], &buckets);
        let text = exposition.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = "pathbench_collector_http_request_duration_seconds";
        assert_eq!(
            lines,
            [
                format!("{name}_bucket{{route=\"/\",le=\"0.1\"}} 3"),
                format!("{name}_bucket{{route=\"/\",le=\"1\"}} 4"),
                format!("{name}_bucket{{route=\"/\",le=\"+Inf\"}} 6"),
                format!("{name}_sum{{route=\"/\"}} 7.5"),
                format!("{name}_count{{route=\"/\"}} 6"),
            ]
        );
    }
}
