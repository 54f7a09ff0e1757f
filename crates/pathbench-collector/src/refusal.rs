//! The reason why a request has no answer: an error as a JSON problem or on a page.

use crate::raw::RawError;
use crate::store::StoreError;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pathbench_api::problem::Problem;
use std::fmt::Display;
use std::time::Duration;

/// The reason of every answer with status 507, also for single lines.
pub const FULL: &str = "the collector's disk is full until its operator frees space: keep what you sent, and send it again later";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    retry_after: Option<Duration>,
    /// Whether a browser shall ask for a name and a password.
    asks: bool,
    /// For the log. Clients do not get the locations of the stores.
    cause: Option<String>,
}

/// The cause of an answer for the log, in its extensions.
#[derive(Debug, Clone)]
pub struct Cause(pub String);

impl Refusal {
    pub fn new(status: StatusCode, error: impl Display) -> Self {
        Self { status, error: error.to_string(), retry_after: None, asks: false, cause: None }
    }

    pub fn bad_request(error: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub fn not_found(error: impl Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    pub fn unauthorized(error: impl Display) -> Self {
        Self { asks: true, ..Self::new(StatusCode::UNAUTHORIZED, error) }
    }

    pub fn too_large(error: impl Display) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, error)
    }

    pub fn unsupported(error: impl Display) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
    }

    pub fn invalid(error: impl Display) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// A failure of the collector itself, which its log has.
    pub fn internal(error: impl Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    pub fn too_slow(error: impl Display) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, error)
    }

    pub fn too_many(error: impl Display, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, error) }
    }

    pub fn busy(error: impl Display, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error) }
    }

    /// A full disk (507, RFC 4918 section 11.5). Only the operator ends it, at no time that a client could wait for: without
    /// `Retry-After`.
    pub fn full() -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, FULL)
    }

    /// A failure of this collector or of its stores: the client keeps its data and tries again.
    pub fn failed(error: impl Display) -> Self {
        Self::busy(error, Duration::from_secs(30))
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn error(&self) -> &str {
        &self.error
    }

    /// Completes an answer in any form: its headers, and its cause for the log.
    pub fn complete(&self, response: &mut Response) {
        if let Some(cause) = &self.cause {
            response.extensions_mut().insert(Cause(cause.clone()));
        }
        let headers = response.headers_mut();
        if let Some(time) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(time.as_secs().max(1)));
        }
        if self.asks {
            let ask = HeaderValue::from_static("Basic realm=\"pathbench collector\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, ask);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Agents { .. }) {
            return Self::busy(error, Duration::from_secs(3600));
        }
        let answer = match error {
            StoreError::Full { .. } => Self::full(),
            _ => Self::failed("the database does not answer"),
        };
        Self { cause: Some(error.to_string()), ..answer }
    }
}

impl From<RawError> for Refusal {
    fn from(error: RawError) -> Self {
        let answer = match error {
            RawError::Full { .. } => Self::full(),
            _ => Self::failed("the raw store does not answer"),
        };
        Self { cause: Some(error.to_string()), ..answer }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = Problem {
            status: self.status.as_u16(),
            error: self.error.clone(),
            retryable: self.retry_after.is_some()
                || matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::INSUFFICIENT_STORAGE),
        };
        let mut response = (self.status, Json(problem)).into_response();
        self.complete(&mut response);
        response
    }
}
