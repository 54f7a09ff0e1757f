//! The database and the raw store that the options name.

use super::directory::{Opening, within_directory};
use super::options::StorageArgs;
use super::secret;
use crate::maintenance::{self, DATABASE_FILE, MaintenanceError, RAW_DIRECTORY};
use crate::raw::RawMaintenance;
use crate::raw::directory::Directory;
use crate::raw::s3::{Location, S3};
use crate::store::postgres::{Postgres, PostgresOptions};
use crate::store::sqlite::Sqlite;
use crate::store::{Database, DatabaseMaintenance};
use pathbench_program::exit::Failure;
use pathbench_program::random;
use pathbench_record::time::SharedClock;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Stores {
    pub(super) database: Arc<dyn DatabaseMaintenance>,
    /// The database, if it is SQLite.
    pub(super) sqlite: Option<Arc<Sqlite>>,
    pub(super) raw: Arc<dyn RawMaintenance>,
}

impl Stores {
    pub(super) fn open(
        storage: &StorageArgs,
        opening: Opening,
        clock: &SharedClock,
    ) -> Result<Self, Failure> {
        let stores = Self::unpaired(storage, opening, clock)?;
        let (database, raw) = (stores.database.as_ref(), stores.raw.as_ref());
        match opening {
            Opening::Create => maintenance::pair(database, raw, random::bytes, clock.unix_ms())?,
            Opening::Existing => maintenance::check_pair(database, raw)?,
        }
        Ok(stores)
    }

    fn unpaired(storage: &StorageArgs, opening: Opening, clock: &SharedClock) -> Result<Self, Failure> {
        if let Some(url) = &storage.database {
            let raw = raw_store(storage, opening, clock)?;
            let database = Postgres::connect(url, PostgresOptions::default())?;
            return Ok(Self { database: Arc::new(database), sqlite: None, raw });
        }
        let path = within_directory(storage, DATABASE_FILE, opening)?;
        let raw = raw_store(storage, opening, clock)?;
        let sqlite = Arc::new(Sqlite::open(&path)?);
        Ok(Self { database: Arc::<Sqlite>::clone(&sqlite), sqlite: Some(sqlite), raw })
    }
}

/// The database of a collector alone; its raw store need not answer.
pub(super) fn database(storage: &StorageArgs, clock: &SharedClock) -> Result<Arc<dyn Database>, Failure> {
    let database = Stores::unpaired(storage, Opening::Existing, clock)?.database;
    match maintenance::raw_store_of(database.as_ref())? {
        Some(_) => Ok(database),
        None => Err(MaintenanceError::NoCollector.into()),
    }
}

/// Makes a collector that has not started yet.
pub(super) fn create(storage: &StorageArgs, clock: &SharedClock) -> Result<(), Failure> {
    Stores::open(storage, Opening::Create, clock)?;
    secret::keys(storage, Opening::Create).map(drop)
}

fn raw_store(
    storage: &StorageArgs,
    opening: Opening,
    clock: &SharedClock,
) -> Result<Arc<dyn RawMaintenance>, Failure> {
    if let Some(url) = &storage.raw {
        let environment = |name: &str| std::env::var(name).ok();
        let location = Location::parse(url, environment).map_err(Failure::bad_input)?;
        return Ok(Arc::new(S3::new(location, Arc::clone(clock), random::bytes)));
    }
    let path = within_directory(storage, RAW_DIRECTORY, opening)?;
    Ok(Arc::new(Directory::open(&path, Arc::clone(clock), random::bytes).map_err(Failure::failed)?))
}
