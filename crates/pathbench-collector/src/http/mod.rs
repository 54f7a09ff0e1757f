//! The HTTP API.

pub mod access;
mod admin;
mod body;
pub mod check_in;
pub mod limits;
pub mod openapi;
mod privacy;
pub mod problem;
mod results;
pub mod server;

use crate::clock::Clock;
use crate::ingest::{Figures, Writer};
use crate::log::Log;
use crate::raw::RawStore;
use crate::reader::{self, Reader, View};
use crate::store::Database;
use access::Gate;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json, Router};
use body::blocking;
use limits::{MemoryBudget, RateLimit};
use pathbench_api::problem::LineAnswer;
use problem::Refusal;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// What all requests share.
#[derive(Debug)]
pub struct App {
    pub database: Arc<dyn Database>,
    pub raw: Arc<dyn RawStore>,
    pub reader: Arc<Reader>,
    pub writer: Writer,
    pub clock: Arc<dyn Clock>,
    pub gate: Gate,
    pub rate: RateLimit,
    pub memory: MemoryBudget,
    pub metrics: Metrics,
    pub log: Log,
    /// The name in the text about privacy.
    pub operator: Option<String>,
    pub retention: Option<Duration>,
    /// Whether the columns have followed all changes that the database had at the start.
    pub is_loaded: AtomicBool,
}

/// Counts since the start, for `/metrics`.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: [AtomicU64; 5],
    /// By [`LineAnswer::code`].
    lines: [AtomicU64; 7],
    limited: AtomicU64,
    panics: AtomicU64,
}

const LINE_CODES: [(u16, &str); 7] = [
    (201, "created"),
    (200, "known"),
    (409, "conflict"),
    (410, "deleted"),
    (422, "invalid"),
    (413, "large"),
    (503, "busy"),
];

impl Metrics {
    fn count_lines(&self, answers: &[LineAnswer]) {
        for answer in answers {
            if let Some(index) = LINE_CODES.iter().position(|(code, _)| *code == answer.code) {
                self.lines[index].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn count_answer(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.requests[class].fetch_add(1, Ordering::Relaxed);
    }

    /// The text format of Prometheus, version 0.0.4.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, help: &str| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n");
            name.to_owned()
        };
        let requests = family("pathbench_collector_requests_total", "Requests by the class of their status.");
        for (index, count) in self.requests.iter().enumerate() {
            let _ =
                writeln!(text, "{requests}{{status=\"{}xx\"}} {}", index + 1, count.load(Ordering::Relaxed));
        }
        let mut family = |name: &str, help: &str| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n");
            name.to_owned()
        };
        let lines = family("pathbench_collector_submissions_total", "Submissions by their fate.");
        for ((_, fate), count) in LINE_CODES.iter().zip(&self.lines) {
            let _ = writeln!(text, "{lines}{{fate=\"{fate}\"}} {}", count.load(Ordering::Relaxed));
        }
        for (name, help, count) in [
            ("pathbench_collector_rate_limited_total", "Requests beyond a client's rate.", &self.limited),
            ("pathbench_collector_panics_total", "Requests that ended in a panic.", &self.panics),
        ] {
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} counter\n{name} {}\n",
                count.load(Ordering::Relaxed)
            );
        }
        text
    }
}

/// All routes, behind the limits that hold for every request.
pub fn router(app: Arc<App>) -> Router {
    let admin = Router::new()
        .route("/experiments", get(admin::experiments))
        .route("/experiments/{name}", put(admin::put_experiment).delete(admin::remove_experiment))
        .route("/servers", get(admin::servers))
        .route("/servers/{name}", put(admin::put_server).delete(admin::remove_server))
        .route("/agents", get(admin::agents))
        .route("/tokens", post(admin::token))
        .route("/results/{id}", delete(admin::delete_result))
        .layer(from_fn_with_state(Arc::clone(&app), admin::only_operator));
    let pages = |view: View| reader::routes().layer(Extension(view)).with_state(Arc::clone(&app.reader));
    let operator = pages(View::OPERATOR).layer(from_fn_with_state(Arc::clone(&app), admin::only_operator));
    let own = Router::new()
        .route("/v1/results", post(results::post).delete(results::delete_all))
        .route("/v1/results/{id}", delete(results::delete_one))
        .route("/v1/check-in", post(check_in::check_in))
        .route("/v1/servers/{name}", put(check_in::report))
        .route("/v1/live/{agent}", put(check_in::live))
        .route("/v1/privacy", get(privacy_text))
        .route("/v1/openapi.json", get(async || Json(openapi::document())))
        .nest("/v1/admin", admin)
        .route("/admin", get(async || Redirect::permanent("/admin/")))
        .route("/health", get(async || Json(json!({ "status": "ok" }))))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Arc::clone(&app));
    own.merge(pages(View::EVERYBODY))
        .nest("/admin/", operator)
        .fallback(async || Refusal::not_found("there is nothing at this path; /v1/openapi.json lists all"))
        .method_not_allowed_fallback(async |method: Method| not_allowed(&method))
        .layer(from_fn_with_state(app, guard))
}

fn not_allowed(method: &Method) -> Response {
    let problem = pathbench_api::problem::Problem {
        status: 405,
        error: format!("{method} is not possible here; /v1/openapi.json lists what is"),
        retryable: false,
    };
    (StatusCode::METHOD_NOT_ALLOWED, Json(problem)).into_response()
}

/// The rate of a client, panics, and headers of every answer.
async fn guard(State(app): State<Arc<App>>, request: Request<Body>, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let mut response = if let Err(wait) = app.rate.take(peer, app.clock.monotonic()) {
        app.metrics.limited.fetch_add(1, Ordering::Relaxed);
        Refusal::too_many("too many requests from your address", wait).into_response()
    } else {
        contained(&app, request, next).await
    };
    app.metrics.count_answer(response.status());
    secure(&mut response);
    response
}

/// A task of its own contains a panic.
async fn contained(app: &App, request: Request<Body>, next: Next) -> Response {
    let place = format!("{} {}", request.method(), request.uri().path());
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => {
            app.metrics.panics.fetch_add(1, Ordering::Relaxed);
            app.log.error("panic", json!({ "request": place, "error": error.to_string() }));
            Refusal::failed("this request failed in the collector; its log has the reason").into_response()
        }
    }
}

/// Headers that a response of its own kind has not set.
fn secure(response: &mut Response) {
    const HEADERS: [(HeaderName, &str); 5] = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}

async fn privacy_text(State(app): State<Arc<App>>) -> String {
    privacy::text(app.operator.as_deref(), app.retention, app.gate.submit == access::SubmitAccess::Open)
}

async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    if !app.is_loaded.load(Ordering::SeqCst) {
        return Err(Refusal::busy("the collector still loads its figures", Duration::from_secs(2)));
    }
    let (database, raw) = (Arc::clone(&app.database), Arc::clone(&app.raw));
    blocking(move || {
        database.check().map_err(Refusal::failed)?;
        raw.check().map_err(Refusal::failed)?;
        Ok(Json(json!({ "status": "ready" })))
    })
    .await
}

/// The writer's part of `/metrics`.
fn writer_text(figures: &Figures) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in [
        ("commits_total", "counter", "Commits of the writer.", figures.commits),
        (
            "failed_commits_total",
            "counter",
            "Commits that the database or the raw store failed.",
            figures.failed_commits,
        ),
        (
            "refused_groups_total",
            "counter",
            "Groups for which the queue had no room.",
            figures.refused_groups,
        ),
        ("summary_bytes_total", "counter", "Bytes of stored summaries.", figures.summary_bytes),
        ("raw_bytes_total", "counter", "Bytes of stored raw parts.", figures.raw_bytes),
        ("writer_panics_total", "counter", "Panics of the writer.", figures.panics),
        ("queue_groups", "gauge", "Groups that wait for the writer.", figures.queue_groups),
        ("queue_bytes", "gauge", "Bytes that wait for the writer.", figures.queue_bytes),
    ] {
        let name = format!("pathbench_collector_{name}");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    text
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut text = app.metrics.text();
    text.push_str(&writer_text(&app.writer.figures()));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
