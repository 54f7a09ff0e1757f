//! Answers: blocking work with a bound, problems as JSON, headers.

use super::{Reader, View};
use crate::raw::RawError;
use crate::store::StoreError;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pathbench_api::problem::Problem;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a request waits for others.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    pub status: u16,
    pub error: String,
    pub retryable: bool,
}

impl Failure {
    pub fn new(status: u16, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), retryable: status == 503 }
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(404, format!("no such {what}"))
    }

    pub(super) fn busy() -> Self {
        Self::new(503, "the collector is busy; try again in 5 s")
    }

    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<StoreError> for Failure {
    /// The place of a database is nothing for everybody.
    fn from(_: StoreError) -> Self {
        Self::new(503, "the database does not answer; try again in 5 s")
    }
}

impl From<RawError> for Failure {
    fn from(_: RawError) -> Self {
        Self::new(503, "the raw store does not answer; try again in 5 s")
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { status, error, retryable } = self.clone();
        let body = serde_json::to_string(&Problem { status, error, retryable }).unwrap_or_default();
        let mut response = typed("application/json", body);
        *response.status_mut() = self.code();
        self.add_headers(response.headers_mut());
        response
    }
}

impl Failure {
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        if self.status == 503 {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// A body of a type.
pub(crate) fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

impl<S: Send + Sync> FromRequestParts<S> for View {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or(Self::EVERYBODY))
    }
}

/// Runs blocking work that reads columns or the database.
pub(crate) async fn read<T: Send + 'static>(
    reader: &Arc<Reader>,
    work: impl FnOnce(&Reader) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking(reader, &reader.reads, work).await
}

/// Runs blocking work that unpacks raw parts.
pub(super) async fn unpack<T: Send + 'static>(
    reader: &Arc<Reader>,
    work: impl FnOnce(&Reader) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking(reader, &reader.unpacking, work).await
}

async fn blocking<T: Send + 'static>(
    reader: &Arc<Reader>,
    permits: &Arc<Semaphore>,
    work: impl FnOnce(&Reader) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let waiting = tokio::time::timeout(LONGEST_WAIT, Arc::clone(permits).acquire_owned()).await;
    let Ok(Ok(permit)) = waiting else { return Err(Failure::busy()) };
    let of_work = Arc::clone(reader);
    let done = tokio::task::spawn_blocking(move || {
        // Until the work is done, also if the client has gone.
        let _permit = permit;
        work(&of_work)
    });
    done.await.unwrap_or_else(|error| {
        if error.is_panic() {
            // The task of the request counts it and writes it to the log.
            std::panic::resume_unwind(error.into_panic());
        }
        reader.failures.fetch_add(1, Ordering::Relaxed);
        Err(Failure::new(500, "the collector failed at this request"))
    })
}
