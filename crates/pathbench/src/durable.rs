//! Files that survive a power cut: written beside their place, synchronised, then renamed.

use crate::random;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Of the files and directories: tokens and addresses are in them.
const OWN_FILE: u32 = 0o600;
const OWN_DIRECTORY: u32 = 0o700;

/// Prefix of a file that is being written.
pub(crate) const TEMPORARY: &str = ".new-";

/// Replaces `file` by one with this content. After an error the earlier file is there as it was.
pub(crate) fn write(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let directory = parent(file);
    let temporary = directory.join(format!("{TEMPORARY}{:016x}", u64::from_ne_bytes(random::bytes())));
    let written = create(&temporary, parts).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _was_not_created = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_directory(&directory))
}

fn create(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut created = OpenOptions::new().write(true).create_new(true).mode(OWN_FILE).open(file)?;
    for part in parts {
        created.write_all(part)?;
    }
    created.sync_all()
}

/// Moves a file within its file system.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_directory(&parent(to))?;
    sync_directory(&parent(from))
}

/// Creates a directory and its parents for this user alone.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(OWN_DIRECTORY).create(directory)?;
    sync_directory(&parent(directory))
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    let opened = rustix::fs::open(directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    File::from(opened).sync_all()
}

fn parent(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a/b/file");
        create_directory(file.parent().unwrap()).unwrap();
        write(&file, &[b"one", b"two"]).unwrap();
        write(&file, &[b"three"]).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"three");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, OWN_FILE);
        assert_eq!(fs::metadata(home.path().join("a")).unwrap().mode() & 0o777, OWN_DIRECTORY);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing temporary stays");
        assert!(write(&home.path().join("no/file"), &[b""]).is_err());
    }
}
