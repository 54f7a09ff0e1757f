//! Results as rows, one for each transport and pattern, for CSV and Parquet.

use super::query;
use super::results::ResultReader;
use crate::chart::Cell;
use crate::chart::table::{csv_row, csv_text};
use crate::columns::Filter;
use crate::store::{StoreError, StoredResult};
use crate::viewer::Viewer;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use pathbench_api::summary::GroupSummary;
use pathbench_record::file;
use pathbench_record::summary::figure_names;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Count,
    Number,
}

/// The first columns; one for each figure follows.
const COLUMNS: [(&str, Kind); 21] = [
    ("id", Kind::Text),
    ("received_ms", Kind::Count),
    ("started_ms", Kind::Count),
    ("consent", Kind::Text),
    ("agent", Kind::Text),
    ("mode", Kind::Text),
    ("scenario", Kind::Text),
    ("experiment", Kind::Text),
    ("server", Kind::Text),
    ("version", Kind::Text),
    ("kernel", Kind::Text),
    ("machine", Kind::Text),
    ("networks", Kind::Text),
    ("operators", Kind::Text),
    ("label", Kind::Text),
    ("pattern", Kind::Text),
    ("variant", Kind::Text),
    ("runs", Kind::Count),
    ("valid", Kind::Count),
    ("completed", Kind::Count),
    ("multipath_used", Kind::Count),
];

fn columns() -> Vec<(String, Kind)> {
    let first = COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    first.chain(figure_names().map(|name| (name.to_owned(), Kind::Number))).collect()
}

/// Calls `visit` with the rows of a result, one at a time: the cells that all its rows share, and the others. An agent's
/// id connects all its results: only the operator gets it.
fn each(
    reader: &ResultReader,
    result: &StoredResult,
    viewer: Viewer,
    mut visit: impl FnMut(&[Cell], &[Cell]),
) {
    let Some(summary) = reader.summary(result, viewer) else { return };
    let of_networks = |of: fn(&pathbench_api::summary::Network) -> Option<String>| {
        let all: BTreeSet<String> = summary.networks.iter().filter_map(of).collect();
        Cell::Text(all.into_iter().collect::<Vec<_>>().join(" + "))
    };
    let agent = match viewer {
        Viewer::Everybody => Cell::Absent,
        Viewer::Operator => Cell::Text(result.agent.to_string()),
    };
    let first = [
        Cell::Text(result.id.to_string()),
        Cell::Count(result.received_ms),
        Cell::Count(summary.started_ms),
        Cell::text(result.consent.name()),
        agent,
        Cell::text(query::mode_name(summary.mode)),
        Cell::text(summary.scenario.as_str()),
        Cell::from_name(summary.experiment.as_ref()),
        Cell::from_name(summary.server.as_ref()),
        Cell::text(summary.version.as_str()),
        Cell::text(summary.kernel.as_str()),
        Cell::text(summary.machine.as_str()),
        of_networks(|one| Some(query::kind_name(one.kind).to_owned())),
        of_networks(|one| one.operator.as_ref().map(ToString::to_string)),
    ];
    for group in &summary.groups {
        visit(&first, &group_cells(group));
    }
}

/// The first line of a file.
pub(super) fn add_csv_head(out: &mut Vec<u8>) {
    let names: Vec<String> = columns().iter().map(|(name, _)| csv_text(name)).collect();
    out.extend_from_slice(format!("{}\r\n", names.join(",")).as_bytes());
}

/// The lines of a result.
pub(super) fn add_csv(out: &mut Vec<u8>, reader: &ResultReader, result: &StoredResult, viewer: Viewer) {
    let mut begin = None;
    each(reader, result, viewer, |first, rest| {
        let begin = begin.get_or_insert_with(|| csv_row(first));
        out.extend_from_slice(format!("{begin},{}\r\n", csv_row(rest)).as_bytes());
    });
}

fn group_cells(group: &GroupSummary) -> Vec<Cell> {
    let mut cells = vec![
        Cell::text(group.label.as_str()),
        Cell::text(group.pattern.as_str()),
        Cell::from_name(group.variant.as_ref()),
    ];
    let counts = [group.runs, group.valid, group.completed, group.multipath_used];
    cells.extend(counts.map(|count| Cell::Count(count.into())));
    cells.extend(figure_names().map(|name| group.figure(name).map_or(Cell::Absent, Cell::Number)));
    cells
}

#[derive(Debug, Error)]
pub enum ParquetExportError {
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] ParquetError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Results of a row group, and bytes of its cells in memory.
const GROUP_RESULTS: usize = 500;
pub(super) const GROUP_BYTES: usize = 6 << 20;

/// Parquet; a row group ends at `GROUP_RESULTS` results or `GROUP_BYTES`.
pub struct RowWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    kinds: Vec<Kind>,
    rows: Vec<Vec<Cell>>,
    results: usize,
    bytes: usize,
}

impl<W: Write + Send> RowWriter<W> {
    pub fn new(out: W) -> Result<Self, ParquetError> {
        let columns = columns();
        let field = |(name, kind): &(String, Kind)| {
            let (physical, logical) = match kind {
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Kind::Count => (Physical::INT64, None),
                Kind::Number => (Physical::DOUBLE, None),
            };
            let builder = Type::primitive_type_builder(name, physical);
            builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build().map(Arc::new)
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(WriterProperties::new()))?;
        let kinds = columns.into_iter().map(|(_, kind)| kind).collect();
        Ok(Self { file, kinds, rows: Vec::new(), results: 0, bytes: 0 })
    }

    /// Adds the rows of a result.
    pub fn add(
        &mut self,
        reader: &ResultReader,
        result: &StoredResult,
        viewer: Viewer,
    ) -> Result<(), ParquetError> {
        let (rows, bytes) = (&mut self.rows, &mut self.bytes);
        each(reader, result, viewer, |first, rest| {
            let row: Vec<Cell> = first.iter().chain(rest).cloned().collect();
            let heap = |cell: &Cell| if let Cell::Text(text) = cell { text.capacity() } else { 0 };
            *bytes += size_of_val(row.as_slice()) + row.iter().map(heap).sum::<usize>();
            rows.push(row);
        });
        self.results += 1;
        if self.results >= GROUP_RESULTS || self.bytes >= GROUP_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        (self.results, self.bytes) = (0, 0);
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for index in 0..self.kinds.len() {
            let Some(mut column) = group.next_column()? else { break };
            let cells = || rows.iter().filter_map(|row| row.get(index));
            let levels: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Absent)).collect();
            match column.untyped() {
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let values: Vec<ByteArray> = cells().filter_map(text).collect();
                    writer.write_batch(&values, Some(&levels), None)?;
                }
                ColumnWriter::Int64ColumnWriter(writer) => {
                    let values: Vec<i64> = cells().filter_map(count).collect();
                    writer.write_batch(&values, Some(&levels), None)?;
                }
                ColumnWriter::DoubleColumnWriter(writer) => {
                    let values: Vec<f64> = cells().filter_map(number).collect();
                    writer.write_batch(&values, Some(&levels), None)?;
                }
                // `new` makes no other types.
                _ => {}
            }
            column.close()?;
        }
        group.close().map(drop)
    }

    /// Writes the last row group and the end of the file, and returns where it was written to.
    pub fn finish(mut self) -> Result<W, ParquetError> {
        self.write()?;
        self.file.into_inner()
    }
}

impl RowWriter<Vec<u8>> {
    /// The bytes of complete row groups since the last call.
    pub(super) fn take(&mut self) -> Result<Vec<u8>, ParquetError> {
        self.file.flush()?;
        Ok(std::mem::take(self.file.inner_mut()))
    }
}

fn text(cell: &Cell) -> Option<ByteArray> {
    if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None }
}

fn count(cell: &Cell) -> Option<i64> {
    if let Cell::Count(count) = cell { Some(i64::try_from(*count).unwrap_or(i64::MAX)) } else { None }
}

fn number(cell: &Cell) -> Option<f64> {
    if let Cell::Number(number) = cell { Some(*number) } else { None }
}

impl ResultReader {
    /// Writes the results of a filter as `date=YYYY-MM-DD/part.parquet` below `directory`, by the UTC day of their
    /// start, as `DuckDB`, Spark and `ClickHouse` read partitions; returns the number of files. Each file is complete or
    /// absent; earlier ones are replaced, and removed where a day has no results any more. The operator's files are
    /// readable by their owner only.
    pub fn export(&self, filter: &Filter, directory: &Path) -> Result<usize, ParquetExportError> {
        let days = {
            let columns = self.columns();
            columns.by_day(&columns.select(filter))
        };
        let days: BTreeMap<String, Vec<u64>> = days
            .into_iter()
            .map(|(day, sequences)| (format!("date={}", query::date(day * 86_400)), sequences))
            .collect();
        let (directory_mode, file_mode) = match filter.viewer {
            Viewer::Operator => (0o700, 0o600),
            Viewer::Everybody => (0o777, 0o666),
        };
        let make = |path: &Path| DirBuilder::new().recursive(true).mode(directory_mode).create(path);
        make(directory).map_err(failed(directory))?;
        remove_days(directory, |name| !days.contains_key(name)).map_err(failed(directory))?;
        for (name, sequences) in &days {
            let partition = directory.join(name);
            make(&partition).map_err(failed(&partition))?;
            let (partial, path) = (partition.join(PARTIAL), partition.join(PART));
            // Of an export that was interrupted.
            let _ = fs::remove_file(&partial);
            let file = file::create_new(&partial, file_mode);
            let mut file = file.map_err(failed(&partial))?;
            let mut writer = RowWriter::new(&mut file)?;
            let mut written = Ok(());
            self.each(filter.viewer, sequences, |result| {
                if written.is_ok() {
                    written = writer.add(self, result, filter.viewer);
                }
            })?;
            written?;
            writer.finish()?;
            file.sync_all().map_err(failed(&partial))?;
            fs::rename(&partial, &path).map_err(failed(&path))?;
        }
        Ok(days.len())
    }
}

const PART: &str = "part.parquet";
const PARTIAL: &str = "part.parquet.partial";

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ParquetExportError {
    let path = path.to_owned();
    move |source| ParquetExportError::Io { path, source }
}

/// Removes the files of earlier exports for some days; other files stay.
fn remove_days(directory: &Path, is_removed: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_day(name) && is_removed(name)) else { continue };
        let partition = directory.join(name);
        for file in [PARTIAL, PART] {
            match fs::remove_file(partition.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // It stays with files of somebody else.
        let _ = fs::remove_dir(&partition);
    }
    Ok(())
}

/// `date=YYYY-MM-DD`
fn is_day(name: &str) -> bool {
    let form =
        |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    name.strip_prefix("date=").is_some_and(|date| date.len() == 10 && date.bytes().enumerate().all(form))
}
