//! Errors of an export.

use pathbench_record::directory::ReadError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ResultExportError {
    #[error("cannot write or read {}: {source}; is the directory writable, and the disk not full?", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{location}: {problem}")]
    Value { location: String, problem: String },
    #[error("cannot write {}: {source}", path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    #[error(transparent)]
    Lines(#[from] ReadError),
}

impl ResultExportError {
    /// Adds the file to an error of reading or writing.
    pub(super) fn in_file(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path: path.clone(), source }
    }
}
