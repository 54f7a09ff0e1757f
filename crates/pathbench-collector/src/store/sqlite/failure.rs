//! Failures of a file.

use crate::store::StoreError;
use rusqlite::{ErrorCode, ffi};
use std::path::Path;

pub(super) fn failed(path: &Path, problem: impl Into<String>) -> StoreError {
    StoreError::Failed { location: path.display().to_string(), problem: problem.into() }
}

pub(super) fn failure(path: &Path, error: &rusqlite::Error) -> StoreError {
    let location = path.display().to_string();
    let code = error.sqlite_error().map(|error| (error.code, error.extended_code));
    match code {
        // The second: the index of the WAL cannot grow.
        Some((ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE)) => StoreError::Full { location },
        _ => StoreError::Failed { location, problem: error.to_string() },
    }
}
