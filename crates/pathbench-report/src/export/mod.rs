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
use pathbench_record::file::OpenDirectory;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
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

/// Writes `sets` in `format` to `out`, and returns the files.
///
/// # Errors
/// [`ResultExportError`], naming the file; of a value that does not fit its column, also the line.
pub fn write(
    sets: &[ResultSet],
    format: ExportFormat,
    out: &OpenDirectory,
) -> Result<Vec<PathBuf>, ResultExportError> {
    let names = rows::names(sets);
    match format {
        ExportFormat::Csv | ExportFormat::Parquet => tables()
            .iter()
            .map(|table| {
                let each = |sink: &mut rows::Sink| rows::each_row(table, sets, &names, sink);
                write_rows(&table.columns, format, (out, table.name), each)
            })
            .collect(),
        ExportFormat::Markdown => {
            let pages = sets.iter().zip(&names).map(|(set, name)| markdown::summary(set, name));
            let text = pages.collect::<Vec<_>>().join("\n");
            Ok(vec![write_file(out, "summary.md", |file| file.write_all(text.as_bytes()))?])
        }
        ExportFormat::Perfetto => each_run(sets, &names, |_, run, data, name| {
            let name = format!("{name}.perfetto-trace");
            Ok(vec![write_file(out, &name, |file| perfetto::write(run, data, file))?])
        }),
        ExportFormat::Flent => each_run(sets, &names, |set, run, data, name| {
            let files = Direction::BOTH.into_iter().filter_map(|direction| {
                let file = flent::file(set, run, data, direction)?;
                Some((format!("{name}-{}.flent", direction.name()), file))
            });
            files.map(|(name, text)| write_file(out, &name, |file| write!(file, "{text}"))).collect()
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

/// Replaces the file `name` by what `write` writes, and returns its path.
fn write_file(
    out: &OpenDirectory,
    name: &str,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<PathBuf, ResultExportError> {
    let path = out.path().join(name);
    let replaced = || {
        let replacement = out.replace(name)?;
        let mut file = BufWriter::new(replacement.file());
        write(&mut file).and_then(|()| file.flush())?;
        drop(file);
        replacement.commit()
    };
    replaced().map_err(ResultExportError::in_file(&path))?;
    Ok(path)
}

/// Writes the rows that `each` passes to its sink into a table, as Parquet or as CSV, and returns its path.
fn write_rows(
    columns: &[Column],
    format: ExportFormat,
    (out, table): (&OpenDirectory, &str),
    each: impl FnOnce(&mut rows::Sink) -> Result<(), ResultExportError>,
) -> Result<PathBuf, ResultExportError> {
    let name = format!("{table}.{}", format.name());
    let path = out.path().join(&name);
    let failed = ResultExportError::in_file(&path);
    let not_parquet = |source| ResultExportError::Parquet { path: path.clone(), source };
    let replacement = out.replace(&name).map_err(&failed)?;
    let mut file = BufWriter::new(replacement.file());
    if format == ExportFormat::Parquet {
        let mut writer = ParquetWriter::new(&mut file, columns).map_err(not_parquet)?;
        each(&mut |cells| writer.row(cells).map_err(not_parquet))?;
        writer.finish().map_err(not_parquet)?;
    } else {
        let mut writer = CsvWriter::new(&mut file, columns).map_err(&failed)?;
        each(&mut |cells| writer.row(cells).map_err(&failed))?;
        writer.finish().map_err(&failed)?;
    }
    file.flush().map_err(&failed)?;
    drop(file);
    replacement.commit().map_err(failed)?;
    Ok(path)
}
