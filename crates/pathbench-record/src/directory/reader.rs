//! Reads a result of this version or an older one, finished or not.

use super::document::read_document;
use super::error::ReadError;
use super::layout::{DOCUMENT, PARTIAL};
use super::records::records;
use crate::document::{ResultDocument, SCHEMA};
use crate::summary::summarise_document;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct ResultDirectory {
    pub path: PathBuf,
    /// `run.json`.
    pub document: ResultDocument,
    /// A warning about the result as a whole.
    pub warning: Option<String>,
}

impl ResultDirectory {
    /// Opens the result in the directory `path`, or the one whose `run.json` is `path`.
    ///
    /// Unknown fields are ignored. An unfinished result opens with its finished runs and a warning.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        // Not `is_file`: a FIFO in place of the document has its own error.
        let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
        let (file, finished) = if exists(path) && !path.is_dir() {
            (path.to_owned(), path.file_name().is_none_or(|name| name != PARTIAL))
        } else {
            match [DOCUMENT, PARTIAL].map(|name| path.join(name)) {
                [document, _] if exists(&document) => (document, true),
                [_, partial] if exists(&partial) => (partial, false),
                _ => return Err(ReadError::NotAResult { path: path.to_owned() }),
            }
        };
        let mut document: ResultDocument = read_document(&file, SCHEMA)?;
        let path = file.parent().map_or_else(PathBuf::new, Path::to_owned);
        if !finished {
            let (records, _) = records(&path)?;
            if !records.is_empty() {
                document.runs.extend(records);
                summarise_document(&mut document);
            }
        }
        let warning = (!finished).then(|| {
            let runs = document.runs.len();
            format!("{} was never finished; it holds the {runs} runs that were", file.display())
        });
        Ok(Self { path, document, warning })
    }
}
