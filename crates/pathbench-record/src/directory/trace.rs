//! The files of the analysis of packet captures: `trace.json` and `sequence.jsonl`.

use super::lines::LineFile;
use super::reader::{ReadError, parse_versioned};
use super::writer::{WriteError, replace};
use crate::trace::{SCHEMA, SequenceLine, TraceDocument};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

pub const TRACE_FILE: &str = "trace.json";
pub const SEQUENCE_FILE: &str = "sequence.jsonl";

const SCHEMA_NAME: &str = "pathbench.trace/";
const NEWEST: u32 = 1;

/// Writes `document` into the directory `dir` and returns the path of the file.
pub fn write_trace(dir: &Path, document: &TraceDocument) -> Result<PathBuf, WriteError> {
    replace(dir, TRACE_FILE, document)
}

/// Reads the file `path`, or `trace.json` in the directory `path`.
pub fn read_trace(path: &Path) -> Result<TraceDocument, ReadError> {
    let file = if path.is_dir() { path.join(TRACE_FILE) } else { path.to_owned() };
    let text = fs::read_to_string(&file).map_err(|source| ReadError::Io { path: file.clone(), source })?;
    parse_versioned(&text, &file, (SCHEMA_NAME, SCHEMA, NEWEST))
}

/// Writes the time-sequence graphs into the directory `dir`.
pub fn write_sequences(dir: &Path, lines: &[SequenceLine]) -> Result<PathBuf, WriteError> {
    let path = dir.join(SEQUENCE_FILE);
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&path)?);
        for line in lines {
            serde_json::to_writer(&mut file, line)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|source| WriteError { path: path.clone(), source })?;
    Ok(path)
}

/// The time-sequence graphs beside `trace.json`, with a warning if the last one is cut off. None without the file.
pub fn read_sequences(dir: &Path) -> Result<(Vec<SequenceLine>, Option<String>), ReadError> {
    let mut lines = Vec::new();
    let warning = match LineFile::open_if_present(dir.join(SEQUENCE_FILE))? {
        Some(file) => file.for_each(|line| lines.push(line))?,
        None => None,
    };
    Ok((lines, warning))
}
