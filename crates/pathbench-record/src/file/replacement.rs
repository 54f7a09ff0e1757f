//! Files that are replaced as a whole.

use super::directory::{OpenDirectory, append, parent_and_name, plain_name};
use super::reading::{name as name_of_type, unusable};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fcntl_getfl,
    fcntl_setfl, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::path::Path;

/// Prefix of the name of a file that is being written.
pub const TEMPORARY: &str = ".new-";
const ATTEMPTS: u32 = 16;
const PERMISSIONS: u32 = 0o777;

impl OpenDirectory {
    /// Begins the file that replaces the file `name` of this directory.
    pub fn replace(&self, name: impl AsRef<OsStr>) -> io::Result<Replacement> {
        Replacement::begin(self.clone(), plain_name(name.as_ref())?, None)
    }

    /// Replaces the file `name` by one with this content.
    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8]) -> io::Result<()> {
        let replacement = self.replace(name)?;
        replacement.file().write_all(content)?;
        replacement.commit()
    }
}

/// A file that is being written beside the one that it replaces. Without a [`Self::commit`] it is removed.
///
/// A symbolic link in place of the earlier file is replaced and not followed.
#[derive(Debug)]
pub struct Replacement {
    directory: OpenDirectory,
    name: OsString,
    temporary: OsString,
    file: File,
    is_renamed: bool,
}

impl Replacement {
    /// Begins the file that replaces `path`. Permissions and owner are those of the earlier regular file.
    pub fn new(path: &Path) -> io::Result<Self> {
        let (directory, name) = parent_and_name(path)?;
        Self::begin(directory, &name, None)
    }

    /// Begins the file that replaces `path`, with the permissions `mode`, less the umask.
    pub fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        let (directory, name) = parent_and_name(path)?;
        Self::begin(directory, &name, Some(mode))
    }

    fn begin(directory: OpenDirectory, name: &OsStr, mode: Option<u32>) -> io::Result<Self> {
        let earlier = match statat(directory.descriptor(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        let kind = earlier.as_ref().map(|found| FileType::from_raw_mode(found.st_mode));
        if let Some(kind) = kind.filter(|kind| !matches!(kind, FileType::RegularFile | FileType::Symlink)) {
            return Err(unusable(name_of_type(kind)));
        }
        let earlier = earlier.filter(|_| kind == Some(FileType::RegularFile));
        let (temporary, file) = create_temporary(&directory, mode.unwrap_or(0o666))?;
        let replacement = Self { directory, name: name.to_owned(), temporary, file, is_renamed: false };
        if let Some(earlier) = earlier {
            replacement.take_over(&earlier, mode.is_none())?;
        }
        Ok(replacement)
    }

    /// Gives the file the owner and the permissions of the earlier one.
    fn take_over(&self, earlier: &Stat, with_permissions: bool) -> io::Result<()> {
        let (owner, group) = (Uid::from_raw(earlier.st_uid), Gid::from_raw(earlier.st_gid));
        match fchown(&self.file, Some(owner), Some(group)) {
            // Only a privileged process gives a file away, in a user namespace to known ids; another one becomes its owner.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        if with_permissions {
            fchmod(&self.file, Mode::from_raw_mode(earlier.st_mode & PERMISSIONS))?;
        }
        Ok(())
    }

    /// The file, for writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file in the place of the earlier one.
    pub fn commit(mut self) -> io::Result<()> {
        self.rename()
    }

    /// [`Self::commit`]; after it the file survives a power cut.
    pub fn commit_durably(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        self.directory.sync()
    }

    /// Puts the file in its place, durably, if no file is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is a file.
    pub fn commit_new(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let directory = self.directory.descriptor();
        match renameat_with(directory, &self.temporary, directory, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => self.is_renamed = true,
            // NFS cannot do it; the temporary name is removed with this value.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(directory, &self.temporary, directory, &self.name, AtFlags::empty())?;
            }
            Err(errno) => return Err(errno.into()),
        }
        self.directory.sync()
    }

    fn rename(&mut self) -> io::Result<()> {
        let directory = self.directory.descriptor();
        renameat(directory, &self.temporary, directory, &self.name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _stays = unlinkat(self.directory.descriptor(), &self.temporary, AtFlags::empty());
        }
    }
}

fn create_temporary(directory: &OpenDirectory, mode: u32) -> io::Result<(OsString, File)> {
    for _ in 0..ATTEMPTS {
        // The keys of a `RandomState` are random, so that no other process creates the name first.
        let name = OsString::from(format!("{TEMPORARY}{:016x}", RandomState::new().hash_one(0)));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match directory.open_file(&name, flags, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (name, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Replaces `path` by a file with this content. A symbolic link in place of the earlier file is not followed.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let replacement = Replacement::new(path)?;
    replacement.file().write_all(content)?;
    replacement.commit()
}

/// Writes the file that the user names. A device or a pipe, as `/dev/stdout`, gets the content; any other file is
/// replaced.
pub fn write_named(path: &Path, content: &[u8]) -> io::Result<()> {
    match open_device(path)? {
        Some(mut device) => device.write_all(content),
        None => replace(path, content),
    }
}

/// Opens the file that the user names for writing at its end, and creates it if necessary. It is a device or a pipe, as
/// `/dev/stderr`, or a regular file.
pub fn append_named(path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
    let path = path.as_ref();
    match open_device(path)? {
        Some(device) => Ok(device),
        None => append(path, mode),
    }
}

/// The device or the pipe of this name; `None` if there is none.
fn open_device(path: &Path) -> io::Result<Option<File>> {
    let found = statat(CWD, path, AtFlags::empty()).map(|found| FileType::from_raw_mode(found.st_mode));
    if !matches!(found, Ok(FileType::CharacterDevice | FileType::Fifo)) {
        return Ok(None);
    }
    // O_NONBLOCK: a FIFO without a reader is an error.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let device = openat(CWD, path, flags, Mode::empty())?;
    fcntl_setfl(&device, fcntl_getfl(&device)? & !OFlags::NONBLOCK)?;
    Ok(Some(device.into()))
}
