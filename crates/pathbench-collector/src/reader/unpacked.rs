//! Raw parts, unpacked: the known files of a result directory, in bounded memory and disk space.
//!
//! A file is written under its known name into a new directory, not under the path in the archive: no path can lead out
//! of it. Links, devices and unknown files are left out, packet captures among them.

use crate::viewer::Viewer;
use pathbench_api::anonymise::{Anonymiser, MOST_NAMES};
use pathbench_record::file;
use serde_json::Value;
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

/// A JSON document is held in memory.
const MOST_DOCUMENT_BYTES: u64 = 16 << 20;

/// 2^25 bytes of window: what zstd uses at its usual levels is at most 2^23.
const WINDOW_LOG: u32 = 25;

/// Documents, then files of lines.
const DOCUMENTS: [&str; 3] = ["run.json", "run.partial.json", "trace.json"];
const LINES: [&str; 8] = [
    "samples.jsonl",
    "events.jsonl",
    "delivery.jsonl",
    "messages.jsonl",
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
}

impl Unpacked {
    /// The files of `raw`, a `.tar.zst` file; for everybody in the anonymous form.
    pub fn from_raw(raw: &[u8], viewer: Viewer) -> Result<Self, UnpackError> {
        let directory = tempfile::Builder::new().prefix("pathbench-").tempdir().map_err(UnpackError::Io)?;
        let mut unpacked = Self { directory, files: BTreeSet::new() };
        unpacked.extract(raw)?;
        if viewer == Viewer::Everybody {
            unpacked.anonymise()?;
        }
        Ok(unpacked)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn extract(&mut self, raw: &[u8]) -> Result<(), UnpackError> {
        let mut decoder = zstd::Decoder::new(raw).map_err(UnpackError::Damaged)?;
        decoder.window_log_max(WINDOW_LOG).map_err(UnpackError::Damaged)?;
        // Headers, links and unknown files count as well.
        let mut archive = tar::Archive::new(decoder.take(MOST_BYTES));
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
            file.flush().map_err(UnpackError::Io)?;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> Result<BufWriter<File>, UnpackError> {
        let file = file::create_new(&self.path().join(name), 0o666).map_err(UnpackError::Io)?;
        Ok(BufWriter::new(file))
    }

    fn open(&self, name: &str) -> Result<File, UnpackError> {
        file::open(self.path().join(name)).map_err(UnpackError::Io)
    }

    fn anonymise(&mut self) -> Result<(), UnpackError> {
        let mut anonymiser = Anonymiser::default();
        for name in self.files.clone() {
            self.each_value(name, |value| {
                anonymiser.learn(&value);
                Ok(())
            })?;
        }
        if anonymiser.is_full() {
            return Err(UnpackError::Names);
        }
        for name in self.files.clone() {
            let new = format!("{name}.anonymous");
            let mut out = self.create(&new)?;
            self.each_value(name, |mut value| {
                anonymiser.apply(&mut value);
                serde_json::to_writer(&mut out, &value).map_err(|error| UnpackError::Io(error.into()))?;
                out.write_all(b"\n").map_err(UnpackError::Io)
            })?;
            out.flush().map_err(UnpackError::Io)?;
            drop(out);
            let [from, to] = [new.as_str(), name].map(|name| self.path().join(name));
            std::fs::rename(from, to).map_err(UnpackError::Io)?;
        }
        Ok(())
    }

    /// Calls `visit` with the document, or with each line. The last line of an unfinished result can be cut off: it is
    /// left out, as any other line that is not JSON.
    fn each_value(
        &self,
        name: &str,
        mut visit: impl FnMut(Value) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        let file = self.open(name)?;
        if DOCUMENTS.contains(&name) {
            let not_json = || UnpackError::Json { file: name.to_owned() };
            if file.metadata().map_err(UnpackError::Io)?.len() > MOST_DOCUMENT_BYTES {
                return Err(UnpackError::Large);
            }
            let value = serde_json::from_reader(BufReader::new(file)).map_err(|_| not_json())?;
            return visit(value);
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
            if let Ok(value) = serde_json::from_slice(&line) {
                visit(value)?;
            }
        }
    }

    /// The files again as a `.tar.zst` file, without times and owners.
    pub fn packed(&self) -> Result<Vec<u8>, UnpackError> {
        let encoder = zstd::Encoder::new(Vec::new(), 3).map_err(UnpackError::Io)?;
        let mut archive = tar::Builder::new(encoder);
        for name in &self.files {
            let file = self.open(name)?;
            let mut header = tar::Header::new_gnu();
            header.set_size(file.metadata().map_err(UnpackError::Io)?.len());
            header.set_mode(0o644);
            archive.append_data(&mut header, name, file).map_err(UnpackError::Io)?;
        }
        let encoder = archive.into_inner().map_err(UnpackError::Io)?;
        encoder.finish().map_err(UnpackError::Io)
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
