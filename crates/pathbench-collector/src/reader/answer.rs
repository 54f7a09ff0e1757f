//! Answers: blocking work with a bound, problems as JSON, headers.

use super::results::ResultReader;
use crate::memory::MemoryShare;
use crate::refusal::Refusal;
use crate::viewer::View;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;

const BUSY: Duration = Duration::from_secs(5);

/// How long a request waits for others.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// An answer, and the memory it counts against until no client needs it.
struct Held {
    bytes: Vec<u8>,
    _share: MemoryShare,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ResultReader {
    /// The bytes of an answer, which count against the memory of all answers; copies share them.
    pub(super) fn held(&self, bytes: Vec<u8>) -> Result<Bytes, Refusal> {
        let mut share = self.answers.share();
        if !share.grow_to(bytes.capacity()) {
            self.reports.clear();
            if !share.grow_to(bytes.capacity()) {
                return Err(Refusal::busy("the collector has no memory for the answer now", BUSY));
            }
        }
        Ok(Bytes::from_owner(Held { bytes, _share: share }))
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
    reader: &Arc<ResultReader>,
    work: impl FnOnce(&ResultReader) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    blocking(reader, &reader.reads, work).await
}

/// Runs blocking work that unpacks raw parts.
pub(super) async fn unpack<T: Send + 'static>(
    reader: &Arc<ResultReader>,
    work: impl FnOnce(&ResultReader) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    blocking(reader, &reader.unpacking, work).await
}

async fn blocking<T: Send + 'static>(
    reader: &Arc<ResultReader>,
    permits: &Arc<Semaphore>,
    work: impl FnOnce(&ResultReader) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let waiting = tokio::time::timeout(LONGEST_WAIT, Arc::clone(permits).acquire_owned()).await;
    let Ok(Ok(permit)) = waiting else {
        return Err(Refusal::busy("the collector is busy", BUSY));
    };
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
        Err(Refusal::internal("the collector failed at this request"))
    })
}
