//! Files of the analysis of packet captures.

use crate::html;
use crate::output::{FigureFormat, ReportFiles, ReportWriteError, write_page};
use pathbench_record::trace::{SequenceLine, TraceDocument};
use std::path::Path;

/// Writes `report.html` and the figures in `format` into `out`, which is created if necessary:
/// `connection-N-throughput` and `connection-N-segment-sizes` of the connections with the most payload, and, with lines
/// of `sequence.jsonl`, `connection-N-sequence-upload` and `connection-N-sequence-download`.
///
/// # Errors
/// [`ReportWriteError`], naming the file.
pub fn write(
    document: &TraceDocument,
    lines: &[SequenceLine],
    out: &Path,
    format: FigureFormat,
) -> Result<ReportFiles, ReportWriteError> {
    let (page, figures) = html::trace::page(document, lines);
    write_page(&page, figures.iter(), out, format)
}
