//! Reads regular files in bounded memory.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, openat, statat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// With `O_NONBLOCK` open(2) of a FIFO does not wait for a writer. It has no effect on a regular file.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a regular file for reading. Anything else in its place, as a symbolic link, is an error.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let flags = FLAGS | OFlags::NOFOLLOW;
    // Before the file is opened, because the opening of a device can have effects.
    check_regular(&statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)?;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(|errno| error_of(errno, flags))?;
    check_regular(&fstat(&file)?)?;
    Ok(file.into())
}

/// Opens the file that the user names, also by a symbolic link: a regular file, `/dev/null`, or a pipe, as of
/// `<(command)`. A FIFO without a writer is empty.
pub fn open_named(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    check_readable(&statat(CWD, path, AtFlags::empty())?)?;
    let file = openat(CWD, path, FLAGS, Mode::empty())?;
    check_readable(&fstat(&file)?)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? & !OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// Opens the stream that the user names. The writer of a FIFO may come later.
pub fn open_stream(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    check_readable(&statat(CWD, path, AtFlags::empty())?)?;
    Ok(openat(CWD, path, FLAGS & !OFlags::NONBLOCK, Mode::empty())?.into())
}

/// The content of a regular file of at most `most` bytes. A symbolic link in place of the file is an error.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    read_open(open(path)?, most)
}

/// The content of the file that the user names ([`open_named`]), of at most `most` bytes.
pub fn read_named(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    read_open(open_named(path)?, most)
}

/// The content of a text file of at most `most` bytes. A symbolic link in place of the file is an error.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// The content of the text file that the user names ([`open_named`]), of at most `most` bytes.
pub fn read_text_named(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    text(read_named(path, most)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "the file is not UTF-8 text"))
}

fn read_open(file: File, most: u64) -> io::Result<Vec<u8>> {
    check_length(&file, most)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize);
    // Files of /proc have length 0, and a file may grow.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

/// Refuses a file of more than `most` bytes.
pub fn check_length(file: &File, most: u64) -> io::Result<()> {
    if file.metadata()?.len() > most { Err(too_large(most)) } else { Ok(()) }
}

fn too_large(most: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it has more than {most} bytes; larger files are not read"),
    )
}

/// The error of an open(2) with `O_NOFOLLOW`.
pub(super) fn error_of(errno: Errno, flags: OFlags) -> io::Error {
    if errno == Errno::LOOP && flags.contains(OFlags::NOFOLLOW) {
        unusable("a symbolic link")
    } else {
        errno.into()
    }
}

pub(super) fn check_regular(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(unusable(name(other))),
    }
}

fn check_readable(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice => Ok(()),
        other => Err(unusable(name(other))),
    }
}

pub(super) fn name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown type",
    }
}

pub(super) fn unusable(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}
