//! Backup, restoration and check of a collector's data.

use super::options::PlaceArgs;
use super::stores::{self, Stores};
use super::{Failure, secret};
use crate::clock::Clock;
use crate::maintenance::{self, DATABASE_FILE, Depth, MaintenanceError, RAW_DIRECTORY, Source};
use std::path::Path;
use std::sync::Arc;

type Print<'a> = &'a mut dyn FnMut(&str);

impl From<MaintenanceError> for Failure {
    fn from(error: MaintenanceError) -> Self {
        match error {
            MaintenanceError::NotEmpty(_) | MaintenanceError::NoBackup(_) | MaintenanceError::UsePgDump => {
                Self::bad_input(error)
            }
            _ => Self::failed(error),
        }
    }
}

pub(super) fn backup(
    place: &PlaceArgs,
    to: &Path,
    clock: &Arc<dyn Clock>,
    print: Print<'_>,
) -> Result<(), Failure> {
    // A backup without the key makes all tokens invalid.
    let secret = secret::text(&secret::path(place)?)?;
    let stores = Stores::open(place, clock)?;
    let source = stores.sqlite.as_deref().map_or(Source::Postgres, Source::Sqlite);
    let made = maintenance::backup(source, stores.raw.as_ref(), to, clock.unix_ms())?;
    secret::write(&to.join(secret::FILE), &secret)?;
    print(&format!("{}: database, {} segments, secret key\n", to.display(), made.segments));
    Ok(())
}

pub(super) fn restore(place: &PlaceArgs, from: &Path, print: Print<'_>) -> Result<(), Failure> {
    if place.database.is_some() || place.raw.is_some() {
        return Err(Failure::bad_input(
            "restore fills a directory: use it without --database and --raw, or pg_restore",
        ));
    }
    let directory = stores::directory(place)?;
    let secret = secret::text(&from.join(secret::FILE))?;
    let restored =
        maintenance::restore(from, &directory.join(DATABASE_FILE), &directory.join(RAW_DIRECTORY))?;
    secret::write(&secret::path(place)?, &secret)?;
    print(&format!("{}: restored with {} segments\n", directory.display(), restored.segments));
    Ok(())
}

pub(super) fn check(
    place: &PlaceArgs,
    digests: bool,
    clock: &Arc<dyn Clock>,
    print: Print<'_>,
) -> Result<(), Failure> {
    let stores = Stores::open(place, clock)?;
    let depth = if digests { Depth::Digests } else { Depth::Places };
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
