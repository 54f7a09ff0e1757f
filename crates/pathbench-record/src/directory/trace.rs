//! `trace.json` in a directory: the analysis of packet captures.

use super::reader::{ReadError, parse_versioned};
use super::writer::{WriteError, replace};
use crate::trace::{SCHEMA, TraceDocument};
use std::fs;
use std::path::{Path, PathBuf};

pub const TRACE_FILE: &str = "trace.json";

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
