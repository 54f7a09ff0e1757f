//! The directory, the secret key, the database and the raw store that the options name.

use super::Failure;
use super::options::PlaceArgs;
use crate::clock::Clock;
use crate::maintenance::{DATABASE_FILE, RAW_DIRECTORY};
use crate::raw::RawMaintenance;
use crate::raw::directory::Directory;
use crate::raw::s3::{Location, S3};
use crate::store::postgres::{self, Postgres};
use crate::store::sqlite::Sqlite;
use crate::store::{Database, DatabaseMaintenance};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The collector's directory; it is created if necessary, for its owner alone.
pub(super) fn directory(place: &PlaceArgs) -> Result<PathBuf, Failure> {
    let path = match &place.dir {
        Some(path) => path.clone(),
        None => default_directory()?,
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|error| {
        Failure::failed(format!("cannot create {}: {error}; name another one with --dir", path.display()))
    })?;
    Ok(path)
}

fn default_directory() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/pathbench/collector".into());
    }
    let data = std::env::var_os("XDG_DATA_HOME").filter(|path| Path::new(path).is_absolute());
    let data = data.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    let data = data.ok_or_else(|| Failure::bad_input("no home directory: name a directory with --dir"))?;
    Ok(data.join("pathbench/collector"))
}

/// Database and raw store.
#[derive(Debug)]
pub(super) struct Stores {
    pub(super) database: Arc<dyn DatabaseMaintenance>,
    /// The database, if it is SQLite.
    pub(super) sqlite: Option<Arc<Sqlite>>,
    pub(super) raw: Arc<dyn RawMaintenance>,
}

impl Stores {
    pub(super) fn open(place: &PlaceArgs, clock: &Arc<dyn Clock>) -> Result<Self, Failure> {
        let raw = raw_store(place, clock)?;
        if let Some(url) = &place.database {
            let database = Postgres::connect(url, postgres::Options::default()).map_err(Failure::failed)?;
            return Ok(Self { database: Arc::new(database), sqlite: None, raw });
        }
        let path = directory(place)?.join(DATABASE_FILE);
        let sqlite = Arc::new(Sqlite::open(&path).map_err(Failure::failed)?);
        Ok(Self { database: Arc::<Sqlite>::clone(&sqlite), sqlite: Some(sqlite), raw })
    }
}

/// The database alone.
pub(super) fn database(place: &PlaceArgs, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Database>, Failure> {
    Ok(Stores::open(place, clock)?.database)
}

fn raw_store(place: &PlaceArgs, clock: &Arc<dyn Clock>) -> Result<Arc<dyn RawMaintenance>, Failure> {
    if let Some(url) = &place.raw {
        let environment = |name: &str| std::env::var(name).ok();
        let location = Location::parse(url, environment).map_err(Failure::bad_input)?;
        return Ok(Arc::new(S3::new(location, Arc::clone(clock), random)));
    }
    let path = directory(place)?.join(RAW_DIRECTORY);
    Ok(Arc::new(Directory::open(&path, Arc::clone(clock), random).map_err(Failure::failed)?))
}

/// # Panics
/// If the kernel gives no random bytes.
fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    SystemRandom::new().fill(&mut bytes).unwrap_or_else(|_| panic!("the kernel gives no random bytes"));
    bytes
}
