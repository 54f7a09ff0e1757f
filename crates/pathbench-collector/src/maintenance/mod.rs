//! Maintenance of the stored results: retention, erasure of deleted raw parts, checks, backup.
//!
//! All functions block. [`erase_deleted`] belongs after every deletion and at every start, [`erase_unreferenced`] once a
//! day.

mod backup;
mod check;
mod erasure;
mod identity;

pub use backup::{Backup, DATABASE_FILE, RAW_DIRECTORY, backup, restore};
pub use check::{Depth, check};
pub use erasure::{
    AGENTS_KEPT, Erased, LIVE_KEPT, delete_old_documents, erase_deleted, erase_unreferenced, retain,
};
pub use identity::{check_pair, pair, raw_store_of};

use crate::raw::{IDENTITY, RawError};
use crate::store::StoreError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum MaintenanceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Raw(#[from] RawError),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{} exists and is not empty: name a new directory", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} holds no complete backup: backup.json is missing or of another version", .0.display())]
    NoBackup(PathBuf),
    #[error("{} lacks parts of the backup: {found} of {expected} bytes in segments", path.display())]
    Incomplete { path: PathBuf, expected: u64, found: u64 },
    #[error(
        "the raw store {location} belongs to another database: name the right ones with --dir, --database and --raw; if \
         they belong together nevertheless, write {identity} to its {IDENTITY}"
    )]
    OtherDatabase { location: String, identity: String },
    #[error("no collector has started with the database: name another one with --dir or --database")]
    NoCollector,
    #[error(
        "PostgreSQL has its own backup: pg_dump --format=custom --file=FILE URL, and pg_restore; copy the raw \
         store after it"
    )]
    UsePgDump,
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> MaintenanceError {
    let path = path.to_owned();
    move |error| MaintenanceError::File { path, error }
}
