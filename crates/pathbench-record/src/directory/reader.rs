//! Reading a result of this version or an older one, finished or not.

use super::{DELIVERIES, DOCUMENT, EVENTS, LINKS, MESSAGES, PARTIAL, PROBES, SAMPLES};
use crate::document::{LinkSample, ProbeLine, ResultDocument, RunRecord, SCHEMA};
use crate::event::{DeliveryLine, Event};
use crate::message::MessageLine;
use crate::sample::Sample;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What stands before the version number in `schema`.
const SCHEMA_NAME: &str = "pathbench.result/";

/// The newest version this program reads.
const NEWEST: u32 = 1;

#[derive(Debug, Error)]
pub enum OpenError {
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

/// The lines of a result could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
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
    /// What a reader of the result should be told: the file is missing, or its last line was cut off.
    pub warning: Option<String>,
}

#[derive(Debug, Clone)]
pub struct ResultDirectory {
    dir: PathBuf,
    document: ResultDocument,
    warning: Option<String>,
}

impl ResultDirectory {
    /// Opens the result in the directory `path`, or that whose `run.json` is `path`.
    ///
    /// Fields that this version does not know are ignored. A result that was never finished opens with the
    /// runs that were, and a [`Self::warning`].
    ///
    /// # Errors
    ///
    /// When there is no result, it is broken, or of a newer version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (file, finished) = if path.is_file() {
            (path.to_owned(), path.file_name().is_none_or(|name| name != PARTIAL))
        } else {
            match [DOCUMENT, PARTIAL].map(|name| path.join(name)) {
                [document, _] if document.is_file() => (document, true),
                [_, partial] if partial.is_file() => (partial, false),
                _ => return Err(OpenError::NotAResult { path: path.to_owned() }),
            }
        };
        let text =
            fs::read_to_string(&file).map_err(|source| OpenError::Io { path: file.clone(), source })?;
        let document = parse_document(&text, &file)?;
        let warning = (!finished).then(|| {
            let runs = document.runs.len();
            format!("{} was never finished; it holds the {runs} runs that were", file.display())
        });
        let dir = file.parent().map_or_else(PathBuf::new, Path::to_owned);
        Ok(Self { dir, document, warning })
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn document(&self) -> &ResultDocument {
        &self.document
    }

    /// `run.json`, without the directory.
    pub fn into_document(self) -> ResultDocument {
        self.document
    }

    /// What a reader should be told of the result as a whole.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// All of `samples.jsonl`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or a line of it is broken (other than a last one cut off by a crash).
    pub fn samples(&self) -> Result<Records<Sample>, ReadError> {
        records(&self.dir.join(SAMPLES))
    }

    /// All of `events.jsonl`.
    ///
    /// # Errors
    ///
    /// As [`Self::samples`].
    pub fn events(&self) -> Result<Records<Event>, ReadError> {
        records(&self.dir.join(EVENTS))
    }

    /// All of `delivery.jsonl`.
    ///
    /// # Errors
    ///
    /// As [`Self::samples`].
    pub fn deliveries(&self) -> Result<Records<DeliveryLine>, ReadError> {
        records(&self.dir.join(DELIVERIES))
    }

    /// All of `messages.jsonl`; none, and no warning, when no run of the result has messages.
    ///
    /// A result that was never finished may tell of one message several times: only the last word counts.
    ///
    /// # Errors
    ///
    /// As [`Self::samples`].
    pub fn messages(&self) -> Result<Records<MessageLine>, ReadError> {
        let mut lines: Records<MessageLine> =
            self.expected_if(MESSAGES, |run| run.delay_ms.is_some() || run.ping.is_some())?;
        if self.warning.is_some() {
            lines.items = last_words(lines.items);
        }
        Ok(lines)
    }

    /// All of `links.jsonl`; none, and no warning, when no link of the result was emulated.
    ///
    /// # Errors
    ///
    /// As [`Self::samples`].
    pub fn links(&self) -> Result<Records<LinkSample>, ReadError> {
        self.expected_if(LINKS, |run| run.links.iter().any(|link| link.emulation.is_some()))
    }

    /// All of `probes.jsonl`; none, and no warning, when no run of the result was probed.
    ///
    /// # Errors
    ///
    /// As [`Self::samples`].
    pub fn probes(&self) -> Result<Records<ProbeLine>, ReadError> {
        self.expected_if(PROBES, |run| !run.probes.is_empty())
    }

    /// The lines of a file that is made with its first line; it is missed only where a run should have some.
    fn expected_if<T: DeserializeOwned>(
        &self,
        name: &str,
        has_some: fn(&RunRecord) -> bool,
    ) -> Result<Records<T>, ReadError> {
        let file = self.dir.join(name);
        if !file.exists() && !self.document.runs.iter().any(has_some) {
            return Ok(Records { items: Vec::new(), warning: None });
        }
        records(&file)
    }
}

/// The last line of each message, in the order in which they were due.
fn last_words(lines: Vec<MessageLine>) -> Vec<MessageLine> {
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

fn parse_document(text: &str, file: &Path) -> Result<ResultDocument, OpenError> {
    let path = || file.to_owned();
    let broken = |error: serde_json::Error| OpenError::Broken {
        path: path(),
        line: error.line(),
        problem: error.to_string(),
    };
    let header: Header = serde_json::from_str(text).map_err(broken)?;
    let other = |problem: String| OpenError::OtherDocument { path: path(), problem };
    let schema = header.schema.ok_or_else(|| other("it has no `schema`".to_owned()))?;
    let version = schema.strip_prefix(SCHEMA_NAME).and_then(|version| version.parse::<u32>().ok());
    match version {
        None | Some(0) => Err(other(format!("its `schema` is `{schema}`"))),
        Some(version) if version > NEWEST => Err(OpenError::Newer { path: path(), found: schema }),
        Some(_) => serde_json::from_str(text).map_err(broken),
    }
}

fn records<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, ReadError> {
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
            // Only the last line can lack its end: the writer died in the middle of it.
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
