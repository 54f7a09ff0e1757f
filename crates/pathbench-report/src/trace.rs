//! Files of the analysis of packet captures.

use crate::html;
use crate::output::{FigureFormat, WriteError, Written, write_page};
use pathbench_record::trace::TraceDocument;
use std::path::Path;

/// Writes `report.html` and the figures in `format` into `out`, which is created if necessary:
/// `connection-N-throughput` and `connection-N-segment-sizes` of the connections with the most payload.
///
/// # Errors
/// [`WriteError`], naming the file.
pub fn write(document: &TraceDocument, out: &Path, format: FigureFormat) -> Result<Written, WriteError> {
    let (page, figures) = html::trace::page(document);
    write_page(&page, figures.iter(), out, format)
}
