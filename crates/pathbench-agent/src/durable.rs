//! Files that survive a power cut: written beside their path, synchronised, then renamed.

use pathbench_record::file::{OpenDirectory, Replacement};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

pub(crate) use pathbench_record::file::TEMPORARY;

/// Modes of the files and directories, which hold tokens and addresses.
const OWN_FILE: u32 = 0o600;
const OWN_DIRECTORY: u32 = 0o700;

/// Replaces `file` by one with this content, owner and group kept. After an error the earlier file is there as it was.
pub(crate) fn write(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    begin(file, parts)?.commit_durably()
}

/// Fails with [`io::ErrorKind::AlreadyExists`] if `file` exists.
pub(crate) fn write_new(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    begin(file, parts)?.commit_new()
}

fn begin(file: &Path, parts: &[&[u8]]) -> io::Result<Replacement> {
    let replacement = Replacement::with_mode(file, OWN_FILE)?;
    parts.iter().try_for_each(|part| replacement.file().write_all(part))?;
    Ok(replacement)
}

/// Moves a file within its file system.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_directory_of(to)?;
    sync_directory_of(from)
}

/// Creates a directory and its parents for this user alone.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    OpenDirectory::create_with_mode(directory, OWN_DIRECTORY)?;
    sync_directory_of(directory)
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    OpenDirectory::open(path.parent().unwrap_or(Path::new("")))?.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, chown};

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

    #[test]
    fn a_replaced_file_keeps_its_owner_and_group() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        write(&file, &[b"one"]).unwrap();
        // Without CAP_CHOWN the owner is this user before and after.
        let _is_ordinary = chown(&file, Some(1), Some(1));
        let earlier = fs::metadata(&file).unwrap();
        write(&file, &[b"two"]).unwrap();
        let later = fs::metadata(&file).unwrap();
        assert_eq!((later.uid(), later.gid()), (earlier.uid(), earlier.gid()));
        assert_eq!((fs::read(&file).unwrap().as_slice(), later.mode() & 0o777), (&b"two"[..], OWN_FILE));
    }

    #[test]
    fn a_new_file_replaces_no_other() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        write_new(&file, &[b"one"]).unwrap();
        let error = write_new(&file, &[b"two"]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"one");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing temporary stays");
    }
}
