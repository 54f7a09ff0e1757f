//! The files of the analysis of packet captures: `trace.json` and `sequence.jsonl`.

use super::document::{read_document, replace};
use super::error::{ReadError, WriteError};
use super::layout::{SEQUENCE_FILE, TRACE_FILE};
use super::line::write_lines;
use super::lines::LineFile;
use crate::file::Replacement;
use crate::trace::{SCHEMA, SequenceLine, TraceDocument};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Writes `document` into the directory `dir` and returns the path of the file.
pub fn write_trace(dir: &Path, document: &TraceDocument) -> Result<PathBuf, WriteError> {
    replace(dir, TRACE_FILE, document)
}

/// Reads the file `path`, or `trace.json` in the directory `path`.
pub fn read_trace(path: &Path) -> Result<TraceDocument, ReadError> {
    let file = if path.is_dir() { path.join(TRACE_FILE) } else { path.to_owned() };
    read_document(&file, SCHEMA)
}

/// Writes the time-sequence graphs into the directory `dir`.
pub fn write_sequences(dir: &Path, lines: &[SequenceLine]) -> Result<PathBuf, WriteError> {
    let path = dir.join(SEQUENCE_FILE);
    let written = Replacement::new(&path).and_then(|replacement| {
        write_lines(&mut BufWriter::new(replacement.file()), lines)?;
        replacement.commit()
    });
    written.map_err(|source| WriteError { path: path.clone(), source })?;
    Ok(path)
}

/// The time-sequence graphs beside `trace.json`, with a warning if the last one is cut off. None without the file.
pub fn read_sequences(dir: &Path) -> Result<(Vec<SequenceLine>, Option<String>), ReadError> {
    let mut lines = Vec::new();
    let warning = match LineFile::open_if_present(dir.join(SEQUENCE_FILE))? {
        Some(file) => file.bounded()?.for_each(|line| lines.push(line))?,
        None => None,
    };
    Ok((lines, warning))
}
