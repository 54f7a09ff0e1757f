//! Directories in which files are written, and files that grow.

use super::reading::{check_regular, error_of, unusable};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, fsync, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OTHERS_MAY_WRITE: u32 = 0o022;

/// A directory, open: its files are opened relative to its descriptor, so that no other directory can take its place.
#[derive(Debug, Clone)]
pub struct OpenDirectory {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
}

impl OpenDirectory {
    /// Opens the directory that the user names, also by a symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, named, flags, Mode::empty())?;
        Ok(Self { descriptor: Arc::new(descriptor), path: path.to_owned() })
    }

    /// Opens the directory that the user names, and creates it with its parents if necessary.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::create_with_mode(path, 0o777)
    }

    /// [`Self::create`]; new directories have the permissions `mode`, less the umask.
    pub fn create_with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        if !path.as_os_str().is_empty() {
            DirBuilder::new().recursive(true).mode(mode).create(path)?;
        }
        Self::open(path)
    }

    /// Opens the directory `name` in this one, and creates it if necessary. A symbolic link in its place is an error.
    pub fn subdirectory(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = plain_name(name.as_ref())?;
        match mkdirat(&*self.descriptor, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = match openat(&*self.descriptor, name, flags, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let problem = "it is a symbolic link or a file, not a directory";
                return Err(io::Error::new(ErrorKind::NotADirectory, problem));
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self { descriptor: Arc::new(descriptor), path: self.path.join(name) })
    }

    /// The path by which the directory was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file `name`, which must not exist, for writing at its end.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        self.open_file(plain_name(name.as_ref())?, flags, mode)
    }

    /// Creates the file `name` for writing at its end; an earlier file of this name is removed.
    pub fn create_anew(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = plain_name(name.as_ref())?;
        match unlinkat(&*self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => self.create_new(name, mode),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the regular file `name` for writing at its end. With a mode it is created if necessary.
    fn append(&self, name: &OsStr, mode: Option<u32>) -> io::Result<File> {
        let create = if mode.is_some() { OFlags::CREATE } else { OFlags::empty() };
        self.open_file(name, OFlags::WRONLY | OFlags::APPEND | create, mode.unwrap_or_default())
    }

    /// Makes the entries of the directory durable.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fsync(openat(&*self.descriptor, ".", flags, Mode::empty())?)?)
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    pub(super) fn open_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        // A device or a FIFO is not even opened.
        if !flags.contains(OFlags::EXCL)
            && let Ok(found) = statat(&*self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            check_regular(&found)?;
        }
        let opened = openat(&*self.descriptor, name, flags | OFlags::NONBLOCK, Mode::from_raw_mode(mode));
        let file = opened.map_err(|errno| error_of(errno, flags))?;
        let found = fstat(&file)?;
        check_regular(&found)?;
        // Another name of the file may be that of a file elsewhere.
        if found.st_nlink > 1 {
            return Err(unusable("a file with several hard links"));
        }
        fcntl_setfl(&file, fcntl_getfl(&file)? & !OFlags::NONBLOCK)?;
        Ok(file.into())
    }
}

/// Creates the file `path`, which must not exist, with the permissions `mode`, less the umask, for writing at its end.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let (directory, name) = parent_and_name(path)?;
    directory.create_new(name, mode)
}

/// Creates the file `path` for writing at its end; an earlier file of this name is removed.
pub fn create_anew(path: &Path, mode: u32) -> io::Result<File> {
    let (directory, name) = parent_and_name(path)?;
    directory.create_anew(name, mode)
}

/// Opens the file `path` for writing at its end, and creates it if necessary. Anything but a regular file with one
/// hard link is an error.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let (directory, name) = parent_and_name(path)?;
    directory.append(&name, Some(mode))
}

/// Opens the existing file `path` for writing at its end. Anything but a regular file with one hard link is an error.
pub fn append_existing(path: impl AsRef<Path>) -> io::Result<File> {
    let (directory, name) = parent_and_name(path.as_ref())?;
    directory.append(&name, None)
}

/// Opens the existing file `path` for reading and writing. Anything but a regular file with one hard link is an error.
pub fn open_for_update(path: &Path) -> io::Result<File> {
    let (directory, name) = parent_and_name(path)?;
    directory.open_file(&name, OFlags::RDWR, 0)
}

/// Opens the file `path`, which belongs to this user or to root, and to which no other user can write, for reading and
/// for writing at its end. With permissions it is created if necessary.
pub fn open_own(path: &Path, create: Option<u32>) -> io::Result<File> {
    let (directory, name) = parent_and_name(path)?;
    let created = if create.is_some() { OFlags::CREATE } else { OFlags::empty() };
    let file =
        directory.open_file(&name, OFlags::RDWR | OFlags::APPEND | created, create.unwrap_or_default())?;
    let (found, user) = (fstat(&file)?, geteuid().as_raw());
    let refused = |problem: String| Err(io::Error::new(ErrorKind::InvalidInput, problem));
    if found.st_uid != user && found.st_uid != 0 {
        return refused(format!("it belongs to user {}, and not to user {user} or root", found.st_uid));
    }
    if found.st_mode & OTHERS_MAY_WRITE != 0 {
        return refused(format!(
            "its permissions are {:o}: other users can write to it",
            found.st_mode & 0o777
        ));
    }
    Ok(file)
}

/// The directory of a path, open, and the name of the file in it.
pub(super) fn parent_and_name(path: &Path) -> io::Result<(OpenDirectory, OsString)> {
    let name = path.file_name().ok_or_else(|| unusable("a directory"))?;
    let directory = OpenDirectory::open(path.parent().unwrap_or(Path::new("")))?;
    Ok((directory, name.to_owned()))
}

/// A name is an entry of the directory, and no path out of it.
pub(super) fn plain_name(name: &OsStr) -> io::Result<&OsStr> {
    if Path::new(name).file_name() == Some(name) {
        return Ok(name);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{} is no name of a file", name.display())))
}
