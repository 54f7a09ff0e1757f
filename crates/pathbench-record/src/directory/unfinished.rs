//! An unfinished result: `run.partial.json`, a document written once at the start, and `runs.partial.jsonl`, to which the
//! record of each finished run is appended after the run's lines. A run is finished when its record is complete; lines
//! without a record belong to an interrupted run.
//!
//! The file of records is also the lock of the directory: its writer holds a flock(2), which the kernel releases when
//! the process ends. It is a file open for writing, because NFS grants no such lock on a directory.

use super::lines::Line;
use super::reader::{DOCUMENT, PARTIAL, ReadError, ResultDirectory};
use super::writer::WriteError;
use crate::delivery::DeliveryLine;
use crate::document::{LinkSample, ResultDocument, RunRecord, StopReason};
use crate::end::MessageLine;
use crate::event::Event;
use crate::sample::Sample;
use crate::summary::summarise_document;
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

pub(super) const RECORDS: &str = "runs.partial.jsonl";
/// The files with lines of runs.
pub(super) const LINES_OF_RUNS: [&str; 5] =
    [Sample::FILE, Event::FILE, DeliveryLine::FILE, MessageLine::FILE, LinkSample::FILE];
/// Largest accepted line; a line of samples has less than 2 KiB.
const LONGEST_LINE_BYTES: u64 = 16 << 20;

/// Error of resuming a result.
#[derive(Debug, Error)]
pub enum ResumeError {
    #[error("another process writes {} (its study is running); wait for its end, or stop it", dir.display())]
    Busy { dir: PathBuf },
    #[error("{} holds no study that can be resumed: {why}", dir.display())]
    NotResumable { dir: PathBuf, why: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

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
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        lock(&file)?;
        Ok(Self { path, file })
    }

    /// Opens the file, or creates it.
    fn open(dir: &Path) -> Result<Self, ResumeError> {
        let path = dir.join(RECORDS);
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        let file = opened.map_err(|source| WriteError { path: path.clone(), source })?;
        match lock(&file) {
            Ok(()) => Ok(Self { path, file }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(ResumeError::Busy { dir: dir.to_owned() })
            }
            Err(source) => Err(WriteError { path, source }.into()),
        }
    }

    fn replace(&mut self, records: &[RunRecord]) -> Result<(), WriteError> {
        self.truncate(0)?;
        self.append(records)
    }

    /// Appends records and syncs them to disk.
    pub(super) fn append(&mut self, records: &[RunRecord]) -> Result<(), WriteError> {
        let io = |source| WriteError { path: self.path.clone(), source };
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record).map_err(|source| io(source.into()))?;
            text.push(b'\n');
        }
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(io)
    }

    fn truncate(&self, bytes: u64) -> Result<(), WriteError> {
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
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        opened => opened.map_err(|source| ReadError::Io { path: path.clone(), source })?,
    };
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

/// Calls `each` with the number (from 1) and the bytes of every line, its line end included.
fn for_each_line<E: From<ReadError>>(
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

/// Adds the finished runs of an unfinished result to its document, and computes the summary.
pub(super) fn add_finished_runs(document: &mut ResultDocument, dir: &Path) -> Result<(), ReadError> {
    let (records, _) = records(dir)?;
    if records.is_empty() {
        return Ok(());
    }
    document.runs.extend(records);
    summarise_document(document);
    Ok(())
}

/// The run that a line belongs to.
#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    run: Cow<'a, str>,
}

/// Error of copying lines.
#[derive(Debug, Error)]
pub enum CopyError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<CopyError> for ResumeError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Read(error) => Self::Read(error),
            CopyError::Write(error) => Self::Write(error),
        }
    }
}

/// Appends the lines of `runs` in the file `from` to `to`, in bounded memory. Returns the number of lines left out; a
/// missing file has none. A line that is cut off at the end of the file is left out.
pub(super) fn copy_lines(
    from: &Path,
    (path, to): (&Path, &mut impl io::Write),
    runs: &BTreeSet<&str>,
) -> Result<u64, CopyError> {
    let file = match File::open(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(|source| ReadError::Io { path: from.to_owned(), source })?,
    };
    let mut left_out = 0;
    for_each_line(from, file, |number, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let owner = match serde_json::from_slice::<Owner<'_>>(line) {
            Ok(owner) if line.last() == Some(&b'\n') => owner,
            Err(error) if line.last() == Some(&b'\n') => {
                let (path, problem) = (from.to_owned(), error.to_string());
                return Err(ReadError::Broken { path, line: number, problem }.into());
            }
            _ => {
                left_out += 1;
                return Ok(());
            }
        };
        if runs.contains(owner.run.as_ref()) {
            to.write_all(line).map_err(|source| WriteError { path: path.to_owned(), source })?;
        } else {
            left_out += 1;
        }
        Ok::<(), CopyError>(())
    })?;
    Ok(left_out)
}

/// Removes the lines of all runs but `runs` from the file.
fn keep_lines(dir: &Path, name: &str, runs: &BTreeSet<&str>) -> Result<(), ResumeError> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    if !path.exists() {
        return Ok(());
    }
    let io = |source| WriteError { path: temporary.clone(), source };
    let mut kept = BufWriter::with_capacity(1 << 18, File::create(&temporary).map_err(io)?);
    let copied = copy_lines(&path, (&temporary, &mut kept), runs);
    let synced = kept.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    match copied {
        Ok(1..) => synced.and_then(|()| fs::rename(&temporary, &path)).map_err(io)?,
        unchanged => {
            let _stays = fs::remove_file(&temporary);
            unchanged?;
        }
    }
    Ok(())
}

/// What a directory holds for a resumption.
#[derive(Debug)]
pub(super) enum Found {
    /// A study that has no further runs to make.
    Finished(ResultDocument),
    /// The document of the start, with the finished runs; `None` if the earlier command ended before it wrote one.
    Unfinished(RecordFile, Option<ResultDocument>),
}

/// Locks the directory, and removes everything that belongs to no finished run. `is_finished` tells finished runs
/// from those that are to be repeated.
pub(super) fn take_over(dir: &Path, is_finished: impl Fn(&RunRecord) -> bool) -> Result<Found, ResumeError> {
    let not_resumable = |why: &str| ResumeError::NotResumable { dir: dir.to_owned(), why: why.to_owned() };
    let [finished, partial, records_file] = [DOCUMENT, PARTIAL, RECORDS].map(|name| dir.join(name));
    if !finished.exists() && !records_file.exists() {
        return Err(not_resumable("there is no unfinished result in it"));
    }
    let mut file = RecordFile::open(dir)?;
    let remove =
        || fs::remove_file(&records_file).map_err(|source| WriteError { path: records_file.clone(), source });
    let mut document = if finished.exists() {
        let document = ResultDirectory::open(&finished)?.document;
        let Some(study) = &document.study else {
            remove()?;
            return Err(not_resumable("its result belongs to no study"));
        };
        if !study.stopped.is_some_and(StopReason::is_resumable) {
            remove()?;
            return Ok(Found::Finished(document));
        }
        file.replace(&document.runs)?;
        document
    } else if partial.exists() {
        let (runs, complete_bytes) = records(dir)?;
        file.truncate(complete_bytes)?;
        ResultDocument { runs, ..ResultDirectory::open(&partial)?.document }
    } else {
        for name in LINES_OF_RUNS {
            keep_lines(dir, name, &BTreeSet::new())?;
        }
        return Ok(Found::Unfinished(file, None));
    };
    let count = document.runs.len();
    document.runs.retain(is_finished);
    if document.runs.len() < count {
        file.replace(&document.runs)?;
    }
    let ids = document.runs.iter().map(|run| run.id.as_str()).collect();
    for name in LINES_OF_RUNS {
        keep_lines(dir, name, &ids)?;
    }
    Ok(Found::Unfinished(file, Some(document)))
}
