//! The interactive report of a result, from its raw part.

use super::answer::{self, Job, Unfinished};
use super::results::ResultReader;
use super::shown::AnonymousForm;
use super::unpacked::{Effort, UnpackError, Unpacked};
use crate::refusal::Refusal;
use crate::viewer::Viewer;
use axum::http::StatusCode;
use bytes::Bytes;
use pathbench_api::Uuid;
use pathbench_record::directory::ResultDirectory;
use pathbench_report::{ResultSet, html};
use std::sync::Arc;
use std::time::Duration;

/// A result never changes; a report only makes room for others, or follows a deletion.
const AGE: Duration = Duration::from_secs(300);

/// A result with larger files has no report; its raw part can be downloaded.
const MOST_REPORT_BYTES: u64 = 32 << 20;

/// A larger page is not kept.
const MOST_KEPT_BYTES: usize = 16 << 20;

impl From<UnpackError> for Refusal {
    fn from(error: UnpackError) -> Self {
        match error {
            UnpackError::Damaged(_) | UnpackError::Json { .. } => Self::invalid(error),
            UnpackError::Large | UnpackError::Names | UnpackError::Work | UnpackError::Heavy => {
                Self::too_large(error)
            }
            UnpackError::Cancelled(cancelled) => cancelled.into(),
            UnpackError::Io(_) => {
                Self::busy("the collector cannot unpack the raw part now", Duration::from_secs(5))
            }
        }
    }
}

/// The memory that unpacking takes: a raw part, its anonymous form, and the window of zstd.
fn unpacking_bytes(raw: &[u8]) -> usize {
    2 * raw.len() + (8 << 20)
}

/// The raw part of a public result in the anonymous form. The form is made once and kept a while, also the reason why
/// there is none, as long as the same names are public.
pub(super) async fn anonymous(reader: &Arc<ResultReader>, id: Uuid) -> Result<Bytes, Refusal> {
    let now = reader.clock.now();
    let version = reader.columns().disclosure_version();
    if let Some(known) = reader.anonymous.get(&(id, version), now, AGE) {
        // Deleted results have none.
        answer::read(reader, move |job| job.result(Viewer::Everybody, id)).await?;
        return (*known).clone();
    }
    answer::unpack(reader, move |job, effort| Ok(anonymous_form(job, id, effort)?.0)).await
}

/// The form, and the state of the public names.
fn anonymous_form(job: &Job, id: Uuid, effort: Effort) -> Result<(Bytes, u64), Unfinished> {
    let now = job.clock.now();
    let result = job.result(Viewer::Everybody, id)?;
    let AnonymousForm { anonymiser, version } = job.anonymous_form(&result);
    // Another request can have made it in the meantime.
    if let Some(known) = job.anonymous.get(&(id, version), now, AGE) {
        return Ok(((*known).clone()?, version));
    }
    let raw = job.raw_part(&result)?;
    let share = job.memory(unpacking_bytes(&raw))?;
    let made = Unpacked::from_raw(&raw, Some(anonymiser), effort, &job.cancellation)
        .and_then(|unpacked| unpacked.packed(&job.cancellation));
    drop(raw);
    let made = match made {
        Ok(packed) => Ok(Job::built(packed, share)?),
        Err(error @ (UnpackError::Heavy | UnpackError::Io(_) | UnpackError::Cancelled(_))) => {
            return Err(error.into());
        }
        Err(error) => Err(Refusal::from(error)),
    };
    if is_kept(&made) {
        job.anonymous.put((id, version), now, Arc::new(made.clone()));
    }
    Ok((made?, version))
}

/// Whether an answer, or the reason why there is none, is kept for others.
fn is_kept(made: &Result<Bytes, Refusal>) -> bool {
    made.as_ref().map_or_else(|refusal| refusal.status() != BUSY, |page| page.len() <= MOST_KEPT_BYTES)
}

const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// All readers of a page share its bytes.
pub async fn page(reader: &Arc<ResultReader>, viewer: Viewer, id: Uuid) -> Result<Bytes, Refusal> {
    let now = reader.clock.now();
    let version = reader.columns().disclosure_version();
    if let Some(page) = reader.reports.get(&(id, viewer, version), now, AGE) {
        // Deleted results have no report.
        answer::read(reader, move |job| job.result(viewer, id)).await?;
        return (*page).clone();
    }
    answer::unpack(reader, move |job, effort| {
        // Another request can have made it in the meantime.
        if let Some(page) = job.reports.get(&(id, viewer, version), now, AGE) {
            return Ok((*page).clone()?);
        }
        let (raw, version) = match viewer {
            Viewer::Everybody => anonymous_form(job, id, effort)?,
            Viewer::Operator => (job.raw_part(&job.result(viewer, id)?)?.into(), version),
        };
        let made = match rendered(job, &raw, effort) {
            Err(unfinished @ (Unfinished::Heavy | Unfinished::NoMemory)) => return Err(unfinished),
            Err(Unfinished::Refused(refusal)) => Err(refusal),
            Ok(page) => Ok(page),
        };
        if is_kept(&made) {
            job.reports.put((id, viewer, version), now, Arc::new(made.clone()));
        }
        Ok(made?)
    })
    .await
}

/// The report of a raw part, which is in the anonymous form already where it is for everybody.
fn rendered(job: &Job, raw: &[u8], effort: Effort) -> Result<Bytes, Unfinished> {
    let share = job.memory(unpacking_bytes(raw))?;
    let unpacked = Unpacked::from_raw(raw, None, effort, &job.cancellation)?;
    if unpacked.bytes() > MOST_REPORT_BYTES {
        return Err(Refusal::too_large(format!(
            "the files of the result have more than {} MB: there is no report",
            MOST_REPORT_BYTES >> 20
        ))
        .into());
    }
    let page = render(&unpacked)?.into_bytes();
    Ok(Job::built(page, share)?)
}

fn render(unpacked: &Unpacked) -> Result<String, Refusal> {
    // The message names a temporary directory.
    let no_result = |_| Refusal::invalid("the raw part holds no readable result");
    let directory = ResultDirectory::open(unpacked.path()).map_err(no_result)?;
    let (mut set, _) = ResultSet::read(directory).map_err(no_result)?;
    set.directory = None;
    Ok(html::report(&[set]))
}
