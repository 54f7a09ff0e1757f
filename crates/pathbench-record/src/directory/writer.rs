//! Writes a result run by run, so that a crash loses no finished run.

use super::document::replace;
use super::error::{CopyError, WriteError};
use super::layout::{DOCUMENT, LINES_OF_RUNS, PARTIAL, RECORDS, holds_result};
use super::line::{Line, write_lines};
use super::records::{PERMISSIONS, RecordFile};
use super::resume::{ResumableResult, ResumeError, copy_lines, take_over};
use crate::delivery::DeliveryLine;
use crate::document::{ResultDocument, RunRecord};
use crate::end::MessageLine;
use crate::event::Event;
use crate::file::{self, Replacement};
use crate::sample::Sample;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The files that exist from the start; others are created with their first line.
const FROM_THE_BEGINNING: [&str; 3] = [Sample::FILE, Event::FILE, DeliveryLine::FILE];

/// Error of creating a result directory.
#[derive(Debug, Error)]
pub enum CreateError {
    #[error("{} already holds a Pathbench result, which is never overwritten; choose another directory with --out", dir.display())]
    HoldsResult { dir: PathBuf },
    #[error("{} is not empty and holds no Pathbench result; nothing was written there, choose another directory with --out", dir.display())]
    NotEmpty { dir: PathBuf },
    #[error("{} is not a directory; choose another one with --out", dir.display())]
    NotADirectory { dir: PathBuf },
    #[error("cannot create {}: {source}; choose another directory with --out", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl CreateError {
    /// The error of creating the file `name` of a result in `dir`.
    fn from_io(error: io::Error, dir: &Path, name: &str) -> Self {
        match error.kind() {
            // Another command has created the file first.
            io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock => {
                Self::HoldsResult { dir: dir.to_owned() }
            }
            _ => Self::Io { path: dir.join(name), source: error },
        }
    }
}

/// Writes one result directory.
///
/// Lines are appended and flushed run by run; the document is replaced as a whole, so that concurrent
/// readers always see a complete one. A study writes its document at the start ([`Self::begin_runs`]) and then appends
/// each run ([`Self::append_run`]), so that the costs of a run do not depend on the number of runs before it.
#[derive(Debug)]
pub struct ResultWriter {
    pub path: PathBuf,
    /// By the file's name.
    files: BTreeMap<&'static str, Lines>,
    /// Locks the directory against other writers.
    records: RecordFile,
}

/// The result of [`ResultWriter::resume`].
#[derive(Debug)]
pub enum Resumed {
    /// The study has no further runs to make.
    Finished(Box<ResultDocument>),
    /// The writer, and the document of the start with the finished runs; without a document, nothing was recorded.
    Unfinished(ResultWriter, Option<Box<ResultDocument>>),
}

impl ResultWriter {
    /// Creates a result in `dir`, which is created with its parents, or exists and is empty.
    pub fn create(dir: &Path) -> Result<Self, CreateError> {
        create_empty(dir)?;
        let records = RecordFile::create(dir).map_err(|error| CreateError::from_io(error, dir, RECORDS))?;
        let files = FROM_THE_BEGINNING.map(|name| Lines::create(dir, name).map(|lines| (name, lines)));
        Ok(Self { path: dir.to_owned(), files: files.into_iter().collect::<Result<_, _>>()?, records })
    }

    /// Continues the result in `dir` after its writer ended. Removes the lines of runs without a record, and of runs
    /// that are not `is_finished`. The caller calls [`Self::begin_runs`] next.
    ///
    /// # Errors
    /// Another process writes the result, or it is none of a study, or damaged.
    ///
    /// # Examples
    /// ```rust
    /// use pathbench_record::directory::{ResultDirectory, ResultWriter, Resumed};
    /// use pathbench_record::document::{ResultDocument, RunRecord};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let run = |id: &str| RunRecord { id: id.to_owned(), ..RunRecord::default() };
    /// let mut writer = ResultWriter::create(dir.path())?;
    /// writer.begin_runs(&ResultDocument::default())?;
    /// writer.append_run(&run("01-tcp-r1"))?;
    /// drop(writer); // The process ends before `finish`.
    /// assert!(ResultDirectory::open(dir.path())?.warning.is_some());
    ///
    /// let Resumed::Unfinished(mut writer, Some(mut document)) = ResultWriter::resume(dir.path(), |_| true)? else {
    ///     panic!("the study has further runs");
    /// };
    /// assert_eq!(document.runs.len(), 1);
    /// writer.begin_runs(&document)?;
    /// document.runs.push(run("02-mptcp-r1"));
    /// writer.append_run(&document.runs[1])?;
    /// writer.finish(&document)?;
    /// assert_eq!(ResultDirectory::open(dir.path())?.document.runs.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(dir: &Path, is_finished: impl Fn(&RunRecord) -> bool) -> Result<Resumed, ResumeError> {
        let (records, document) = match take_over(dir, is_finished)? {
            ResumableResult::Finished(document) => return Ok(Resumed::Finished(Box::new(document))),
            ResumableResult::Unfinished(records, document) => (records, document),
        };
        let files = FROM_THE_BEGINNING.map(|name| Lines::reopen(&dir.join(name)).map(|lines| (name, lines)));
        let writer =
            Self { path: dir.to_owned(), files: files.into_iter().collect::<Result<_, _>>()?, records };
        Ok(Resumed::Unfinished(writer, document.map(Box::new)))
    }

    /// Writes the document with which the runs begin. `document.runs` is ignored; [`Self::append_run`] adds runs.
    pub fn begin_runs(&mut self, document: &ResultDocument) -> Result<(), WriteError> {
        self.write_partial(&ResultDocument { runs: Vec::new(), ..document.clone() })?;
        // A resumed result whose command finished its document.
        remove(self.path.join(DOCUMENT))
    }

    /// Appends the record of a finished run. The run's lines are synced to disk first, so that a run with a record has
    /// all of its lines.
    pub fn append_run(&mut self, record: &RunRecord) -> Result<(), WriteError> {
        self.sync()?;
        self.records.append(std::slice::from_ref(record))
    }

    /// Creates a result in `dir`, or if that is not empty, in `dir-2`, `dir-3`, …. Two commands started in the same
    /// second share a default name.
    pub fn create_beside(dir: &Path) -> Result<Self, CreateError> {
        for candidate in candidates(dir) {
            match Self::create(&candidate) {
                Err(CreateError::HoldsResult { .. } | CreateError::NotEmpty { .. }) => {}
                other => return other,
            }
        }
        Err(CreateError::HoldsResult { dir: dir.to_owned() })
    }

    /// Appends lines of one kind. When it returns, the operating system has them.
    pub fn append<T: Line>(&mut self, lines: &[T]) -> Result<(), WriteError> {
        if lines.is_empty() {
            return Ok(());
        }
        let file = match self.files.entry(T::FILE) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(file) => file.insert(Lines::reopen(&self.path.join(T::FILE))?),
        };
        file.append(lines)
    }

    /// Appends the lines of `runs` in the result directory `from`, as they are, in bounded memory.
    pub fn append_lines_of(&mut self, from: &Path, runs: &BTreeSet<&str>) -> Result<(), CopyError> {
        for name in LINES_OF_RUNS {
            let (source, path) = (from.join(name), self.path.join(name));
            if fs::symlink_metadata(&source).is_err() {
                continue;
            }
            let lines = match self.files.entry(name) {
                Entry::Occupied(lines) => lines.into_mut(),
                Entry::Vacant(lines) => lines.insert(Lines::reopen(&path)?),
            };
            let mut writer = BufWriter::with_capacity(1 << 18, lines.file());
            copy_lines(&source, (&path, &mut writer), runs)?;
            writer.flush().map_err(|source| WriteError { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Starts new files for the runs' lines (samples, events, deliveries, messages). Lines appended so far are
    /// provisional; they stay readable until [`Self::finish`] replaces them with those appended from now on.
    pub fn begin_anew(&mut self) -> Result<(), WriteError> {
        for name in [Sample::FILE, Event::FILE, DeliveryLine::FILE, MessageLine::FILE] {
            self.files.insert(name, Lines::anew(&self.path, name)?);
        }
        Ok(())
    }

    /// Syncs the appended lines to disk, so that they survive a crash of the host.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.files.values().try_for_each(Lines::sync)
    }

    /// Writes `document` with the runs so far (`run.partial.json`), which a report reads when this process ends before
    /// [`Self::finish`].
    pub fn write_partial(&mut self, document: &ResultDocument) -> Result<(), WriteError> {
        replace(&self.path, PARTIAL, document).map(drop)
    }

    /// Writes `run.json`, syncs everything to disk, and returns the path of `run.json`.
    pub fn finish(self, document: &ResultDocument) -> Result<PathBuf, WriteError> {
        self.sync()?;
        self.files.into_values().try_for_each(Lines::finish)?;
        let path = replace(&self.path, DOCUMENT, document)?;
        remove(self.path.join(PARTIAL))?;
        remove(self.path.join(RECORDS))?;
        Ok(path)
    }
}

/// Removes a file, if it exists.
fn remove(path: PathBuf) -> Result<(), WriteError> {
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(WriteError { path, source }),
        _ => Ok(()),
    }
}

/// A JSON Lines file that only grows.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: LinesFile,
}

#[derive(Debug)]
enum LinesFile {
    Growing(File),
    /// Replaces the file of this name when it is finished.
    Anew(Replacement),
}

impl Lines {
    fn open(path: &Path) -> io::Result<Self> {
        let file = file::create_new(path, PERMISSIONS)?;
        Ok(Self { path: path.to_owned(), file: LinesFile::Growing(file) })
    }

    /// A new file that replaces the one of this name when it is finished.
    fn anew(dir: &Path, name: &str) -> Result<Self, WriteError> {
        let path = dir.join(name);
        match Replacement::new(&path) {
            Ok(replacement) => Ok(Self { path, file: LinesFile::Anew(replacement) }),
            Err(source) => Err(WriteError { path, source }),
        }
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.file().sync_all().map_err(|source| WriteError { path: self.path.clone(), source })
    }

    fn file(&self) -> &File {
        match &self.file {
            LinesFile::Growing(file) => file,
            LinesFile::Anew(replacement) => replacement.file(),
        }
    }

    /// Ends the file; a new one gets its name.
    fn finish(self) -> Result<(), WriteError> {
        let LinesFile::Anew(replacement) = self.file else { return Ok(()) };
        replacement.commit().map_err(|source| WriteError { path: self.path, source })
    }

    fn create(dir: &Path, name: &str) -> Result<Self, CreateError> {
        Self::open(&dir.join(name)).map_err(|error| CreateError::from_io(error, dir, name))
    }

    /// Opens the file, or creates it.
    fn reopen(path: &Path) -> Result<Self, WriteError> {
        let path = path.to_owned();
        match file::append(&path, PERMISSIONS) {
            Ok(file) => Ok(Self { path, file: LinesFile::Growing(file) }),
            Err(source) => Err(WriteError { path, source }),
        }
    }

    fn append<T: Line>(&mut self, records: &[T]) -> Result<(), WriteError> {
        let written = write_lines(&mut BufWriter::with_capacity(1 << 18, self.file()), records);
        written.map_err(|source| WriteError { path: self.path.clone(), source })
    }
}

/// `<parent>/<scenario>-<YYYYmmdd-HHMMSS>` for a scenario's name and an RFC 3339 start time (UTC).
///
/// Characters of the name with a meaning for a shell or a file system become `-`.
pub fn default_directory_name(parent: &Path, scenario: &str, started: &str) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let mut name: String = scenario.chars().map(plain).collect();
    if name.starts_with('.') || name.is_empty() {
        name.insert_str(0, "result");
    }
    if let Some(stamp) = compact_stamp(started) {
        name.push('-');
        name.push_str(&stamp);
    }
    parent.join(name)
}

/// Creates a directory with its parents, unless it exists and is empty.
pub fn create_empty(dir: &Path) -> Result<(), CreateError> {
    let io = |source| CreateError::Io { path: dir.to_owned(), source };
    if dir.exists() && !dir.is_dir() {
        return Err(CreateError::NotADirectory { dir: dir.to_owned() });
    }
    fs::create_dir_all(dir).map_err(io)?;
    if holds_result(dir) {
        return Err(CreateError::HoldsResult { dir: dir.to_owned() });
    }
    if fs::read_dir(dir).map_err(io)?.next().is_some() {
        return Err(CreateError::NotEmpty { dir: dir.to_owned() });
    }
    Ok(())
}

/// Creates a new directory `dir` with its parents, or if that exists, `dir-2`, `dir-3`, ….
pub fn create_new_beside(dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(dir.parent().unwrap_or(Path::new("")))?;
    let mut candidates = candidates(dir);
    loop {
        let Some(candidate) = candidates.next() else { return Err(io::ErrorKind::AlreadyExists.into()) };
        match fs::create_dir(&candidate) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| candidate),
        }
    }
}

/// `dir`, `dir-2`, `dir-3`, …: two commands started in the same second share a default name.
fn candidates(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = |number: u32| {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    std::iter::once(dir.to_owned()).chain((2..u32::MAX).map(numbered))
}

/// `20261121-203354` from an RFC 3339 timestamp, for file names; `None` when `stamp` does not begin like one.
fn compact_stamp(stamp: &str) -> Option<String> {
    let pattern = b"dddd-dd-ddTdd:dd:dd";
    let head = stamp.as_bytes().get(..pattern.len())?;
    let fits = head.iter().zip(pattern).all(|(byte, form)| match form {
        b'd' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        _ => byte == form,
    });
    if !fits {
        return None;
    }
    let digits: String =
        head.iter().filter(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
    let (date, time) = digits.split_at(8);
    Some(format!("{date}-{time}"))
}
