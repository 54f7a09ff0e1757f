//! The interactive report of a result, from its raw part.

use super::answer::Failure;
use super::unpacked::{UnpackError, Unpacked};
use super::{Reader, answer};
use crate::viewer::Viewer;
use pathbench_api::Uuid;
use pathbench_record::directory::ResultDirectory;
use pathbench_report::{ResultSet, html};
use std::sync::Arc;
use std::time::Duration;

/// A result never changes; a report only makes room for others, or follows a deletion.
const AGE: Duration = Duration::from_secs(300);

/// A larger page is not kept.
const MOST_KEPT_BYTES: usize = 16 << 20;

impl From<UnpackError> for Failure {
    fn from(error: UnpackError) -> Self {
        match error {
            UnpackError::Damaged(_) | UnpackError::Json { .. } => Self::new(422, error.to_string()),
            UnpackError::Large | UnpackError::Names => Self::new(413, error.to_string()),
            UnpackError::Io(_) => {
                Self::new(503, "the collector cannot unpack the raw part now; try again in 5 s")
            }
        }
    }
}

/// The files of a result that the viewer may see.
pub(super) fn unpacked(reader: &Reader, viewer: Viewer, id: Uuid) -> Result<Unpacked, Failure> {
    let result = reader.result(viewer, id)?.ok_or_else(|| Failure::not_found("result"))?;
    let place =
        result.raw.ok_or_else(|| Failure::new(404, "the result was submitted without its raw part"))?;
    Ok(Unpacked::of(&reader.raw.read(&place)?, viewer)?)
}

pub async fn page(reader: &Arc<Reader>, viewer: Viewer, id: Uuid) -> Result<Arc<String>, Failure> {
    let now = reader.clock.monotonic();
    if let Some(page) = reader.reports.get(&(id, viewer), now, AGE) {
        // Deleted results have no report.
        let is_there = answer::read(reader, move |reader| Ok(reader.result(viewer, id)?.is_some())).await?;
        return if is_there { Ok(page) } else { Err(Failure::not_found("result")) };
    }
    answer::unpack(reader, move |reader| {
        let unpacked = unpacked(reader, viewer, id)?;
        let page = Arc::new(rendered(&unpacked)?);
        if page.len() <= MOST_KEPT_BYTES {
            reader.reports.put((id, viewer), now, Arc::clone(&page));
        }
        Ok(page)
    })
    .await
}

fn rendered(unpacked: &Unpacked) -> Result<String, Failure> {
    // The message names a temporary directory.
    let no_result = |_| Failure::new(422, "the raw part holds no readable result");
    let directory = ResultDirectory::open(unpacked.path()).map_err(no_result)?;
    let (mut set, _) = ResultSet::read(directory).map_err(no_result)?;
    set.directory = None;
    Ok(html::report(&[set]))
}
