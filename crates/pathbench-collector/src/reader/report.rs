//! The interactive report of a result, from its raw part.

use super::answer;
use super::results::ResultReader;
use super::unpacked::{UnpackError, Unpacked};
use crate::refusal::Refusal;
use crate::viewer::Viewer;
use bytes::Bytes;
use pathbench_api::Uuid;
use pathbench_record::directory::ResultDirectory;
use pathbench_report::{ResultSet, html};
use std::sync::Arc;
use std::time::Duration;

/// A result never changes; a report only makes room for others, or follows a deletion.
const AGE: Duration = Duration::from_secs(300);

/// A larger page is not kept.
const MOST_KEPT_BYTES: usize = 16 << 20;

impl From<UnpackError> for Refusal {
    fn from(error: UnpackError) -> Self {
        match error {
            UnpackError::Damaged(_) | UnpackError::Json { .. } => Self::invalid(error),
            UnpackError::Large | UnpackError::Names => Self::too_large(error),
            UnpackError::Io(_) => {
                Self::busy("the collector cannot unpack the raw part now", Duration::from_secs(5))
            }
        }
    }
}

/// The files of a result that the viewer may see.
pub(super) fn unpacked(reader: &ResultReader, viewer: Viewer, id: Uuid) -> Result<Unpacked, Refusal> {
    Ok(Unpacked::from_raw(&reader.raw_part(viewer, id)?, viewer)?)
}

/// All readers of a page share its bytes.
pub async fn page(reader: &Arc<ResultReader>, viewer: Viewer, id: Uuid) -> Result<Bytes, Refusal> {
    let now = reader.clock.now();
    if let Some(page) = reader.reports.get(&(id, viewer), now, AGE) {
        // Deleted results have no report.
        return answer::read(reader, move |reader| reader.result(viewer, id).map(|_| Bytes::clone(&page)))
            .await;
    }
    answer::unpack(reader, move |reader| {
        // Another request can have made it in the meantime.
        if let Some(page) = reader.reports.get(&(id, viewer), now, AGE) {
            return Ok(Bytes::clone(&page));
        }
        let unpacked = unpacked(reader, viewer, id)?;
        let page = reader.held(render(&unpacked)?.into_bytes())?;
        if page.len() <= MOST_KEPT_BYTES {
            reader.reports.put((id, viewer), now, Arc::new(page.clone()));
        }
        Ok(page)
    })
    .await
}

fn render(unpacked: &Unpacked) -> Result<String, Refusal> {
    // The message names a temporary directory.
    let no_result = |_| Refusal::invalid("the raw part holds no readable result");
    let directory = ResultDirectory::open(unpacked.path()).map_err(no_result)?;
    let (mut set, _) = ResultSet::read(directory).map_err(no_result)?;
    set.directory = None;
    Ok(html::report(&[set]))
}
