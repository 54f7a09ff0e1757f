//! Answers in parts: a part is built in a turn of its own when the client has taken the one before. A client that reads
//! slowly holds one part in memory and no turn.

use super::answer::{Job, LONGEST_WAIT, MEMORY_PAUSE, NoMemory, read_for};
use super::results::ResultReader;
use crate::refusal::Refusal;
use crate::task;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::Frame;
use pathbench_record::network::Client;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The bytes from which on a part is sent.
pub(super) const PART_BYTES: usize = 64 << 10;

/// How long a further part waits for its turn and its memory; then the answer breaks off.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parts of an answer.
pub(super) trait PartSource: Send + Unpin + 'static {
    /// Memory that building a part takes, at most.
    const BUILDING_BYTES: usize;

    /// Adds to `out` until it has [`PART_BYTES`] or the answer ends; false at its end.
    fn add(&mut self, job: &Job, out: &mut Vec<u8>) -> Result<bool, Refusal>;
}

type Built<S> = Result<(Bytes, Option<S>), Refusal>;

fn build<S: PartSource>(job: &Job, mut source: S) -> Result<(Bytes, Option<S>), (Refusal, Option<S>)> {
    let share = match job.memory(S::BUILDING_BYTES) {
        Ok(share) => share,
        // Nothing is lost: the source can be asked again.
        Err(no_memory) => return Err((no_memory.into(), Some(source))),
    };
    let mut out = Vec::new();
    let has_more = source.add(job, &mut out).map_err(|refusal| (refusal, None))?;
    let bytes = Job::built(out, share).map_err(|no_memory| (no_memory.into(), None))?;
    Ok((bytes, has_more.then_some(source)))
}

/// The body of an answer; a failure of its first part is an answer of its own.
pub(super) async fn body<S: PartSource>(reader: &Arc<ResultReader>, source: S) -> Result<Body, Refusal> {
    let client = task::client();
    let reader = Arc::clone(reader);
    let (bytes, source) = next(Arc::clone(&reader), client, source, LONGEST_WAIT).await?;
    let Some(source) = source else { return Ok(Body::from(bytes)) };
    Ok(Body::new(PartsBody { reader, client, state: BodyState::Part(bytes, Some(source)) }))
}

/// The next part, which waits for a turn and for memory.
async fn next<S: PartSource>(
    reader: Arc<ResultReader>,
    client: Client,
    source: S,
    patience: Duration,
) -> Built<S> {
    let built = async move {
        let mut source = source;
        loop {
            match read_for(&reader, client, patience, move |job| Ok(build(job, source))).await? {
                Ok(built) => return Ok(built),
                Err((refusal, None)) => return Err(refusal),
                Err((_, Some(again))) => {
                    source = again;
                    tokio::time::sleep(MEMORY_PAUSE).await;
                }
            }
        }
    };
    let built = tokio::time::timeout(patience, built).await;
    built.unwrap_or_else(|_| Err(NoMemory.into()))
}

struct PartsBody<S> {
    reader: Arc<ResultReader>,
    client: Client,
    state: BodyState<S>,
}

enum BodyState<S> {
    Part(Bytes, Option<S>),
    Source(S),
    Building(Pin<Box<dyn Future<Output = Built<S>> + Send>>),
    End,
}

impl<S: PartSource> HttpBody for PartsBody<S> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            match std::mem::replace(&mut self.state, BodyState::End) {
                BodyState::Part(bytes, source) => {
                    self.state = source.map_or(BodyState::End, BodyState::Source);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                BodyState::Source(source) => {
                    let reader = Arc::clone(&self.reader);
                    self.state = BodyState::Building(Box::pin(next(reader, self.client, source, PATIENCE)));
                }
                BodyState::Building(mut building) => {
                    let Poll::Ready(built) = building.as_mut().poll(context) else {
                        self.state = BodyState::Building(building);
                        return Poll::Pending;
                    };
                    match built {
                        Ok((bytes, source)) => self.state = BodyState::Part(bytes, source),
                        Err(refusal) => {
                            return Poll::Ready(Some(Err(io::Error::other(refusal.error().to_owned()))));
                        }
                    }
                }
                BodyState::End => return Poll::Ready(None),
            }
        }
    }
}
