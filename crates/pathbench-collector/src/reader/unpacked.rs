//! Raw parts, unpacked: the known files of a result directory, in bounded memory and disk space.
//!
//! A file is written under its known name into a new directory, not under the path in the archive: no path can lead out
//! of it. Links, devices and unknown files are left out, packet captures among them.

use crate::task::{Cancellation, Cancelled};
use pathbench_api::anonymise::{Anonymiser, MOST_NAMES, Work};
use pathbench_record::file;
use serde_json::error::Category;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path};
use tempfile::TempDir;
use thiserror::Error;

/// Of all files together.
const MOST_BYTES: u64 = 256 << 20;

/// Entries of the archive.
const MOST_ENTRIES: usize = 256;

/// A longer line is no line of a result.
const MOST_LINE_BYTES: u64 = 1 << 20;

/// A longer JSON document is none of a result.
const MOST_DOCUMENT_BYTES: u64 = 16 << 20;

/// 2^23 bytes of window, the most that zstd uses at its usual levels.
const WINDOW_LOG: u32 = 23;

/// Looks of the anonymiser at a character, for all files of a raw part together.
const MOST_WORK: u64 = 1 << 28;

/// A line counts as much work, and each [`BYTES_OF_WORK`] bytes that are read: also text that is no JSON.
const LINE_WORK: usize = 16;
const BYTES_OF_WORK: usize = 8;

/// How much a raw part may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As much as a usual result: some tenths of a second. For a larger part the outcome is [`UnpackError::Heavy`].
    Light,
    /// As much as any result may take.
    Full,
}

impl Effort {
    const fn most_bytes(self) -> u64 {
        match self {
            Self::Light => 8 << 20,
            Self::Full => MOST_BYTES,
        }
    }

    const fn most_work(self) -> u64 {
        match self {
            Self::Light => 1 << 24,
            Self::Full => MOST_WORK,
        }
    }
}

/// Documents, then files of lines.
const DOCUMENTS: [&str; 3] = ["run.json", "run.partial.json", "trace.json"];
const LINES: [&str; 9] = [
    "samples.jsonl",
    "events.jsonl",
    "delivery.jsonl",
    "messages.jsonl",
    "datagrams.jsonl",
    "links.jsonl",
    "probes.jsonl",
    "sequence.jsonl",
    "runs.partial.jsonl",
];

#[derive(Debug, Error)]
pub enum UnpackError {
    #[error("the raw part is damaged: {0}")]
    Damaged(io::Error),
    #[error("the raw part has more than {MOST_ENTRIES} files or {} MB", MOST_BYTES >> 20)]
    Large,
    #[error("the raw part names more than {MOST_NAMES} networks, places or devices")]
    Names,
    #[error("the raw part takes too long to anonymise")]
    Work,
    #[error("the raw part takes longer than usual")]
    Heavy,
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    #[error("cannot write a temporary file: {0}")]
    Io(io::Error),
    #[error("`{file}` is not JSON")]
    Json { file: String },
}

/// The files of a result in a directory that goes with this value.
#[derive(Debug)]
pub struct Unpacked {
    directory: TempDir,
    files: BTreeSet<&'static str>,
    bytes: u64,
}

impl Unpacked {
    /// The files of `raw`, a `.tar.zst` file; with an anonymiser in the anonymous form.
    pub fn from_raw(
        raw: &[u8],
        anonymiser: Option<Anonymiser>,
        effort: Effort,
        cancellation: &Cancellation,
    ) -> Result<Self, UnpackError> {
        let made = Self::unpack(raw, anonymiser, effort, cancellation);
        if made.is_err() {
            cancellation.check()?;
        }
        match made {
            // The bound can be the reason of any error: the full effort shows it.
            Err(error) if effort == Effort::Light && !matches!(error, UnpackError::Io(_)) => {
                Err(UnpackError::Heavy)
            }
            made => made,
        }
    }

    fn unpack(
        raw: &[u8],
        anonymiser: Option<Anonymiser>,
        effort: Effort,
        cancellation: &Cancellation,
    ) -> Result<Self, UnpackError> {
        let directory = tempfile::Builder::new().prefix("pathbench-").tempdir().map_err(UnpackError::Io)?;
        let mut unpacked = Self { directory, files: BTreeSet::new(), bytes: 0 };
        unpacked.extract(raw, effort, cancellation)?;
        if let Some(anonymiser) = anonymiser {
            let is_cancelled = || cancellation.is_cancelled();
            let mut work = Work::with_limit(effort.most_work(), &is_cancelled);
            unpacked.anonymise(anonymiser, &mut work)?;
        }
        Ok(unpacked)
    }

    /// Of all files, before they were anonymised.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn extract(
        &mut self,
        raw: &[u8],
        effort: Effort,
        cancellation: &Cancellation,
    ) -> Result<(), UnpackError> {
        let mut decoder = zstd::Decoder::new(raw).map_err(UnpackError::Damaged)?;
        decoder.window_log_max(WINDOW_LOG).map_err(UnpackError::Damaged)?;
        // Headers, links and unknown files count as well.
        let decoder = Cancellable { inner: decoder.take(effort.most_bytes()), cancellation };
        let mut archive = tar::Archive::new(decoder);
        for (index, entry) in archive.entries().map_err(UnpackError::Damaged)?.enumerate() {
            let entry = entry.map_err(UnpackError::Damaged)?;
            if index >= MOST_ENTRIES {
                return Err(UnpackError::Large);
            }
            let name = entry.path().ok().and_then(|path| known_name(&path));
            let Some(name) = name.filter(|_| entry.header().entry_type().is_file()) else { continue };
            if !self.files.insert(name) {
                continue;
            }
            let size = entry.size();
            let mut file = self.create(name)?;
            let copied = io::copy(&mut entry.take(MOST_BYTES), &mut file).map_err(UnpackError::Damaged)?;
            if copied < size {
                return Err(UnpackError::Large);
            }
            self.bytes += copied;
            file.flush().map_err(UnpackError::Io)?;
        }
        Ok(cancellation.check()?)
    }

    fn create(&self, name: &str) -> Result<BufWriter<File>, UnpackError> {
        let file = file::create_new(&self.path().join(name), 0o666).map_err(UnpackError::Io)?;
        Ok(BufWriter::new(file))
    }

    fn open(&self, name: &str) -> Result<File, UnpackError> {
        file::open(self.path().join(name)).map_err(UnpackError::Io)
    }

    fn anonymise(&mut self, mut anonymiser: Anonymiser, work: &mut Work<'_>) -> Result<(), UnpackError> {
        for name in &self.files {
            self.each_document(name, work, |document, work| anonymiser.learn_json(document, work))?;
        }
        if anonymiser.is_full() {
            return Err(UnpackError::Names);
        }
        for name in &self.files {
            let new = format!("{name}.anonymous");
            let mut out = self.create(&new)?;
            let mut copy = Vec::new();
            self.each_document(name, work, |document, work| {
                // A line that is not JSON leaves nothing behind.
                copy.clear();
                if DOCUMENTS.contains(name) {
                    anonymiser.copy_json(document, &mut out, work)?;
                } else {
                    anonymiser.copy_json(document, &mut copy, work)?;
                }
                out.write_all(&copy).and_then(|()| out.write_all(b"\n")).map_err(serde_json::Error::io)
            })?;
            out.flush().map_err(UnpackError::Io)?;
            drop(out);
            let [from, to] = [new.as_str(), name].map(|name| self.path().join(name));
            std::fs::rename(from, to).map_err(UnpackError::Io)?;
        }
        Ok(())
    }

    /// Calls `visit` with the document, or with each line, until the work is over. The last line of an unfinished result
    /// can be cut off: it is left out, as any other line that is not JSON.
    fn each_document<'w>(
        &self,
        name: &str,
        work: &mut Work<'w>,
        mut visit: impl FnMut(&mut dyn Read, &mut Work<'w>) -> serde_json::Result<()>,
    ) -> Result<(), UnpackError> {
        let file = self.open(name)?;
        let failed = |error: serde_json::Error| match error.classify() {
            Category::Io => UnpackError::Io(error.into()),
            _ => UnpackError::Json { file: name.to_owned() },
        };
        let checked = |work: &Work<'_>| if work.is_over() { Err(UnpackError::Work) } else { Ok(()) };
        if DOCUMENTS.contains(&name) {
            let bytes = file.metadata().map_err(UnpackError::Io)?.len();
            if bytes > MOST_DOCUMENT_BYTES {
                return Err(UnpackError::Large);
            }
            work.spend(bytes as usize / BYTES_OF_WORK);
            let visited = visit(&mut BufReader::new(file), work);
            checked(work)?;
            return visited.map_err(failed);
        }
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read =
                (&mut reader).take(MOST_LINE_BYTES).read_until(b'\n', &mut line).map_err(UnpackError::Io)?;
            if read == 0 {
                return Ok(());
            }
            if read as u64 == MOST_LINE_BYTES {
                return Err(UnpackError::Large);
            }
            work.spend(LINE_WORK + read / BYTES_OF_WORK);
            let visited = visit(&mut line.as_slice(), work);
            checked(work)?;
            match visited {
                Err(error) if error.classify() == Category::Io => return Err(UnpackError::Io(error.into())),
                _ => {}
            }
        }
    }

    /// The files again as a `.tar.zst` file, without times and owners.
    pub fn packed(&self, cancellation: &Cancellation) -> Result<Vec<u8>, UnpackError> {
        let encoder = zstd::Encoder::new(Vec::new(), 3).map_err(UnpackError::Io)?;
        let mut archive = tar::Builder::new(encoder);
        for name in &self.files {
            let file = self.open(name)?;
            let mut header = tar::Header::new_gnu();
            header.set_size(file.metadata().map_err(UnpackError::Io)?.len());
            header.set_mode(0o644);
            cancellation.check()?;
            let file = Cancellable { inner: file, cancellation };
            archive.append_data(&mut header, name, file).map_err(UnpackError::Io)?;
        }
        let encoder = archive.into_inner().map_err(UnpackError::Io)?;
        encoder.finish().map_err(UnpackError::Io)
    }
}

/// A reader that ends when its work is cancelled.
struct Cancellable<'a, R> {
    inner: R,
    cancellation: &'a Cancellation,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.cancellation.check().map_err(io::Error::other)?;
        self.inner.read(buffer)
    }
}

/// The known file that a path of at most two components ends with.
fn known_name(path: &Path) -> Option<&'static str> {
    let mut names = path.components().filter(|part| !matches!(part, Component::CurDir));
    let (first, second) = (names.next()?, names.next());
    if names.next().is_some()
        || ![Some(first), second].iter().flatten().all(|one| matches!(one, Component::Normal(_)))
    {
        return None;
    }
    let name = second.unwrap_or(first).as_os_str();
    DOCUMENTS.into_iter().chain(LINES).find(|known| *known == name)
}
