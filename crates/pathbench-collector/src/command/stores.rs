//! The directory, the secret key, the database and the raw store that the options name.

use super::Failure;
use super::options::PlaceArgs;
use crate::clock::Clock;
use crate::keys::Keys;
use crate::raw::RawStore;
use crate::raw::directory::Directory;
use crate::store::Database;
use crate::store::postgres::{self, Postgres};
use crate::store::sqlite::Sqlite;
use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
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

/// The secret key; the first start makes it.
pub(super) fn keys(place: &PlaceArgs) -> Result<Keys, Failure> {
    let path = secret_path(place)?;
    match read_secret(&path) {
        Ok(keys) => Ok(keys),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_secret(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
            read_secret(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
        }
        Err(error) => Err(Failure::bad_input(format!("{}: {error}", path.display()))),
    }
}

pub(super) fn secret_path(place: &PlaceArgs) -> Result<PathBuf, Failure> {
    match &place.secret {
        Some(path) => Ok(path.clone()),
        None => Ok(directory(place)?.join("secret.key")),
    }
}

fn read_secret(path: &Path) -> io::Result<Keys> {
    let text = fs::read_to_string(path)?;
    let secret = HEXLOWER.decode(text.trim().as_bytes()).ok().and_then(|secret| secret.try_into().ok());
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a secret key has 64 hexadecimal digits");
    Ok(Keys::new(&secret.ok_or_else(wrong)?))
}

/// Another collector may make it at the same time: the first one stays.
fn make_secret(path: &Path) -> io::Result<()> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| io::Error::other("no random bytes"))?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = writeln!(file, "{}", HEXLOWER.encode(&secret)).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    fs::remove_file(&temporary)?;
    linked
}

pub(super) fn database(place: &PlaceArgs) -> Result<Arc<dyn Database>, Failure> {
    if let Some(url) = &place.database {
        return Ok(Arc::new(Postgres::connect(url, postgres::Options::default()).map_err(Failure::failed)?));
    }
    let path = directory(place)?.join("collector.sqlite");
    Ok(Arc::new(Sqlite::open(&path).map_err(Failure::failed)?))
}

pub(super) fn raw_store(place: &PlaceArgs, clock: &Arc<dyn Clock>) -> Result<Arc<dyn RawStore>, Failure> {
    let path = directory(place)?.join("raw");
    let store = Directory::open(&path, Arc::clone(clock), random).map_err(Failure::failed)?;
    Ok(Arc::new(store))
}

/// # Panics
/// If the kernel gives no random bytes.
fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    SystemRandom::new().fill(&mut bytes).unwrap_or_else(|_| panic!("the kernel gives no random bytes"));
    bytes
}
