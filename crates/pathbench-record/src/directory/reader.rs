//! Reads a result of this version or an older one, finished or not.

use super::index::{LineIndex, last_lines};
use super::lines::{Line, Records, records};
use super::trace::TRACE_FILE;
use super::unfinished;
use crate::document::{ResultDocument, SCHEMA};
use crate::end::MessageLine;
use crate::sample::Sample;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub(super) const DOCUMENT: &str = "run.json";
/// The document of an unfinished result; the finished runs of a study are in the file of records.
pub(super) const PARTIAL: &str = "run.partial.json";

pub fn holds_result(dir: &Path) -> bool {
    [DOCUMENT, PARTIAL, unfinished::RECORDS, Sample::FILE, TRACE_FILE]
        .iter()
        .any(|file| dir.join(file).exists())
}

/// The prefix of the version number in `schema`.
const SCHEMA_NAME: &str = "pathbench.result/";

/// The newest version this program reads.
const NEWEST: u32 = 1;

/// Error of opening a result or reading its lines.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("{} holds no Pathbench result (there is no {DOCUMENT} in it)", path.display())]
    NotAResult { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a Pathbench result: {problem}", path.display())]
    OtherDocument { path: PathBuf, problem: String },
    #[error(
        "{} was written by a newer Pathbench (schema {found}; this one reads up to {reads}); update Pathbench to read it",
        path.display()
    )]
    Newer { path: PathBuf, found: String, reads: &'static str },
    #[error("{}:{}: {problem}", path.display(), line)]
    Broken {
        path: PathBuf,
        /// From 1.
        line: usize,
        problem: String,
    },
}

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
        let (file, finished) = if path.is_file() {
            (path.to_owned(), path.file_name().is_none_or(|name| name != PARTIAL))
        } else {
            match [DOCUMENT, PARTIAL].map(|name| path.join(name)) {
                [document, _] if document.is_file() => (document, true),
                [_, partial] if partial.is_file() => (partial, false),
                _ => return Err(ReadError::NotAResult { path: path.to_owned() }),
            }
        };
        let text =
            fs::read_to_string(&file).map_err(|source| ReadError::Io { path: file.clone(), source })?;
        let mut document = parse_document(&text, &file)?;
        let path = file.parent().map_or_else(PathBuf::new, Path::to_owned);
        if !finished {
            unfinished::add_finished_runs(&mut document, &path)?;
        }
        let warning = (!finished).then(|| {
            let runs = document.runs.len();
            format!("{} was never finished; it holds the {runs} runs that were", file.display())
        });
        Ok(Self { path, document, warning })
    }

    /// All lines of one kind; none, and no warning, when no run of the result has such lines.
    pub fn lines<T: Line>(&self) -> Result<Records<T>, ReadError> {
        records(self)
    }

    /// Where the lines of each run of the document are, from one pass over each file of lines in bounded memory.
    ///
    /// A line that is no object with a `run` is an error here; any other broken line is one when its run is read.
    pub fn index(&self) -> Result<LineIndex, ReadError> {
        LineIndex::of(self)
    }

    /// All lines of `messages.jsonl`. An unfinished result may have several lines of one message: only the last one
    /// counts.
    pub fn messages(&self) -> Result<Records<MessageLine>, ReadError> {
        let mut lines: Records<MessageLine> = self.lines()?;
        if self.warning.is_some() {
            lines.items = last_lines(lines.items);
        }
        Ok(lines)
    }
}

#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
}

fn parse_document(text: &str, file: &Path) -> Result<ResultDocument, ReadError> {
    parse_versioned(text, file, (SCHEMA_NAME, SCHEMA, NEWEST))
}

/// Parses a document whose `schema` is `name` and a version up to `newest`.
pub(super) fn parse_versioned<T: DeserializeOwned>(
    text: &str,
    file: &Path,
    (name, reads, newest): (&str, &'static str, u32),
) -> Result<T, ReadError> {
    let path = || file.to_owned();
    let broken = |error: serde_json::Error| ReadError::Broken {
        path: path(),
        line: error.line(),
        problem: error.to_string(),
    };
    let header: Header = serde_json::from_str(text).map_err(broken)?;
    let other = |problem: String| ReadError::OtherDocument { path: path(), problem };
    let schema = header.schema.ok_or_else(|| other("it has no `schema`".to_owned()))?;
    let version = schema.strip_prefix(name).and_then(|version| version.parse::<u32>().ok());
    match version {
        None | Some(0) => Err(other(format!("its `schema` is `{schema}`"))),
        Some(version) if version > newest => Err(ReadError::Newer { path: path(), found: schema, reads }),
        Some(_) => serde_json::from_str(text).map_err(broken),
    }
}
