//! The records of an unfinished result: `runs.partial.jsonl`, to which the record of each finished run is appended after
//! the run's lines.
//!
//! The file is also the lock of the directory: its writer holds a flock(2), which the kernel releases when the process
//! ends. It is a file open for writing, because NFS grants no such lock on a directory.

use super::document::MOST_DOCUMENT_BYTES;
use super::error::{ReadError, WriteError};
use super::layout::RECORDS;
use super::line::write_lines;
use crate::document::RunRecord;
use crate::file;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Largest accepted line; a line of samples has less than 2 KiB.
const LONGEST_LINE_BYTES: u64 = 16 << 20;

/// Of new files, less the umask.
pub(super) const PERMISSIONS: u32 = 0o666;

/// The file of records, open and locked.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordFile {
    /// Creates the file.
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        let path = dir.join(RECORDS);
        let file = file::create_new(&path, PERMISSIONS)?;
        lock(&file)?;
        Ok(Self { path, file })
    }

    /// Opens the file, or creates it.
    /// `None` if another process writes the result.
    pub(super) fn open(dir: &Path) -> Result<Option<Self>, WriteError> {
        let path = dir.join(RECORDS);
        let opened = file::append(&path, PERMISSIONS);
        let file = opened.map_err(|source| WriteError { path: path.clone(), source })?;
        match lock(&file) {
            Ok(()) => Ok(Some(Self { path, file })),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(source) => Err(WriteError { path, source }),
        }
    }

    pub(super) fn replace(&mut self, records: &[RunRecord]) -> Result<(), WriteError> {
        self.truncate(0)?;
        self.append(records)
    }

    /// Appends records and syncs them to disk.
    pub(super) fn append(&mut self, records: &[RunRecord]) -> Result<(), WriteError> {
        let mut text = Vec::new();
        let written = write_lines(&mut text, records)
            .and_then(|()| self.file.write_all(&text))
            .and_then(|()| self.file.sync_data());
        written.map_err(|source| WriteError { path: self.path.clone(), source })
    }

    pub(super) fn truncate(&self, bytes: u64) -> Result<(), WriteError> {
        let truncated = self.file.set_len(bytes).and_then(|()| self.file.sync_data());
        truncated.map_err(|source| WriteError { path: self.path.clone(), source })
    }
}

fn lock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// The records of an unfinished result, and the length of the file up to the last complete record.
pub(super) fn records(dir: &Path) -> Result<(Vec<RunRecord>, u64), ReadError> {
    let path = dir.join(RECORDS);
    let file = match file::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        opened => opened.map_err(|source| ReadError::Io { path: path.clone(), source })?,
    };
    check_length(&path, &file)?;
    let (mut records, mut complete_bytes) = (Vec::new(), 0);
    for_each_line(&path, file, |number, line| {
        if line.last() == Some(&b'\n') {
            let broken = |error: serde_json::Error| ReadError::Broken {
                path: path.clone(),
                line: number,
                problem: error.to_string(),
            };
            records.push(serde_json::from_slice(line).map_err(broken)?);
            complete_bytes += line.len() as u64;
        }
        Ok(())
    })?;
    Ok((records, complete_bytes))
}

/// Bounds a file whose lines are in memory together.
pub(super) fn check_length(path: &Path, file: &File) -> Result<(), ReadError> {
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    file::check_length(file, MOST_DOCUMENT_BYTES).map_err(failed)
}

/// Calls `each` with the number (from 1) and the bytes of every line, its line end included.
pub fn for_each_line<E: From<ReadError>>(
    path: &Path,
    file: File,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line);
        match read.map_err(|source| ReadError::Io { path: path.to_owned(), source })? {
            0 => break,
            bytes if bytes as u64 == LONGEST_LINE_BYTES => {
                let problem = format!("the line is longer than {LONGEST_LINE_BYTES} bytes");
                return Err(ReadError::Broken { path: path.to_owned(), line: number, problem }.into());
            }
            _ => each(number, &line)?,
        }
    }
    Ok(())
}
