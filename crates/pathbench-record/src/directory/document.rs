//! Versioned JSON documents (`run.json`, `trace.json`), which are read and replaced as a whole.

use super::error::{ReadError, WriteError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

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
    let text = fs::read_to_string(file).map_err(|source| ReadError::Io { path: path(), source })?;
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

/// Writes a document to a temporary file, syncs it to disk, and renames it.
pub(super) fn replace(dir: &Path, name: &str, document: &impl Serialize) -> Result<PathBuf, WriteError> {
    let path = dir.join(name);
    let temporary = dir.join(format!(".{name}.tmp"));
    let io = |path: &Path, source| WriteError { path: path.to_owned(), source };
    let mut text = serde_json::to_vec_pretty(document).map_err(|source| io(&path, source.into()))?;
    text.push(b'\n');
    let mut file = File::create(&temporary).map_err(|source| io(&temporary, source))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(|source| io(&temporary, source))?;
    fs::rename(&temporary, &path).map_err(|source| io(&path, source))?;
    // The rename is durable after a sync of the directory.
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| io(dir, source))?;
    Ok(path)
}
