//! The HTTP API.

pub mod access;
mod admin;
mod app;
mod blocking;
mod body;
pub mod check_in;
pub mod limits;
mod metrics;
mod monitoring;
pub mod openapi;
mod privacy;
pub mod ready;
mod results;
pub mod server;
mod write_deadline;

pub use app::App;
pub use metrics::Metrics;
pub use server::Peer;

use crate::page;
use crate::reader::answer::counted;
use crate::reader::{self, ResultReader};
use crate::refusal::{Cause, Refusal};
use crate::task;
use crate::viewer::View;
use access::SubmitAccess;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json, Router};
use pathbench_record::network::Client;
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// Pages and the read-only API. Requests carry a [`View`] in their extensions.
pub fn reading_routes() -> Router<Arc<ResultReader>> {
    reader::routes().merge(page::routes())
}

/// All routes, behind the limits that hold for every request.
pub fn router(app: Arc<App>) -> Router {
    let admin = Router::new()
        .route("/experiments", get(admin::experiments))
        .route("/experiments/{name}", put(admin::put_experiment).delete(admin::remove_experiment))
        .route("/servers", get(admin::servers))
        .route("/servers/{name}", put(admin::put_server).delete(admin::delete_server))
        .route("/agents", get(admin::agents))
        .route("/tokens", post(admin::token))
        .route("/revocations/{serial}", put(admin::revoke))
        .route("/results/{id}", delete(admin::delete_result))
        .layer(from_fn_with_state(Arc::clone(&app), admin::only_operator));
    let pages = |view: View| reading_routes().layer(Extension(view)).with_state(Arc::clone(&app.reader));
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
        .route("/health", get(monitoring::health))
        .route("/ready", get(monitoring::ready))
        .route("/metrics", get(monitoring::metrics))
        .with_state(Arc::clone(&app));
    own.merge(pages(View::EVERYBODY))
        .nest("/admin/", operator)
        .fallback(async || Refusal::not_found("there is nothing at this path; /v1/openapi.json lists all"))
        .method_not_allowed_fallback(async |method: Method| not_allowed(&method))
        .layer(from_fn_with_state(app, guard))
}

fn not_allowed(method: &Method) -> Refusal {
    let error = format!("{method} is not possible here; /v1/openapi.json lists what is");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error)
}

/// The rate of a client, panics, counts, and headers of every answer.
async fn guard(State(app): State<Arc<App>>, request: Request<Body>, next: Next) -> Response {
    let started = app.clock.now();
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let limited = app.rate.take(peer, started).err();
    let mut response = if let Some(wait) = limited {
        Refusal::too_many("too many requests from your address", wait).into_response()
    } else {
        let client = Client::from(peer);
        counted(&app.reader, client, contained(&app, client, request, next).await)
    };
    if let Some(Cause(cause)) = response.extensions().get() {
        app.log.error(
            "request failed",
            json!({ "route": route.as_ref().map(MatchedPath::as_str), "error": cause }),
        );
    }
    if is_rejection(&response) {
        response = problem_of(response).await;
    }
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    let duration = app.clock.now().duration_since(started);
    app.metrics.count_request(route, response.status(), duration, limited.is_some());
    secure(&mut response);
    response
}

/// Whether the framework rejected the request, in plain text: a path without a UUID, for instance.
fn is_rejection(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    response.status().as_u16() >= 400 && (kind.is_empty() || kind.starts_with(b"text/plain"))
}

async fn problem_of(response: Response) -> Response {
    const MOST_BYTES: usize = 1024;
    let (parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, MOST_BYTES).await.unwrap_or_default();
    let error = String::from_utf8_lossy(&text);
    let error = if error.is_empty() { parts.status.canonical_reason().unwrap_or_default() } else { &error };
    let mut answer = Refusal::new(parts.status, error).into_response();
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

/// Ends a task when its request has ended.
struct AbortOnDrop(tokio::task::JoinHandle<Response>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A task of its own contains a panic. It ends with its client's connection.
async fn contained(app: &App, client: Client, request: Request<Body>, next: Next) -> Response {
    let line = format!("{} {}", request.method(), request.uri().path());
    let mut task = AbortOnDrop(tokio::spawn(task::for_client(client, next.run(request))));
    match (&mut task.0).await {
        Ok(response) => response,
        Err(error) => {
            app.metrics.count_panic();
            app.log.error("panic", json!({ "request": line, "error": error.to_string() }));
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
    privacy::text(app.operator.as_deref(), app.retention, app.gate.submit == SubmitAccess::Open)
}
