//! The counts of the HTTP API.

use super::blocking::blocking;
use crate::ingest::{Figures, Writer};
use crate::metrics::{Durations, METRICS, PREFIX};
use crate::reader::ResultReader;
use crate::refusal::Refusal;
use crate::store::record::{KnownServer, records};
use crate::store::{Database, Deletion, Document, DocumentKind};
use axum::http::StatusCode;
use pathbench_api::anonymise::addresses;
use pathbench_api::check_in::SERVER_EXPIRY_MS;
use pathbench_api::live::EXPIRY_MS;
use pathbench_api::problem::{LineAnswer, LineStatus};
use pathbench_program::exposition::Exposition;
use pathbench_record::time::{Timestamp, WallClock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Documents are counted again after this time, however often Prometheus asks.
const DOCUMENTS_AGE: Duration = Duration::from_secs(10);

/// Time for counting them; without them, the answer has the other metrics.
const DOCUMENTS_TIME: Duration = Duration::from_secs(3);

/// Agents that checked in within this time are counted.
const AGENT_AGE_MS: u64 = 24 * 3600 * 1000;

/// Names of servers with a count of their own. The operator registers them; this bounds years of changes.
const MOST_SERVERS: usize = 1_000;

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// As many are open as may be.
    Connections,
    /// As many are open of this client.
    Client,
    /// The TLS handshake failed or lasted too long.
    Tls,
    /// A request lasted too long.
    Time,
}

impl Refused {
    /// In the order of the variants.
    const LABELS: [&str; Self::Time as usize + 1] = ["connections", "client", "tls", "time"];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Token,
    Operator,
    Retention,
}

impl Cause {
    /// In the order of the variants.
    const LABELS: [&str; Self::Retention as usize + 1] = ["token", "operator", "retention"];

    fn from_deletion(deletion: &Deletion) -> Self {
        match deletion {
            Deletion::One(_) => Self::Operator,
            Deletion::OneWithToken(..) | Deletion::AllWithToken(_) => Self::Token,
            Deletion::ReceivedBefore(_) => Self::Retention,
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    start_ms: u64,
    /// By route: as many as the router has, and one for all other requests.
    routes: Mutex<BTreeMap<String, Route>>,
    /// By [`LineStatus`].
    lines: [AtomicU64; LineStatus::NAMES.len()],
    panics: AtomicU64,
    received_bytes: AtomicU64,
    connections: AtomicU64,
    refused: [AtomicU64; Refused::LABELS.len()],
    follow_errors: AtomicU64,
    deleted: [AtomicU64; Cause::LABELS.len()],
    tokens: Mutex<BTreeMap<String, u64>>,
    documents: Mutex<Option<(Timestamp, Option<Documents>)>>,
}

#[derive(Debug, Default)]
struct Route {
    statuses: BTreeMap<u16, u64>,
    limited: u64,
    durations: Durations,
}

/// From the documents of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Documents {
    agents: u64,
    live: u64,
    ready: u64,
    busy: u64,
    draining: u64,
    expired: u64,
}

impl Metrics {
    pub fn new(clock: &dyn WallClock) -> Self {
        Self { start_ms: clock.unix_ms(), ..Self::default() }
    }

    pub(super) fn count_lines(&self, answers: &[LineAnswer]) {
        for answer in answers {
            self.lines[answer.status as usize].fetch_add(1, Relaxed);
        }
    }

    pub(super) fn count_request(
        &self,
        route: &str,
        status: StatusCode,
        duration: Duration,
        is_limited: bool,
    ) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = routes.entry(route.to_owned()).or_default();
        *counts.statuses.entry(status.as_u16()).or_default() += 1;
        counts.limited += u64::from(is_limited);
        counts.durations.0.observe(duration.as_secs_f64());
    }

    pub(super) fn count_panic(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn connection_opened(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(super) fn count_refused(&self, reason: Refused) {
        self.refused[reason as usize].fetch_add(1, Relaxed);
    }

    pub fn count_follow_error(&self) {
        self.follow_errors.fetch_add(1, Relaxed);
    }

    pub fn count_deleted(&self, deletion: &Deletion, results: u64) {
        self.deleted[Cause::from_deletion(deletion) as usize].fetch_add(results, Relaxed);
    }

    pub fn count_retention(&self, results: u64) {
        self.deleted[Cause::Retention as usize].fetch_add(results, Relaxed);
    }

    /// Everybody can read the metrics: a name that holds an address is counted in its anonymous form.
    pub(super) fn count_token(&self, server: &str) {
        let server = addresses(server);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = tokens.len() < MOST_SERVERS || tokens.contains_key(&server);
        *tokens.entry(if is_own { server } else { "other".to_owned() }).or_default() += 1;
    }

    /// The text of `GET /metrics`.
    pub(super) async fn text(
        &self,
        database: &Arc<dyn Database>,
        clock: &dyn WallClock,
        writer: &Writer,
        reader: &ResultReader,
    ) -> String {
        let mut exposition = Exposition::new(PREFIX, &METRICS);
        if let Some(documents) = self.documents(database, clock).await {
            documents.add_to(&mut exposition);
        }
        let figures = writer.figures();
        add_writer(&figures, &mut exposition);
        let panics = self.panics.load(Relaxed) + figures.panics;
        exposition.add("panics", &[], panics as f64);
        self.add_to(&mut exposition);
        add_reader(reader, &mut exposition);
        exposition.text()
    }

    /// At most one query in [`DOCUMENTS_AGE`], also while the database fails or is slow; `None` then.
    async fn documents(&self, database: &Arc<dyn Database>, clock: &dyn WallClock) -> Option<Documents> {
        let now = clock.now();
        {
            let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
            match *documents {
                Some((at, known)) if now.duration_since(at) < DOCUMENTS_AGE => return known,
                _ => {
                    // Requests until the answer get the earlier counts.
                    let earlier = documents.and_then(|(_, known)| known);
                    *documents = Some((now, earlier));
                }
            }
        }
        let (database, now_ms) = (Arc::clone(database), clock.unix_ms());
        let read = blocking(move || Documents::read(database.as_ref(), now_ms));
        let read = tokio::time::timeout(DOCUMENTS_TIME, read).await.ok().and_then(Result::ok);
        *self.documents.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, read));
        read
    }

    fn add_to(&self, exposition: &mut Exposition) {
        let mut add = |name: &str, labels: &[&str], value: u64| exposition.add(name, labels, value as f64);
        add("follow_errors", &[], self.follow_errors.load(Relaxed));
        add("http_connections", &[], self.connections.load(Relaxed));
        add("received_bytes", &[], self.received_bytes.load(Relaxed));
        for (status, count) in LineStatus::NAMES.iter().zip(&self.lines) {
            add("lines", &[status], count.load(Relaxed));
        }
        for (reason, count) in Refused::LABELS.iter().zip(&self.refused) {
            add("http_refused", &[reason], count.load(Relaxed));
        }
        for (cause, count) in Cause::LABELS.iter().zip(&self.deleted) {
            add("deletions", &[cause], count.load(Relaxed));
        }
        for (server, count) in self.tokens.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            add("tokens", &[server], *count);
        }
        exposition.add("start_time_seconds", &[], self.start_ms as f64 / 1e3);
        self.add_routes(exposition);
    }

    fn add_routes(&self, exposition: &mut Exposition) {
        for (route, counts) in self.routes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (status, count) in &counts.statuses {
                let labels = [route.as_str(), &status.to_string()];
                exposition.add("http_requests", &labels, *count as f64);
            }
            exposition.add("rate_limited", &[route], counts.limited as f64);
            exposition.add_histogram("http_request_duration_seconds", &[route], &counts.durations.0);
        }
    }
}

impl Documents {
    fn read(database: &dyn Database, now_ms: u64) -> Result<Self, Refusal> {
        let since = |age_ms: u64| now_ms.saturating_sub(age_ms);
        let count = |kind, age_ms| database.count_documents(kind, since(age_ms)).map_err(Refusal::from);
        let mut counts = Self {
            agents: count(DocumentKind::Agent, AGENT_AGE_MS)?,
            live: count(DocumentKind::Live, EXPIRY_MS)?,
            ..Self::default()
        };
        let reports: Vec<(Document, KnownServer)> = records(database, DocumentKind::ServerReport)?;
        let is_current = |document: &Document| document.updated_ms > since(SERVER_EXPIRY_MS);
        for server in database.documents(DocumentKind::Server)? {
            let mut current = reports.iter().filter(|(document, _)| is_current(document));
            let count = match current.find(|(document, _)| document.key == server.key) {
                Some((_, known)) if known.report.draining => &mut counts.draining,
                Some((_, known)) if known.report.tests >= known.report.max_tests => &mut counts.busy,
                Some(_) => &mut counts.ready,
                None => &mut counts.expired,
            };
            *count += 1;
        }
        Ok(counts)
    }

    fn add_to(self, exposition: &mut Exposition) {
        let mut add = |name: &str, labels: &[&str], value: u64| exposition.add(name, labels, value as f64);
        add("agents", &[], self.agents);
        add("live_measurements", &[], self.live);
        for (state, count) in [
            ("ready", self.ready),
            ("busy", self.busy),
            ("draining", self.draining),
            ("expired", self.expired),
        ] {
            add("servers", &[state], count);
        }
    }
}

fn add_writer(figures: &Figures, exposition: &mut Exposition) {
    for (name, value) in [
        ("committed_results", figures.created),
        ("failed_commits", figures.failed_commits),
        ("queue_bytes", figures.queue_bytes),
        ("queue_capacity_groups", figures.queue_capacity_groups),
        ("queue_groups", figures.queue_groups),
        ("refused_groups", figures.refused_groups),
    ] {
        exposition.add(name, &[], value as f64);
    }
    for (part, bytes) in [("raw", figures.raw_bytes), ("summary", figures.summary_bytes)] {
        exposition.add("stored_bytes", &[part], bytes as f64);
    }
    exposition.add_histogram("commit_duration_seconds", &[], &figures.commit_durations.0);
}

fn add_reader(reader: &ResultReader, exposition: &mut Exposition) {
    let (public, all, sequence, unreadable, left_out) = {
        let columns = reader.columns();
        (
            columns.public_results(),
            columns.results(),
            columns.last_sequence(),
            columns.unreadable(),
            columns.left_out(),
        )
    };
    exposition.add("results", &["public"], public as f64);
    exposition.add("results", &["private"], (all - public) as f64);
    exposition.add("follow_sequence", &[], sequence as f64);
    exposition.add("left_out_results", &[], left_out as f64);
    exposition.add("unreadable_results", &[], unreadable as f64);
    exposition.add("read_failures", &[], reader.failures.load(Relaxed) as f64);
}
