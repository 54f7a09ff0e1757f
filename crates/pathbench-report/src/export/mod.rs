//! Results in formats of other programs: tables as CSV and Parquet, the summary as Markdown (docs/data.md).

mod csv;
pub mod markdown;
mod parquet;
mod rows;
pub mod table;

use crate::result_set::ResultSet;
use csv::CsvWriter;
use parquet::ParquetWriter;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use table::{Table, tables};
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    Csv,
    Parquet,
    Markdown,
}

impl ExportFormat {
    pub const ALL: [Self; 3] = [Self::Csv, Self::Parquet, Self::Markdown];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Markdown => "markdown",
        }
    }
}

#[derive(Debug, Error)]
pub enum ExportError {
    #[error("cannot write or read {}: {source}; is the directory writable, and the disk not full?", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{place}: {problem}")]
    Value { place: String, problem: String },
    #[error("cannot write {}: {source}", path.display())]
    Parquet { path: PathBuf, source: ::parquet::errors::ParquetError },
}

/// Writes `sets` in `format` to `out`, which is created if necessary, and returns the files.
///
/// # Errors
/// [`ExportError`], naming the file; of a value that does not fit its column, also the line.
pub fn write(sets: &[ResultSet], format: ExportFormat, out: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ExportError::File { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    let names = rows::names(sets);
    match format {
        ExportFormat::Csv | ExportFormat::Parquet => tables()
            .iter()
            .map(|table| {
                let path = out.join(format!("{}.{}", table.name, format.name()));
                write_table(table, sets, &names, format, &path).map(|()| path)
            })
            .collect(),
        ExportFormat::Markdown => {
            let path = out.join("summary.md");
            let pages = sets.iter().zip(&names).map(|(set, name)| markdown::summary(set, name));
            let text = pages.collect::<Vec<_>>().join("\n");
            fs::write(&path, text).map_err(failed(&path))?;
            Ok(vec![path])
        }
    }
}

fn write_table(
    table: &Table,
    sets: &[ResultSet],
    names: &[String],
    format: ExportFormat,
    path: &Path,
) -> Result<(), ExportError> {
    let failed = |source| ExportError::File { path: path.to_owned(), source };
    let not_parquet = |source| ExportError::Parquet { path: path.to_owned(), source };
    let file = BufWriter::new(File::create(path).map_err(failed)?);
    if format == ExportFormat::Parquet {
        let mut writer = ParquetWriter::new(file, &table.columns).map_err(not_parquet)?;
        rows::each_row(table, sets, names, &mut |cells| writer.row(cells).map_err(not_parquet))?;
        return writer.finish().map_err(not_parquet);
    }
    let mut writer = CsvWriter::new(file, &table.columns).map_err(failed)?;
    rows::each_row(table, sets, names, &mut |cells| writer.row(cells).map_err(failed))?;
    writer.finish().map_err(failed)
}
