//! Errors of an export.

use pathbench_record::directory::ReadError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ExportError {
    #[error("cannot write or read {}: {source}; is the directory writable, and the disk not full?", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{place}: {problem}")]
    Value { place: String, problem: String },
    #[error("cannot write {}: {source}", path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    #[error(transparent)]
    Lines(#[from] ReadError),
}
