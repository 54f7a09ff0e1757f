//! Backup, restoration and check of a collector's data.

use super::directory::{Opening, within_directory};
use super::options::StorageArgs;
use super::secret;
use super::stores::Stores;
use crate::columns::{Columns, Filter};
use crate::maintenance::{self, DATABASE_FILE, Depth, MaintenanceError, RAW_DIRECTORY};
use crate::reader::{self, ResultReader};
use crate::store::StoreError;
use crate::viewer::Viewer;
use pathbench_program::exit::Failure;
use pathbench_record::time::SharedClock;
use pathbench_report::quantity::counted;
use std::fs;
use std::path::Path;
use std::sync::{Arc, RwLock};

type Print<'a> = &'a mut dyn FnMut(&str);

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

impl From<MaintenanceError> for Failure {
    fn from(error: MaintenanceError) -> Self {
        match error {
            MaintenanceError::Store(_)
            | MaintenanceError::Raw(_)
            | MaintenanceError::File { .. }
            | MaintenanceError::Incomplete { .. } => Self::failed(error),
            _ => Self::bad_input(error),
        }
    }
}

pub(super) fn backup(
    storage: &StorageArgs,
    to: &Path,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    // A backup without the key makes all tokens invalid.
    let secret = secret::text(&secret::path(storage, Opening::Existing)?)?;
    let stores = Stores::open(storage, Opening::Existing, clock)?;
    let made = maintenance::backup(stores.sqlite.as_deref(), stores.raw.as_ref(), to, clock.unix_ms())?;
    secret::write(&to.join(secret::FILE), &secret)?;
    print(&format!("{}: database, {}, secret key\n", to.display(), counted(made.segments, "segment")));
    Ok(())
}

pub(super) fn restore(storage: &StorageArgs, from: &Path, print: Print<'_>) -> Result<(), Failure> {
    if storage.database.is_some() || storage.raw.is_some() {
        return Err(Failure::bad_input(
            "restore fills a directory: use it without --database and --raw, or pg_restore",
        ));
    }
    let secret = secret::text(&from.join(secret::FILE))?;
    let key = secret::path(storage, Opening::Create)?;
    let database = within_directory(storage, DATABASE_FILE, Opening::Create)?;
    // Before the data: a start without the key would make another one.
    let is_new = !key.exists();
    if is_new {
        secret::write(&key, &secret)?;
    } else if !secret::read(&key)?.include(&secret::read(&from.join(secret::FILE))?) {
        return Err(Failure::bad_input(format!(
            "{} is not the key of the backup: name a new directory, or another file with --secret",
            key.display()
        )));
    }
    let raw = within_directory(storage, RAW_DIRECTORY, Opening::Create)?;
    let restored = maintenance::restore(from, &database, &raw).inspect_err(|_| {
        if is_new {
            let _ = fs::remove_file(&key);
        }
    })?;
    print(&format!("{}: restored with {}\n", database.display(), counted(restored.segments, "segment")));
    Ok(())
}

pub(super) fn check(
    storage: &StorageArgs,
    digests: bool,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let stores = Stores::open(storage, Opening::Existing, clock)?;
    let depth = if digests { Depth::Digests } else { Depth::Ranges };
    let problems = maintenance::check(stores.database.as_ref(), stores.raw.as_ref(), depth)?;
    if problems.is_empty() {
        print("no problem found\n");
        return Ok(());
    }
    for problem in &problems {
        print(&format!("{problem}\n"));
    }
    Err(Failure::failed(format!(
        "{} problems found; restore a backup, or delete the results",
        problems.len()
    )))
}

pub(super) fn export(
    storage: &StorageArgs,
    to: &Path,
    all: bool,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let stores = Stores::open(storage, Opening::Existing, clock)?;
    let columns = Arc::new(RwLock::new(Columns::default()));
    reader::load(stores.database.as_ref(), &columns)?;
    let reader = ResultReader::new(stores.database, stores.raw, columns, Arc::clone(clock));
    let viewer = if all { Viewer::Operator } else { Viewer::Everybody };
    let days = reader.export(&Filter::new(viewer), to).map_err(Failure::failed)?;
    print(&format!("{}: {}\n", to.display(), counted(days, "day")));
    Ok(())
}
