//! `POST /v1/results` and the deletions of results.

use super::access::Gate;
use super::app::App;
use super::blocking::{blocking, in_turn};
use super::body::{self, ReadBody};
use super::limits::Taken;
use crate::facts::Source;
use crate::ingest::{NotWritten, SubmissionGroup, Submitted};
use crate::refusal::{FULL, Refusal};
use crate::store::Deletion;
use crate::task;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pathbench_api::Uuid;
use pathbench_api::bounds::BATCH_LINES;
use pathbench_api::deletion::DeletionAnswer;
use pathbench_api::problem::{BatchAnswer, LineAnswer, LineStatus};
use pathbench_api::submission::{Submission, SubmissionError};
use pathbench_api::token::Audience;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Bodies beyond this are parsed on a thread for blocking work.
const PARSED_INLINE_BYTES: usize = 16 << 10;

/// Time for the writer; a group that it is still writing then may be stored or not: the client sends it again.
const WRITING_TIME: Duration = Duration::from_secs(30);

struct Parsed {
    answers: Vec<LineAnswer>,
    /// With their index in `answers`.
    valid: Vec<(usize, Submitted)>,
}

pub(super) async fn post(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let received_ms = app.clock.unix_ms();
    let credential = app.gate.submitter(&headers, received_ms / 1000)?;
    let of_agent = credential.filter(|token| token.audience == Audience::Agent);
    let source = Source::new(of_agent.as_ref(), task::client());
    let read = body::batch(&headers, body, &app).await?;
    let ReadBody { bytes, share } = read;
    // The submissions are not larger than the body: they count in its stead until they are written.
    let _share = share;
    let parsed = if bytes.len() > PARSED_INLINE_BYTES {
        in_turn(&app.bodies, move |_| parse(&bytes, received_ms, source)).await?
    } else {
        parse(&bytes, received_ms, source)?
    };
    let Parsed { mut answers, valid } = parsed;
    let (indexes, submissions): (Vec<usize>, Vec<Submitted>) = valid.into_iter().unzip();
    let retry_after = if submissions.is_empty() {
        None
    } else {
        let taken = take_quota(&app, &submissions)?;
        let written = write(&app, SubmissionGroup { submissions }).await;
        let created = written
            .as_ref()
            .map_or(0, |statuses| statuses.iter().filter(|status| **status == LineStatus::Created).count());
        app.quotas.give_back(taken, (indexes.len() - created) as u64);
        match written {
            Ok(statuses) => {
                for (index, status) in indexes.into_iter().zip(statuses) {
                    answers[index] =
                        LineAnswer::new(answers[index].line, answers[index].id, status, reason(status));
                }
                None
            }
            Err(NotStored { error, retry_after }) => {
                for index in indexes {
                    let LineAnswer { line, id, .. } = answers[index];
                    answers[index] = match retry_after {
                        Some(_) => LineAnswer::new(line, id, LineStatus::Busy, Some(error.clone())),
                        None => LineAnswer::without_space(line, id, error.clone()),
                    };
                }
                retry_after
            }
        }
    };
    app.metrics.count_lines(&answers);
    Ok(respond(answers, retry_after))
}

/// Reserves space for results in the database and in the quotas of their client.
fn take_quota(app: &App, submissions: &[Submitted]) -> Result<Taken, Refusal> {
    let known = {
        let columns = app.reader.columns();
        columns.results() as u64 + columns.left_out() + columns.unreadable()
    };
    let new = submissions.len() as u64;
    if known + new > app.most_results {
        let most = app.most_results;
        let wait = Duration::from_secs(3600);
        return Err(Refusal::busy(format!("the collector holds {most} results: it takes no more"), wait));
    }
    let bytes = submissions.iter().map(|one| one.bytes() as u64).sum();
    Ok(app.quotas.take(task::client(), (new, bytes), app.clock.now())?)
}

/// Why the lines of a batch were not stored.
struct NotStored {
    error: String,
    /// Absent of a full disk.
    retry_after: Option<Duration>,
}

impl NotStored {
    fn busy(error: impl Into<String>, retry_after: Duration) -> Self {
        Self { error: error.into(), retry_after: Some(retry_after) }
    }
}

impl From<NotStored> for Refusal {
    fn from(not_stored: NotStored) -> Self {
        match not_stored.retry_after {
            Some(retry_after) => Self::busy(not_stored.error, retry_after),
            None => Self::full(),
        }
    }
}

async fn write(app: &App, group: SubmissionGroup) -> Result<Vec<LineStatus>, NotStored> {
    // The writer's log has the reason. Clients do not get the locations of the stores.
    let refused = |not_written: NotWritten| match not_written {
        NotWritten::Busy { retry_after } => NotStored::busy(not_written.to_string(), retry_after),
        NotWritten::Failed { is_full: true, .. } => NotStored { error: FULL.to_owned(), retry_after: None },
        NotWritten::Failed { retry_after, .. } => {
            NotStored::busy("the collector cannot store results now", retry_after)
        }
    };
    let receiver = app.writer.submit(group).map_err(refused)?;
    match tokio::time::timeout(WRITING_TIME, receiver).await {
        Ok(Ok(written)) => written.map(|written| written.statuses).map_err(refused),
        Ok(Err(_)) => Err(NotStored::busy("the collector is stopping", Duration::from_secs(5))),
        Err(_) => Err(NotStored::busy("the database is slow; send it again", Duration::from_secs(30))),
    }
}

fn reason(status: LineStatus) -> Option<String> {
    let reason = match status {
        LineStatus::Conflict => "a result with this id and other content is stored",
        LineStatus::Deleted => "the result with this id was deleted on request",
        _ => return None,
    };
    Some(reason.to_owned())
}

/// Checks each line; one that is wrong affects no other.
fn parse(bytes: &[u8], now_ms: u64, source: Source) -> Result<Parsed, Refusal> {
    let mut parsed = Parsed { answers: Vec::new(), valid: Vec::new() };
    for line in bytes.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        if parsed.answers.len() == BATCH_LINES {
            return Err(Refusal::too_large(format!("the batch has more than {BATCH_LINES} lines")));
        }
        let number = u32::try_from(parsed.answers.len() + 1).unwrap_or(u32::MAX);
        match submitted(line, now_ms, source) {
            Ok((id, submitted)) => {
                parsed.valid.push((parsed.answers.len(), submitted));
                // Until the writer has stored it.
                parsed.answers.push(LineAnswer::new(number, Some(id), LineStatus::Busy, None));
            }
            Err(error) => {
                let status = match error {
                    SubmissionError::Large { .. }
                    | SubmissionError::LargeSummary { .. }
                    | SubmissionError::RawSize => LineStatus::Large,
                    _ => LineStatus::Invalid,
                };
                parsed.answers.push(LineAnswer::new(number, id_of(line), status, Some(error.to_string())));
            }
        }
    }
    if parsed.answers.is_empty() {
        return Err(Refusal::bad_request("the batch has no line: send one submission per line (NDJSON)"));
    }
    Ok(parsed)
}

fn submitted(line: &[u8], now_ms: u64, source: Source) -> Result<(Uuid, Submitted), SubmissionError> {
    let checked = Submission::check(line, now_ms)?;
    Ok((checked.submission.id, Submitted::new(checked, now_ms, source)?))
}

/// The id in a line that is no submission, so that the client can find it.
fn id_of(line: &[u8]) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct WithId {
        id: Uuid,
    }
    serde_json::from_slice::<WithId>(line).ok().map(|found| found.id)
}

/// The status is that of all lines if they have one, else 200; the body has them all.
fn respond(answers: Vec<LineAnswer>, retry_after: Option<Duration>) -> Response {
    let first = answers.first().map_or(200, |answer| answer.code);
    let is_common = answers.iter().all(|answer| answer.code == first);
    let code = if is_common { first } else { 200 };
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    let mut response = (status, Json(BatchAnswer { results: answers })).into_response();
    if let Some(time) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(time.as_secs().max(1)));
    }
    response
}

pub(super) async fn delete_one(
    State(app): State<Arc<App>>,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
) -> Result<Json<DeletionAnswer>, Refusal> {
    delete(&app, Deletion::OneWithToken(id, Gate::deletion(&headers)?)).await
}

pub(super) async fn delete_all(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Json<DeletionAnswer>, Refusal> {
    delete(&app, Deletion::AllWithToken(Gate::deletion(&headers)?)).await
}

pub(super) async fn delete(app: &Arc<App>, which: Deletion) -> Result<Json<DeletionAnswer>, Refusal> {
    // A group that its client gave up can still wait: an empty group behind it is answered after its commit.
    write(app, SubmissionGroup { submissions: Vec::new() }).await?;
    let now_ms = app.clock.unix_ms();
    let database = Arc::clone(&app.database);
    let shared = Arc::clone(app);
    // The client can be gone before the answer: the count is part of the work.
    let deleted = blocking(move || {
        let deleted = database.delete(&which, now_ms)?;
        shared.metrics.count_deleted(&which, deleted);
        Ok(deleted)
    })
    .await?;
    Ok(Json(DeletionAnswer { deleted }))
}
