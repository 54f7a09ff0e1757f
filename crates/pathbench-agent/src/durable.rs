//! Files that survive a power cut: written beside their path, synchronised, then renamed.

use pathbench_program::random;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Modes of the files and directories, which hold tokens and addresses.
const OWN_FILE: u32 = 0o600;
const OWN_DIRECTORY: u32 = 0o700;

/// Prefix of a file that is being written.
pub(crate) const TEMPORARY: &str = ".new-";

/// Replaces `file` by one with this content, owner and group kept. After an error the earlier file is there as it was.
pub(crate) fn write(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let earlier = fs::metadata(file).ok();
    let put = |temporary: &Path| fs::rename(temporary, file);
    write_by(file, parts, earlier.as_ref(), put)
}

/// Fails with [`io::ErrorKind::AlreadyExists`] if `file` exists.
pub(crate) fn write_new(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let put =
        |temporary: &Path| match rustix::fs::renameat_with(CWD, temporary, CWD, file, RenameFlags::NOREPLACE)
        {
            // NFS cannot do it.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(CWD, temporary, CWD, file, AtFlags::empty())?;
                fs::remove_file(temporary)
            }
            renamed => Ok(renamed?),
        };
    write_by(file, parts, None, put)
}

fn write_by(
    file: &Path,
    parts: &[&[u8]],
    earlier: Option<&Metadata>,
    put: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let directory = parent(file);
    let temporary = directory.join(format!("{TEMPORARY}{:016x}", u64::from_ne_bytes(random::bytes())));
    let written = create(&temporary, parts, earlier).and_then(|()| put(&temporary));
    if written.is_err() {
        let _was_not_created = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_directory(&directory))
}

fn create(file: &Path, parts: &[&[u8]], earlier: Option<&Metadata>) -> io::Result<()> {
    let mut created = OpenOptions::new().write(true).create_new(true).mode(OWN_FILE).open(file)?;
    if let Some(earlier) = earlier {
        let (owner, group) = (Uid::from_raw(earlier.uid()), Gid::from_raw(earlier.gid()));
        match rustix::fs::fchown(&created, Some(owner), Some(group)) {
            // Only a privileged process gives a file away, in a user namespace to known ids; another one becomes its owner.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
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
    use std::os::unix::fs::chown;

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
