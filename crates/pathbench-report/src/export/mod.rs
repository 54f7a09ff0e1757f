//! Results in formats of other programs: tables as CSV and Parquet, the summary as Markdown, runs as Perfetto traces
//! and Flent's data files (docs/data.md).

mod csv;
mod error;
mod flent;
pub mod markdown;
mod parquet;
mod perfetto;
mod rows;
pub mod table;
mod trace;
mod xplot;

use crate::result_set::ResultSet;
use crate::run_data::RunData;
use csv::CsvWriter;
pub use error::ResultExportError;
use parquet::ParquetWriter;
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use table::{Column, tables};
pub use trace::write_trace;
pub use xplot::write_xplot;

/// Longest name of a file, in characters of up to 4 bytes.
const LONGEST_NAME: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    Csv,
    Parquet,
    Markdown,
    Perfetto,
    Flent,
}

impl ExportFormat {
    pub const ALL: [Self; 5] = [Self::Csv, Self::Parquet, Self::Markdown, Self::Perfetto, Self::Flent];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Markdown => "markdown",
            Self::Perfetto => "perfetto",
            Self::Flent => "flent",
        }
    }
}

/// Writes `sets` in `format` to `out`, which is created if necessary, and returns the files.
///
/// # Errors
/// [`ResultExportError`], naming the file; of a value that does not fit its column, also the line.
pub fn write(
    sets: &[ResultSet],
    format: ExportFormat,
    out: &Path,
) -> Result<Vec<PathBuf>, ResultExportError> {
    let failed = ResultExportError::in_file;
    fs::create_dir_all(out).map_err(failed(out))?;
    let names = rows::names(sets);
    match format {
        ExportFormat::Csv | ExportFormat::Parquet => tables()
            .iter()
            .map(|table| {
                let path = out.join(format!("{}.{}", table.name, format.name()));
                let each = |sink: &mut rows::Sink| rows::each_row(table, sets, &names, sink);
                write_rows(&table.columns, format, &path, each).map(|()| path)
            })
            .collect(),
        ExportFormat::Markdown => {
            let path = out.join("summary.md");
            let pages = sets.iter().zip(&names).map(|(set, name)| markdown::summary(set, name));
            let text = pages.collect::<Vec<_>>().join("\n");
            fs::write(&path, text).map_err(failed(&path))?;
            Ok(vec![path])
        }
        ExportFormat::Perfetto => each_run(sets, &names, |_, run, data, name| {
            let path = out.join(format!("{name}.perfetto-trace"));
            let mut file = BufWriter::new(File::create(&path).map_err(failed(&path))?);
            perfetto::write(run, data, &mut file).and_then(|()| file.flush()).map_err(failed(&path))?;
            Ok(vec![path])
        }),
        ExportFormat::Flent => each_run(sets, &names, |set, run, data, name| {
            let files = Direction::BOTH.into_iter().filter_map(|direction| {
                let file = flent::file(set, run, data, direction)?;
                Some((out.join(format!("{name}-{}.flent", direction.name())), file))
            });
            files
                .map(|(path, file)| {
                    fs::write(&path, file.to_string()).map_err(failed(&path))?;
                    Ok(path)
                })
                .collect()
        }),
    }
}

/// The files of each run. Their name is the run's id, after the result's name if there are several results.
fn each_run(
    sets: &[ResultSet],
    names: &[String],
    write: impl Fn(&ResultSet, &RunRecord, &RunData, &str) -> Result<Vec<PathBuf>, ResultExportError>,
) -> Result<Vec<PathBuf>, ResultExportError> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut taken = HashSet::new();
    for (set, result) in sets.iter().zip(names) {
        for run in &set.document.runs {
            let whole = if sets.len() > 1 { format!("{result}-{}", run.id) } else { run.id.clone() };
            let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
            let plain = whole.chars().take(LONGEST_NAME).map(|c| if is_plain(c) { c } else { '-' });
            let plain: String = plain.collect();
            // Ids come from the result: `..` or two runs with one id.
            let mut name =
                format!("{}{plain}", if plain.starts_with('.') || plain.is_empty() { "run" } else { "" });
            if !taken.insert(name.clone()) {
                name = format!("{}-{name}", taken.len() + 1);
                taken.insert(name.clone());
            }
            files.extend(write(set, run, &RunData::from_lines(set.lines.of_run(&run.id)?), &name)?);
        }
    }
    Ok(files)
}

/// Writes the rows that `each` passes to its sink, as Parquet or as CSV.
fn write_rows(
    columns: &[Column],
    format: ExportFormat,
    path: &Path,
    each: impl FnOnce(&mut rows::Sink) -> Result<(), ResultExportError>,
) -> Result<(), ResultExportError> {
    let failed = ResultExportError::in_file(path);
    let not_parquet = |source| ResultExportError::Parquet { path: path.to_owned(), source };
    let file = BufWriter::new(File::create(path).map_err(&failed)?);
    if format == ExportFormat::Parquet {
        let mut writer = ParquetWriter::new(file, columns).map_err(not_parquet)?;
        each(&mut |cells| writer.row(cells).map_err(not_parquet))?;
        return writer.finish().map_err(not_parquet);
    }
    let mut writer = CsvWriter::new(file, columns).map_err(&failed)?;
    each(&mut |cells| writer.row(cells).map_err(&failed))?;
    writer.finish().map_err(failed)
}
