//! Answers for monitors: `/health`, `/ready` and `/metrics`.

use super::app::App;
use super::blocking::blocking;
use crate::refusal::Refusal;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use pathbench_program::exposition::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The state of the collector.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Status {
    /// `ok` or `ready`
    status: &'static str,
}

pub(super) async fn health() -> Json<Status> {
    Json(Status { status: "ok" })
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Status>, Refusal> {
    if !app.is_loaded.load(Ordering::SeqCst) {
        return Err(Refusal::busy("the collector still loads its figures", Duration::from_secs(2)));
    }
    blocking(move || {
        app.readiness.check(app.clock.as_ref(), || {
            app.database.check()?;
            Ok(app.raw.check()?)
        })
    })
    .await?;
    Ok(Json(Status { status: "ready" }))
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let text = app.metrics.text(&app.database, app.clock.as_ref(), &app.writer, &app.reader).await;
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)
}
