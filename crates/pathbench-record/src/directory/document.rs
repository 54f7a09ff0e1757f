//! Versioned JSON documents (`run.json`, `trace.json`), which are read and replaced as a whole.

use super::error::{ReadError, WriteError};
use crate::file::{self, Replacement};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A larger document is not read. A run has some 10 kB of its document.
pub(super) const MOST_DOCUMENT_BYTES: u64 = 256 << 20;

#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
}

/// Reads a document of `schema` or of an older version of it.
pub(super) fn read_document<T: DeserializeOwned>(file: &Path, schema: &'static str) -> Result<T, ReadError> {
    let path = || file.to_owned();
    let broken = |error: serde_json::Error| ReadError::Broken {
        path: path(),
        line: error.line(),
        problem: error.to_string(),
    };
    let other = |problem: String| ReadError::OtherDocument { path: path(), problem };
    let text = file::read_text(file, MOST_DOCUMENT_BYTES)
        .map_err(|source| ReadError::Io { path: path(), source })?;
    let header: Header = serde_json::from_str(&text).map_err(broken)?;
    let found = header.schema.ok_or_else(|| other("it has no `schema`".to_owned()))?;
    let newest = version(schema, schema).unwrap_or_default();
    match version(&found, schema) {
        None | Some(0) => Err(other(format!("its `schema` is `{found}`"))),
        Some(version) if version > newest => Err(ReadError::Newer { path: path(), found, reads: schema }),
        Some(_) => serde_json::from_str(&text).map_err(broken),
    }
}

/// The version in `found`, if its name is that of `schema`: `name/version`.
fn version(found: &str, schema: &str) -> Option<u32> {
    let (name, _) = schema.rsplit_once('/')?;
    found.strip_prefix(name)?.strip_prefix('/')?.parse().ok()
}

/// Replaces a document, durably.
pub(super) fn replace(dir: &Path, name: &str, document: &impl Serialize) -> Result<PathBuf, WriteError> {
    let path = dir.join(name);
    let write = || {
        let mut text = serde_json::to_vec_pretty(document)?;
        text.push(b'\n');
        let replacement = Replacement::new(&path)?;
        replacement.file().write_all(&text)?;
        replacement.commit_durably()
    };
    match write() {
        Ok(()) => Ok(path),
        Err(source) => Err(WriteError { path, source }),
    }
}
