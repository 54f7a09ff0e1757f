//! Answers: blocking work in turns, problems as JSON, headers.

use super::results::ResultReader;
use super::unpacked::{Effort, UnpackError};
use crate::memory::MemoryShare;
use crate::refusal::Refusal;
use crate::task::{self, Cancellation, Cancelled, TaskError};
use crate::turn::Turns;
use crate::viewer::View;
use axum::body::{Body, HttpBody};
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use pathbench_record::network::Client;
use std::convert::Infallible;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

pub(super) const BUSY: Duration = Duration::from_secs(5);

/// How long a request waits for its turn.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The same at heavy raw parts, where a turn of others can take seconds.
const LONGEST_HEAVY_WAIT: Duration = Duration::from_secs(45);

/// Between two attempts of a request that finds no memory, and their number. It has no turn meanwhile.
pub(super) const MEMORY_PAUSE: Duration = Duration::from_millis(100);
const MEMORY_ATTEMPTS: u32 = 100;

/// The longest turn at reading, and at unpacking; then its work is cancelled.
const READ_TIME: Duration = Duration::from_secs(30);
const UNPACK_TIME: Duration = Duration::from_secs(60);

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

/// In the extensions of an answer whose bytes count against the memory of answers already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedAnswer;

/// The bytes of an answer until the client has taken them; an answer in parts counts by itself.
pub(crate) fn counted(reader: &ResultReader, client: Client, response: Response) -> Response {
    /// Answers about the state of the collector, and problems, need no memory of answers.
    const SMALL_BYTES: u64 = 4096;
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    if bytes <= SMALL_BYTES || response.extensions().get::<CountedAnswer>().is_some() {
        return response;
    }
    let mut share = reader.answers.share(client);
    let is_granted = usize::try_from(bytes).is_ok_and(|bytes| {
        share.grow_to(bytes) || {
            reader.forget_answers();
            share.grow_to(bytes)
        }
    });
    if !is_granted {
        return Refusal::from(NoMemory).into_response();
    }
    response.map(|body| Body::new(WithShare { body, _share: share }))
}

/// The memory of answers is in use, or the client has its part.
#[derive(Debug)]
pub(super) struct NoMemory;

impl From<NoMemory> for Refusal {
    fn from(NoMemory: NoMemory) -> Self {
        Self::busy("the collector has no memory for the answer now", BUSY)
    }
}

/// A body, and the memory it counts against.
struct WithShare {
    body: Body,
    _share: MemoryShare,
}

impl HttpBody for WithShare {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Blocking work for a client, with the reader that it works on.
#[derive(Debug)]
pub(crate) struct Job {
    reader: Arc<ResultReader>,
    client: Client,
    pub(super) cancellation: Cancellation,
}

impl Deref for Job {
    type Target = ResultReader;

    fn deref(&self) -> &ResultReader {
        &self.reader
    }
}

impl Job {
    /// Memory for an answer, before it is built.
    pub(super) fn memory(&self, bytes: usize) -> Result<MemoryShare, NoMemory> {
        let mut share = self.answers.share(self.client);
        if !share.grow_to(bytes) {
            self.forget_answers();
            if !share.grow_to(bytes) {
                return Err(NoMemory);
            }
        }
        Ok(share)
    }

    /// The bytes of an answer in the memory that was granted for it; copies share them.
    pub(super) fn built(bytes: Vec<u8>, mut share: MemoryShare) -> Result<Bytes, NoMemory> {
        if !share.grow_to(bytes.capacity()) {
            return Err(NoMemory);
        }
        share.shrink_to(bytes.capacity());
        Ok(Bytes::from_owner(Held { bytes, _share: share }))
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        Ok(self.cancellation.check()?)
    }
}

impl From<Cancelled> for Refusal {
    fn from(cancelled: Cancelled) -> Self {
        Self::busy(cancelled, BUSY)
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
    work: impl FnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    read_for(reader, task::client(), LONGEST_WAIT, work).await
}

/// The same for a client whose answer comes in parts.
pub(super) async fn read_for<T: Send + 'static>(
    reader: &Arc<ResultReader>,
    client: Client,
    patience: Duration,
    work: impl FnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    in_turn(reader, client, (&reader.reads, patience, READ_TIME), work).await
}

/// Why work on a raw part has no outcome.
#[derive(Debug)]
pub(super) enum Unfinished {
    /// The part takes more than the light effort.
    Heavy,
    NoMemory,
    Refused(Refusal),
}

impl From<Refusal> for Unfinished {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<NoMemory> for Unfinished {
    fn from(NoMemory: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl From<UnpackError> for Unfinished {
    fn from(error: UnpackError) -> Self {
        match error {
            UnpackError::Heavy => Self::Heavy,
            error => Self::Refused(error.into()),
        }
    }
}

/// Runs blocking work that unpacks a raw part: with little effort first, so that no turn is long. What takes more has turns
/// of its own, which others do not wait for. Work that finds no memory begins again.
pub(super) async fn unpack<T: Send + 'static>(
    reader: &Arc<ResultReader>,
    work: impl Fn(&Job, Effort) -> Result<T, Unfinished> + Copy + Send + 'static,
) -> Result<T, Refusal> {
    let light = (&reader.unpacking, LONGEST_WAIT, UNPACK_TIME);
    let heavy = (&reader.heavy, LONGEST_HEAVY_WAIT, UNPACK_TIME);
    let mut next = (light, Effort::Light);
    for _ in 0..MEMORY_ATTEMPTS {
        let (turns, effort) = next;
        match in_turn(reader, task::client(), turns, move |job| Ok(work(job, effort))).await? {
            Ok(outcome) => return Ok(outcome),
            Err(Unfinished::Heavy) => next = (heavy, Effort::Full),
            Err(Unfinished::NoMemory) => tokio::time::sleep(MEMORY_PAUSE).await,
            Err(Unfinished::Refused(refusal)) => return Err(refusal),
        }
    }
    Err(NoMemory.into())
}

async fn in_turn<T: Send + 'static>(
    reader: &Arc<ResultReader>,
    client: Client,
    (turns, patience, time): (&Arc<Turns>, Duration, Duration),
    work: impl FnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let Ok(turn) = turns.take(client, patience).await else {
        return Err(Refusal::busy("the collector is busy", BUSY));
    };
    let of_work = Arc::clone(reader);
    let done = task::run(time, move |cancellation| {
        // Until the work is done, also if the client has gone.
        let _turn = turn;
        // It may have waited for a thread.
        cancellation.check()?;
        work(&Job { reader: of_work, client, cancellation: cancellation.clone() })
    });
    match done.await {
        Ok(outcome) => outcome,
        Err(error @ TaskError::Time(_)) => Err(Refusal::busy(error, BUSY)),
        Err(TaskError::Failed(_)) => {
            reader.failures.fetch_add(1, Ordering::Relaxed);
            Err(Refusal::internal("the collector failed at this request"))
        }
    }
}
