//! Resumes an unfinished result: `run.partial.json`, a document written once at the start, and `runs.partial.jsonl`, to which the
//! record of each finished run is appended after the run's lines. A run is finished when its record is complete; lines
//! without a record belong to an interrupted run.

use super::error::{CopyError, ReadError, WriteError};
use super::layout::{DOCUMENT, LINES_OF_RUNS, PARTIAL, RECORDS};
use super::line::LineOwner;
use super::reader::ResultDirectory;
use super::records::{RecordFile, for_each_line, records};
use crate::document::{ResultDocument, RunRecord, StopReason};
use crate::file::{self, Replacement};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

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
    let file = match file::open(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(|source| ReadError::Io { path: from.to_owned(), source })?,
    };
    let mut left_out = 0;
    for_each_line(from, file, |number, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let owner = match serde_json::from_slice::<LineOwner<'_>>(line) {
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
    let path = dir.join(name);
    if fs::symlink_metadata(&path).is_err() {
        return Ok(());
    }
    let io = |source| WriteError { path: path.clone(), source };
    let replacement = Replacement::new(&path).map_err(io)?;
    let mut kept = BufWriter::with_capacity(1 << 18, replacement.file());
    let left_out = copy_lines(&path, (&path, &mut kept), runs)?;
    let flushed = kept.flush();
    drop(kept);
    if left_out > 0 {
        flushed.and_then(|()| replacement.commit_durably()).map_err(io)?;
    }
    Ok(())
}

/// The content of a directory, for a resumption.
#[derive(Debug)]
pub(super) enum ResumableResult {
    /// A study that has no further runs to make.
    Finished(ResultDocument),
    /// The document of the start, with the finished runs; `None` if the earlier command ended before it wrote one.
    Unfinished(RecordFile, Option<ResultDocument>),
}

/// Locks the directory, and removes everything that belongs to no finished run. `is_finished` tells finished runs
/// from those that are to be repeated.
pub(super) fn take_over(
    dir: &Path,
    is_finished: impl Fn(&RunRecord) -> bool,
) -> Result<ResumableResult, ResumeError> {
    let not_resumable = |why: &str| ResumeError::NotResumable { dir: dir.to_owned(), why: why.to_owned() };
    let [finished, partial, records_file] = [DOCUMENT, PARTIAL, RECORDS].map(|name| dir.join(name));
    if !finished.exists() && !records_file.exists() {
        return Err(not_resumable("there is no unfinished result in it"));
    }
    let opened = RecordFile::open(dir)?;
    let mut file = opened.ok_or_else(|| ResumeError::Busy { dir: dir.to_owned() })?;
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
            return Ok(ResumableResult::Finished(document));
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
        return Ok(ResumableResult::Unfinished(file, None));
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
    Ok(ResumableResult::Unfinished(file, Some(document)))
}
