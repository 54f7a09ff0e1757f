//! Backup of an SQLite database and its raw parts to a directory, while the collector runs, and its restoration.

use super::{MaintenanceError, file_error};
use crate::raw::directory::sync_directory;
use crate::raw::{IDENTITY, RawError, RawMaintenance};
use crate::store::sqlite::Sqlite;
use pathbench_record::file;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Names within a backup, and within a collector's directory.
pub const DATABASE_FILE: &str = "results.sqlite";
pub const RAW_DIRECTORY: &str = "raw";

const MANIFEST: &str = "backup.json";
const SCHEMA: &str = "pathbench.backup/1";

/// The manifest, which is written last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    pub schema: String,
    /// Unix time of the database's copy.
    pub made_ms: u64,
    pub segments: u64,
    pub segment_bytes: u64,
}

/// Writes a backup to a new directory. The database is copied first: all its raw parts are in the segments that are
/// copied after it. `None`: the database is in PostgreSQL.
pub fn backup(
    database: Option<&Sqlite>,
    raw: &dyn RawMaintenance,
    target: &Path,
    now_ms: u64,
) -> Result<Backup, MaintenanceError> {
    let database = database.ok_or(MaintenanceError::UsePgDump)?;
    make_empty(target)?;
    let path = target.join(DATABASE_FILE);
    // Made here with its mode; SQLite accepts an empty file.
    new_file(&path)?;
    database.copy_to(&path)?;
    sync(&path)?;
    let directory = target.join(RAW_DIRECTORY);
    make_empty(&directory)?;
    let mut made = Backup { schema: SCHEMA.to_owned(), made_ms: now_ms, segments: 0, segment_bytes: 0 };
    for segment in raw.segments()? {
        let path = directory.join(format!("{}.segment", segment.name));
        let mut file = new_file(&path)?;
        match raw.copy(&segment.name, &mut file) {
            // Removed since the list was made.
            Err(RawError::Missing { .. }) => fs::remove_file(&path).map_err(file_error(&path))?,
            copied => {
                copied?;
                file.sync_all().map_err(file_error(&path))?;
                made.segments += 1;
                made.segment_bytes += file.metadata().map_err(file_error(&path))?.len();
            }
        }
    }
    if let Some(identity) = raw.identity()? {
        let path = directory.join(IDENTITY);
        new_file(&path)?.write_all(identity.as_bytes()).map_err(file_error(&path))?;
        sync(&path)?;
    }
    sync_directory(&directory).map_err(file_error(&directory))?;
    let manifest = target.join(MANIFEST);
    let mut file = new_file(&manifest)?;
    let written = serde_json::to_vec(&made).map_err(io::Error::from).and_then(|text| file.write_all(&text));
    written.and_then(|()| file.sync_all()).map_err(file_error(&manifest))?;
    sync_directory(target).map_err(file_error(target))?;
    Ok(made)
}

/// Copies a backup to a new database file and a new raw directory. The database comes last: an interrupted
/// restoration leaves no database that lacks raw parts.
pub fn restore(source: &Path, database: &Path, raw: &Path) -> Result<Backup, MaintenanceError> {
    let no_backup = || MaintenanceError::NoBackup(source.to_owned());
    let manifest = file::read(source.join(MANIFEST), file::SMALL_FILE_BYTES).map_err(|_| no_backup())?;
    let manifest: Backup = serde_json::from_slice(&manifest).map_err(|_| no_backup())?;
    if manifest.schema != SCHEMA {
        return Err(no_backup());
    }
    // SQLite would write a log of another database to this one.
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(MaintenanceError::NotEmpty(path.into()));
        }
    }
    make_empty(raw)?;
    let directory = source.join(RAW_DIRECTORY);
    let mut found = 0;
    for entry in fs::read_dir(&directory).map_err(file_error(&directory))? {
        let entry = entry.map_err(file_error(&directory))?;
        let bytes = copy(&entry.path(), &raw.join(entry.file_name()))?;
        if entry.file_name() != IDENTITY {
            found += bytes;
        }
    }
    if found != manifest.segment_bytes {
        let (path, expected) = (source.to_owned(), manifest.segment_bytes);
        return Err(MaintenanceError::Incomplete { path, expected, found });
    }
    sync_directory(raw).map_err(file_error(raw))?;
    let partial = database.with_extension("partial");
    copy(&source.join(DATABASE_FILE), &partial)?;
    fs::rename(&partial, database).map_err(file_error(database))?;
    let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    sync_directory(parent).map_err(file_error(parent))?;
    Ok(manifest)
}

/// Only its owner reads it: private results are in it.
fn make_empty(path: &Path) -> Result<(), MaintenanceError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(file_error(path))?;
    match fs::read_dir(path).map_err(file_error(path))?.next() {
        None => Ok(()),
        Some(_) => Err(MaintenanceError::NotEmpty(path.to_owned())),
    }
}

fn new_file(path: &Path) -> Result<File, MaintenanceError> {
    file::create_new(path, 0o600).map_err(file_error(path))
}

fn sync(path: &Path) -> Result<(), MaintenanceError> {
    file::open(path).and_then(|file| file.sync_all()).map_err(file_error(path))
}

fn copy(from: &Path, to: &Path) -> Result<u64, MaintenanceError> {
    let mut source = file::open(from).map_err(file_error(from))?;
    let mut target = new_file(to)?;
    let bytes = io::copy(&mut source, &mut target).map_err(file_error(to))?;
    target.sync_all().map_err(file_error(to))?;
    Ok(bytes)
}
