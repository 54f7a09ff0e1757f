//! Errors of reading and writing the files of a result.

use super::layout::DOCUMENT;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Error of opening a result or reading its lines.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("{} holds no Pathbench result (there is no {DOCUMENT} in it)", path.display())]
    NotAResult { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a Pathbench result: {problem}", path.display())]
    OtherDocument { path: PathBuf, problem: String },
    #[error(
        "{} was written by a newer Pathbench (schema {found}; this one reads up to {reads}); update Pathbench to read it",
        path.display()
    )]
    Newer { path: PathBuf, found: String, reads: &'static str },
    #[error("{}:{}: {problem}", path.display(), line)]
    Broken {
        path: PathBuf,
        /// From 1.
        line: usize,
        problem: String,
    },
}

/// Error of writing a part of a result.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Error of copying lines.
#[derive(Debug, Error)]
pub enum CopyError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}
