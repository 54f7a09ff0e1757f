//! Writing a result, run by run, so that a crash loses nothing that was finished.

use super::{
    DELIVERIES, DOCUMENT, EVENTS, LINKS, MESSAGES, PARTIAL, PROBES, SAMPLES, candidates, holds_result,
};
use crate::document::{LinkSample, ProbeLine, ResultDocument};
use crate::event::{DeliveryLine, Event};
use crate::message::MessageLine;
use crate::sample::Sample;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A result directory could not be begun.
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

/// A part of a result could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Encode { path: PathBuf, source: serde_json::Error },
}

/// Writes one result directory.
///
/// Lines are appended and flushed run by run; the document is replaced as a whole, so that whoever reads it
/// meanwhile sees a complete one.
#[derive(Debug)]
pub struct ResultWriter {
    dir: PathBuf,
    samples: Lines,
    events: Lines,
    deliveries: Lines,
    // The rest is made with its first line.
    messages: Option<Lines>,
    links: Option<Lines>,
    probes: Option<Lines>,
}

impl ResultWriter {
    /// Begins a result in `dir`, which is created with its parents, or exists and is empty.
    ///
    /// # Errors
    ///
    /// When `dir` holds anything, is a file, or cannot be written to.
    pub fn create(dir: &Path) -> Result<Self, CreateError> {
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
        Ok(Self {
            dir: dir.to_owned(),
            samples: Lines::create(dir, SAMPLES)?,
            events: Lines::create(dir, EVENTS)?,
            deliveries: Lines::create(dir, DELIVERIES)?,
            messages: None,
            links: None,
            probes: None,
        })
    }

    /// Begins a result in `dir`, or where that holds anything already in `dir-2`, `dir-3`, …: for default names,
    /// which two commands started in the same second share.
    ///
    /// # Errors
    ///
    /// As [`Self::create`], except that a directory that holds anything is none.
    pub fn create_beside(dir: &Path) -> Result<Self, CreateError> {
        for candidate in candidates(dir) {
            match Self::create(&candidate) {
                Err(CreateError::HoldsResult { .. } | CreateError::NotEmpty { .. }) => {}
                other => return other,
            }
        }
        Err(CreateError::HoldsResult { dir: dir.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Appends what was recorded of one run; when it returns, the lines are with the operating system.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn append_run(
        &mut self,
        samples: &[Sample],
        events: &[Event],
        deliveries: &[DeliveryLine],
    ) -> Result<(), WriteError> {
        self.samples.append(samples)?;
        self.events.append(events)?;
        self.deliveries.append(deliveries)
    }

    /// Appends the messages of one run, if it has any, to `messages.jsonl`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn append_messages(&mut self, messages: &[MessageLine]) -> Result<(), WriteError> {
        append_if_any(&mut self.messages, &self.dir, MESSAGES, messages)
    }

    /// Appends what became of the emulated links of one run, if it has any, to `links.jsonl`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn append_links(&mut self, links: &[LinkSample]) -> Result<(), WriteError> {
        append_if_any(&mut self.links, &self.dir, LINKS, links)
    }

    /// Appends probes, if there are any, to `probes.jsonl`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn append_probes(&mut self, probes: &[ProbeLine]) -> Result<(), WriteError> {
        append_if_any(&mut self.probes, &self.dir, PROBES, probes)
    }

    /// Writes the runs' lines (samples, events, deliveries, messages) anew. What was appended so far was provisional;
    /// it stays readable until [`Self::finish`] puts what is appended from now on in its place.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn begin_anew(&mut self) -> Result<(), WriteError> {
        self.samples = Lines::anew(&self.dir, SAMPLES)?;
        self.events = Lines::anew(&self.dir, EVENTS)?;
        self.deliveries = Lines::anew(&self.dir, DELIVERIES)?;
        self.messages = Some(Lines::anew(&self.dir, MESSAGES)?);
        Ok(())
    }

    /// Makes durable what was appended so far: it outlives the machine, too, not only this process.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.all_lines().try_for_each(Lines::sync)
    }

    fn all_lines(&self) -> impl Iterator<Item = &Lines> {
        let optional = [&self.messages, &self.links, &self.probes].into_iter().flatten();
        [&self.samples, &self.events, &self.deliveries].into_iter().chain(optional)
    }

    /// Writes `document` as that of the runs so far (`run.partial.json`): what a report reads when this process
    /// dies before [`Self::finish`].
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write_partial(&mut self, document: &ResultDocument) -> Result<(), WriteError> {
        replace(&self.dir, PARTIAL, document).map(drop)
    }

    /// Writes `run.json`, makes everything durable, and returns the path of `run.json`.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn finish(self, document: &ResultDocument) -> Result<PathBuf, WriteError> {
        self.sync()?;
        self.all_lines().try_for_each(Lines::put_in_place)?;
        let path = replace(&self.dir, DOCUMENT, document)?;
        let partial = self.dir.join(PARTIAL);
        match fs::remove_file(&partial) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(WriteError::Io { path: partial, source })
            }
            _ => Ok(path),
        }
    }
}

fn append_if_any<T: Serialize>(
    lines: &mut Option<Lines>,
    dir: &Path,
    name: &str,
    records: &[T],
) -> Result<(), WriteError> {
    if records.is_empty() {
        return Ok(());
    }
    let lines = match lines {
        Some(lines) => lines,
        none => {
            let path = dir.join(name);
            let made = Lines::open(&path).map_err(|source| WriteError::Io { path, source })?;
            none.insert(made)
        }
    };
    lines.append(records)
}

/// Writes a document under a temporary name, makes it durable, and puts it in place.
fn replace(dir: &Path, name: &str, document: &ResultDocument) -> Result<PathBuf, WriteError> {
    let path = dir.join(name);
    let temporary = dir.join(format!(".{name}.tmp"));
    let io = |path: &Path, source| WriteError::Io { path: path.to_owned(), source };
    let mut text = serde_json::to_vec_pretty(document)
        .map_err(|source| WriteError::Encode { path: path.clone(), source })?;
    text.push(b'\n');
    let mut file = File::create(&temporary).map_err(|source| io(&temporary, source))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(|source| io(&temporary, source))?;
    fs::rename(&temporary, &path).map_err(|source| io(&path, source))?;
    // The rename itself is durable once the directory is.
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| io(dir, source))?;
    Ok(path)
}

/// A file of JSON lines that only grows.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
    /// Where it goes in the end, when it is elsewhere until then.
    place: Option<PathBuf>,
}

impl Lines {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, place: None })
    }

    /// A new file that takes the place of the one of this name when it is put there.
    fn anew(dir: &Path, name: &str) -> Result<Self, WriteError> {
        let path = dir.join(format!(".{name}.tmp"));
        let file = File::create(&path).map_err(|source| WriteError::Io { path: path.clone(), source })?;
        Ok(Self { path, file, place: Some(dir.join(name)) })
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.file.sync_all().map_err(|source| WriteError::Io { path: self.path.clone(), source })
    }

    fn put_in_place(&self) -> Result<(), WriteError> {
        let Some(place) = &self.place else { return Ok(()) };
        fs::rename(&self.path, place).map_err(|source| WriteError::Io { path: place.clone(), source })
    }

    fn create(dir: &Path, name: &str) -> Result<Self, CreateError> {
        let path = dir.join(name);
        match Self::open(&path) {
            Ok(lines) => Ok(lines),
            // Another command was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(CreateError::HoldsResult { dir: dir.to_owned() })
            }
            Err(source) => Err(CreateError::Io { path, source }),
        }
    }

    fn append<T: Serialize>(&mut self, records: &[T]) -> Result<(), WriteError> {
        let io = |source| WriteError::Io { path: self.path.clone(), source };
        let mut writer = BufWriter::with_capacity(1 << 18, &self.file);
        for record in records {
            serde_json::to_writer(&mut writer, record).map_err(|source| {
                if source.is_io() {
                    io(source.into())
                } else {
                    WriteError::Encode { path: self.path.clone(), source }
                }
            })?;
            writer.write_all(b"\n").map_err(io)?;
        }
        writer.flush().map_err(io)
    }
}
