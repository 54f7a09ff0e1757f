//! Reads a result of this version or an older one, finished or not.

use crate::delivery::DeliveryLine;
use crate::document::{LinkSample, ProbeLine, ResultDocument, SCHEMA};
use crate::end::MessageLine;
use crate::event::Event;
use crate::sample::Sample;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub(super) const DOCUMENT: &str = "run.json";
/// The document of an unfinished result, with the runs so far.
pub(super) const PARTIAL: &str = "run.partial.json";

/// The type of a line in one of the JSON Lines files.
pub trait Line: Serialize + DeserializeOwned {
    const FILE: &'static str;

    /// Whether a missing file causes a warning. Such a file exists from the start; others are created with their first
    /// line.
    fn is_expected(_document: &ResultDocument) -> bool {
        true
    }
}

impl Line for Sample {
    const FILE: &'static str = "samples.jsonl";
}

impl Line for Event {
    const FILE: &'static str = "events.jsonl";
}

impl Line for DeliveryLine {
    const FILE: &'static str = "delivery.jsonl";
}

impl Line for MessageLine {
    const FILE: &'static str = "messages.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().any(|run| run.delay_ms.is_some() || run.ping.is_some())
    }
}

impl Line for LinkSample {
    const FILE: &'static str = "links.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().flat_map(|run| &run.links).any(|link| link.emulation.is_some())
    }
}

impl Line for ProbeLine {
    const FILE: &'static str = "probes.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().any(|run| !run.probes.is_empty())
    }
}

pub fn holds_result(dir: &Path) -> bool {
    [DOCUMENT, PARTIAL, Sample::FILE].iter().any(|file| dir.join(file).exists())
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
        "{} was written by a newer Pathbench (schema {found}; this one reads up to {SCHEMA}); update Pathbench to read it",
        path.display()
    )]
    Newer { path: PathBuf, found: String },
    #[error("{}:{}: {problem}", path.display(), line)]
    Broken {
        path: PathBuf,
        /// From 1.
        line: usize,
        problem: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Records<T> {
    /// In the order of the file.
    pub items: Vec<T>,
    /// A warning for the user: the file is missing, or its last line is truncated.
    pub warning: Option<String>,
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
        let document = parse_document(&text, &file)?;
        let warning = (!finished).then(|| {
            let runs = document.runs.len();
            format!("{} was never finished; it holds the {runs} runs that were", file.display())
        });
        let path = file.parent().map_or_else(PathBuf::new, Path::to_owned);
        Ok(Self { path, document, warning })
    }

    /// All lines of one kind; none, and no warning, when no run of the result has such lines.
    pub fn lines<T: Line>(&self) -> Result<Records<T>, ReadError> {
        let file = self.path.join(T::FILE);
        if !file.exists() && !T::is_expected(&self.document) {
            return Ok(Records { items: Vec::new(), warning: None });
        }
        records(&file)
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

/// The last line of each message, by due time.
fn last_lines(lines: Vec<MessageLine>) -> Vec<MessageLine> {
    let mut last = BTreeMap::new();
    for line in lines {
        last.insert((line.run.clone(), line.direction, line.sequence), line);
    }
    let mut lines: Vec<MessageLine> = last.into_values().collect();
    lines.sort_by(|a, b| a.run.cmp(&b.run).then(a.due_ms.total_cmp(&b.due_ms)));
    lines
}

#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
}

fn parse_document(text: &str, file: &Path) -> Result<ResultDocument, ReadError> {
    let path = || file.to_owned();
    let broken = |error: serde_json::Error| ReadError::Broken {
        path: path(),
        line: error.line(),
        problem: error.to_string(),
    };
    let header: Header = serde_json::from_str(text).map_err(broken)?;
    let other = |problem: String| ReadError::OtherDocument { path: path(), problem };
    let schema = header.schema.ok_or_else(|| other("it has no `schema`".to_owned()))?;
    let version = schema.strip_prefix(SCHEMA_NAME).and_then(|version| version.parse::<u32>().ok());
    match version {
        None | Some(0) => Err(other(format!("its `schema` is `{schema}`"))),
        Some(version) if version > NEWEST => Err(ReadError::Newer { path: path(), found: schema }),
        Some(_) => serde_json::from_str(text).map_err(broken),
    }
}

fn records<T: Line>(path: &Path) -> Result<Records<T>, ReadError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let warning = Some(format!("{} is missing", path.display()));
            return Ok(Records { items: Vec::new(), warning });
        }
        Err(source) => return Err(ReadError::Io { path: path.to_owned(), source }),
    };
    let mut items = Vec::new();
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(item) => items.push(item),
            // Only the last line can lack its line end: the writer ended in the middle of it.
            Err(_) if line.last() != Some(&b'\n') => {
                let (path, number) = (path.display(), index + 1);
                let warning = Some(format!("{path}:{number}: the last line is cut off and was left out"));
                return Ok(Records { items, warning });
            }
            Err(error) => {
                let problem = error.to_string();
                return Err(ReadError::Broken { path: path.to_owned(), line: index + 1, problem });
            }
        }
    }
    Ok(Records { items, warning: None })
}
