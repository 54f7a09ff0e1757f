//! The file of the secret key.

use super::directory::{Opening, within_directory};
use super::options::StorageArgs;
use crate::keys::Keys;
use pathbench_program::exit::Failure;
use pathbench_program::random;
use pathbench_record::file::{self, Replacement};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub(super) const FILE: &str = "secret.key";

/// The key; the first start makes it.
pub(super) fn keys(storage: &StorageArgs, opening: Opening) -> Result<Keys, Failure> {
    let path = path(storage, opening)?;
    if opening == Opening::Create && !path.exists() {
        make(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    }
    read(&path)
}

pub(super) fn read(path: &Path) -> Result<Keys, Failure> {
    Keys::parse(&text(path)?).ok_or_else(|| {
        Failure::bad_input(format!(
            "{}: a secret key has 64 hexadecimal digits; those after the first line end with `until TIME`",
            path.display()
        ))
    })
}

pub(super) fn path(storage: &StorageArgs, opening: Opening) -> Result<PathBuf, Failure> {
    match &storage.secret {
        Some(path) => Ok(path.clone()),
        None => within_directory(storage, FILE, opening),
    }
}

pub(super) fn text(path: &Path) -> Result<String, Failure> {
    file::read_text_named(path, file::SMALL_FILE_BYTES)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
}

/// Another collector may make it at the same time: the first one stays.
fn make(path: &Path) -> io::Result<()> {
    let made = Replacement::with_mode(path, 0o600)?;
    made.file().write_all(Keys::new(random::bytes()).file_text().as_bytes())?;
    match made.commit_new() {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Replaces the file as a whole.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let replaced = Replacement::with_mode(path, 0o600)
        .and_then(|new| new.file().write_all(text.as_bytes()).and_then(|()| new.commit_durably()));
    replaced.map_err(|error| Failure::failed(format!("cannot replace {}: {error}", path.display())))
}

/// Writes a new file that only its owner reads.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    create(path, text).map_err(|error| Failure::failed(format!("cannot create {}: {error}", path.display())))
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = file::create_new(path, 0o600)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
}
