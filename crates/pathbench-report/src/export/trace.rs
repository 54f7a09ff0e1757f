//! The connections and the subflows of captures as tables. Columns are the fields of `trace.json`.

use super::rows::pass;
use super::table::{Column, ColumnType, of_fields};
use super::{ExportFormat, ResultExportError, write_rows};
use pathbench_record::file::OpenDirectory;
use pathbench_record::schema::TRACE;
use pathbench_record::trace::TraceDocument;
use serde_json::json;
use std::path::PathBuf;

/// Writes the tables `connections` and `subflows` as CSV or Parquet into the directory `out`.
///
/// # Errors
/// [`ResultExportError`], naming the file.
pub fn write_trace(
    document: &TraceDocument,
    format: ExportFormat,
    out: &OpenDirectory,
) -> Result<Vec<PathBuf>, ResultExportError> {
    let schema = TRACE.schema();
    let columns = of_fields(&schema, "TracedConnection", Vec::new());
    let connections = write_rows(&columns, format, (out, "connections"), |sink| {
        let mut each = document.connections.iter();
        each.try_for_each(|one| pass(&columns, json!(one), "trace.json", sink))
    })?;
    let mut connection = Column::key("connection", "The connection's `id`.");
    connection.kind = ColumnType::Unsigned;
    let columns = of_fields(&schema, "TracedSubflow", vec![connection]);
    let subflows = write_rows(&columns, format, (out, "subflows"), |sink| {
        let each =
            document.connections.iter().flat_map(|one| one.subflows.iter().map(move |it| (one.id, it)));
        each.into_iter().try_for_each(|(connection, subflow)| {
            let mut row = json!(subflow);
            row["connection"] = connection.into();
            pass(&columns, row, "trace.json", sink)
        })
    })?;
    Ok(vec![connections, subflows])
}
