//! Every metric of the collector.

use pathbench_program::exposition::MetricType::{Counter, Gauge, Histogram};
use pathbench_program::exposition::{Histogram as Buckets, Metric, metric};

/// The first part of all names.
pub const PREFIX: &str = "pathbench_collector";

/// Every metric of the collector, by name.
pub const METRICS: [Metric; 28] = [
    metric("agents", Gauge, &[], "Agents that checked in within the last day."),
    metric("commit_duration_seconds", Histogram, &[], "Time of a commit, raw parts included."),
    metric("committed_results", Counter, &[], "New results of all commits."),
    metric(
        "deletions",
        Counter,
        &["cause"],
        "Results deleted by this collector: token, operator, retention.",
    ),
    metric("failed_commits", Counter, &[], "Commits that failed in the database or the raw store."),
    metric("follow_errors", Counter, &[], "Failed reads of the change feed."),
    metric("follow_sequence", Gauge, &[], "Sequence number of the last change in the columns."),
    metric("http_connections", Gauge, &[], "Open connections."),
    metric(
        "http_refused",
        Counter,
        &["reason"],
        "Connections that the collector closed, by reason: connections, client, tls (failed handshake), time.",
    ),
    metric(
        "http_request_duration_seconds",
        Histogram,
        &["route"],
        "Time from a request's head to the head of its answer.",
    ),
    metric("http_requests", Counter, &["route", "status"], "Requests by route and status."),
    metric("left_out_results", Gauge, &[], "The oldest results, for which the columns have no memory."),
    metric(
        "lines",
        Counter,
        &["status"],
        "Submitted lines by status: created, known, conflict, deleted, invalid, large, busy.",
    ),
    metric("live_measurements", Gauge, &[], "Running measurements with a report."),
    metric("panics", Counter, &[], "Contained panics of requests and of the writer."),
    metric("queue_bytes", Gauge, &[], "Bytes that wait for the writer."),
    metric("queue_capacity_groups", Gauge, &[], "Groups that the queue can hold."),
    metric("queue_groups", Gauge, &[], "Groups of submissions that wait for the writer."),
    metric("rate_limited", Counter, &["route"], "Requests above the rate of their client."),
    metric("read_failures", Counter, &[], "Pages and files that failed."),
    metric("received_bytes", Counter, &[], "Bytes of bodies, before decompression."),
    metric("refused_groups", Counter, &[], "Groups that did not fit into the queue."),
    metric("results", Gauge, &["consent"], "Results in the columns."),
    metric("servers", Gauge, &["state"], "Registered test servers: ready, busy, draining, expired."),
    metric("start_time_seconds", Gauge, &[], "Unix time of the start."),
    metric("stored_bytes", Counter, &["part"], "Stored bytes of new results: raw, summary."),
    metric("tokens", Counter, &["server"], "Tokens for test servers."),
    metric("unreadable_results", Gauge, &[], "Results whose facts cannot be read."),
];

/// Durations in seconds, by upper bounds from a page in memory to a submission that waits for the writer (30 s).
#[derive(Debug, Clone)]
pub struct Durations(pub Buckets);

impl Default for Durations {
    fn default() -> Self {
        let bounds_s = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];
        Self(Buckets::new(bounds_s))
    }
}
