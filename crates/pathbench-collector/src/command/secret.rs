//! The file of the secret key.

use super::directory::{Opening, within_directory};
use super::options::StorageArgs;
use crate::keys::Keys;
use pathbench_program::exit::Failure;
use pathbench_program::random;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
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
    fs::read_to_string(path).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
}

/// Another collector may make it at the same time: the first one stays.
fn make(path: &Path) -> io::Result<()> {
    let temporary = temporary(path);
    create(&temporary, &Keys::new(random::bytes()).file_text())?;
    let linked = match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    fs::remove_file(&temporary)?;
    linked
}

fn temporary(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    temporary.into()
}

/// Replaces the file as a whole.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let temporary = temporary(path);
    let replaced = create(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    replaced.map_err(|error| Failure::failed(format!("cannot replace {}: {error}", path.display())))
}

/// Writes a new file that only its owner reads.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    create(path, text).map_err(|error| Failure::failed(format!("cannot create {}: {error}", path.display())))
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
}
