//! The journal: records every change on disk before the change is made.
//!
//! The file contains JSON lines. The first line contains the format, the boot id and the network namespace. Each step
//! has one line before it, with the data to undo it, and one line after it; each undo has one line before and one after
//! it. If the machine stops while a line is written, the incomplete line is removed later: its step has not begun.

use super::operation::Operation;
use crate::namespace::current_cookie;
use crate::netlink::FibEntry;
use pathbench_record::file;
use pathbench_record::text::printable;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The format version written, and the only one accepted.
const FORMAT: &str = "pathbench.journal/1";
const HEADING: &[u8] = br#"{"line":"journal","format":"pathbench.journal/"#;
/// A larger journal is no journal; a change takes some kilobytes of it.
const MOST_BYTES: u64 = 64 << 20;
/// A line has at most two routes, whose text is twice as long as their attributes.
const LONGEST_LINE: usize = 512 << 10;
/// Characters of a command, in messages.
const LONGEST_COMMAND: usize = 1000;
/// A UUID.
const LONGEST_BOOT_ID: usize = 36;
/// Attempts to open the file, which another process may remove at the same time.
const ATTEMPTS: u32 = 8;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace of a running kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceIdentity {
    /// The kernel's boot id (`random(4)`).
    pub boot_id: String,
    /// Inode of the namespace, as `ls -L -i /proc/self/ns/net` prints it.
    pub inode: u64,
    /// The namespace's cookie, unique within a boot; absent before Linux 5.14.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
}

impl NamespaceIdentity {
    /// The identity of the calling thread's namespace.
    /// Errors: the name of the file in `/proc` that cannot be read.
    pub fn of_this_thread() -> Result<Self, (&'static str, io::Error)> {
        let boot_id = file::read_text(BOOT_ID, file::SMALL_FILE_BYTES).map_err(|source| (BOOT_ID, source))?;
        let inode = std::fs::metadata(OWN_NAMESPACE).map_err(|source| (OWN_NAMESPACE, source))?.ino();
        Ok(Self { boot_id: boot_id.trim().to_owned(), inode, cookie: current_cookie().ok() })
    }
}

impl fmt::Display for NamespaceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network namespace {} of boot {}", self.inode, printable(&self.boot_id, LONGEST_BOOT_ID))
    }
}

/// The journal cannot be written, or does not apply here.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot {what} the journal {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the journal {} is in use by another process: wait until it is done", path.display())]
    InUse { path: PathBuf },
    #[error(
        "line {line} of the journal {} is invalid ({detail}): no changes were made; undo the recorded steps by hand, \
         then remove it", path.display()
    )]
    Corrupt { path: PathBuf, line: usize, detail: String },
    #[error(
        "the journal {} belongs to {written}, but this is {here}: {}", path.display(), elsewhere_remedy(written, here)
    )]
    Elsewhere { path: PathBuf, written: Box<NamespaceIdentity>, here: Box<NamespaceIdentity> },
    #[error("cannot read {file}: {source}; is /proc mounted?")]
    Unidentified { file: &'static str, source: io::Error },
}

fn elsewhere_remedy(written: &NamespaceIdentity, here: &NamespaceIdentity) -> &'static str {
    if written.boot_id == here.boot_id {
        "undo it in that namespace, or remove the file if the namespace no longer exists"
    } else {
        "routes and endpoints do not survive a reboot; if the file is from this machine, remove it"
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
pub enum JournalLine {
    Journal {
        format: String,
        #[serde(flatten)]
        identity: NamespaceIdentity,
    },
    Begin {
        step: usize,
        operation: Operation,
        undo: Vec<String>,
    },
    Done {
        step: usize,
        /// The route as stored by the kernel, if different from the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<FibEntry>,
    },
    Undoing {
        step: usize,
    },
    Undone {
        step: usize,
    },
    /// The step was not undone, because another program has changed the same object since.
    Kept {
        step: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    pub operation: Operation,
    pub undo_commands: Vec<String>,
    pub done: bool,
    pub undoing: bool,
    pub undone: bool,
    /// The route after the step, if different from the operation's.
    pub left: Option<FibEntry>,
}

impl JournalEntry {
    pub const fn is_settled(&self) -> bool {
        self.undone || (self.done && self.operation.leaves_nothing())
    }

    pub const fn is_interrupted(&self) -> bool {
        !self.done || self.undoing
    }
}

/// The journal's file, locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    /// The steps in the order of their start.
    pub entries: Vec<JournalEntry>,
}

impl Journal {
    pub fn open_or_create(path: &Path, here: &NamespaceIdentity) -> Result<Self, JournalError> {
        let file =
            Self::open_locked(path, true)?.ok_or_else(|| file_error("open", path, Errno::NOENT.into()))?;
        Self::read_file(path, file, here)
    }

    /// Opens the journal at `path`; `None` if it does not exist.
    pub fn open(path: &Path, here: &NamespaceIdentity) -> Result<Option<Self>, JournalError> {
        Self::open_locked(path, false)?.map(|file| Self::read_file(path, file, here)).transpose()
    }

    pub fn is_settled(&self) -> bool {
        self.entries.iter().all(JournalEntry::is_settled)
    }

    pub fn begin(&mut self, operation: &Operation, undo: &[String]) -> Result<usize, JournalError> {
        let step = self.entries.len();
        self.note(JournalLine::Begin { step, operation: operation.clone(), undo: undo.to_vec() })?;
        Ok(step)
    }

    /// Appends a line and syncs it to disk.
    pub fn note(&mut self, line: JournalLine) -> Result<(), JournalError> {
        self.append(&line)?;
        // Cannot fail: this process writes only valid step numbers.
        take(&mut self.entries, line).map_err(|detail| corrupt(&self.path, 0, &detail))
    }

    pub fn remove(self) -> Result<(), JournalError> {
        std::fs::remove_file(&self.path).map_err(|source| file_error("remove", &self.path, source))?;
        sync_directory_of(&self.path)
    }

    /// The locked file; `None` if it does not exist and `create` is false.
    fn open_locked(path: &Path, create: bool) -> Result<Option<File>, JournalError> {
        for _ in 0..ATTEMPTS {
            let file = match file::open_own(path, create.then_some(0o600)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
                Err(source) => return Err(file_error("open", path, source)),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(JournalError::InUse { path: path.to_owned() }),
                Err(errno) => return Err(file_error("lock", path, errno.into())),
            }
            // The previous owner of the lock may have removed the file.
            let inode =
                |metadata: io::Result<std::fs::Metadata>| metadata.map(|found| (found.dev(), found.ino()));
            let (mine, there) = (inode(file.metadata()), inode(std::fs::symlink_metadata(path)));
            if mine.is_ok_and(|mine| there.is_ok_and(|there| mine == there)) {
                return Ok(Some(file));
            }
        }
        Err(JournalError::InUse { path: path.to_owned() })
    }

    fn read_file(path: &Path, file: File, here: &NamespaceIdentity) -> Result<Self, JournalError> {
        let failed = |source| file_error("read", path, source);
        file::check_length(&file, MOST_BYTES).map_err(failed)?;
        let mut text = Vec::new();
        (&file).take(MOST_BYTES).read_to_end(&mut text).map_err(failed)?;
        let parsed = ParsedJournal::parse(path, &text, here)?;
        let (length, entries) = (parsed.length as u64, parsed.entries);
        let mut journal = Self { path: path.to_owned(), file, length, entries };
        if parsed.length < text.len() {
            // The last line was being written when the machine stopped.
            journal.file.set_len(journal.length).map_err(|source| file_error("shorten", path, source))?;
        }
        if parsed.length == 0 {
            journal.append(&JournalLine::Journal { format: FORMAT.to_owned(), identity: here.clone() })?;
            sync_directory_of(path)?;
        }
        Ok(journal)
    }

    fn append(&mut self, line: &JournalLine) -> Result<(), JournalError> {
        let mut bytes =
            serde_json::to_vec(line).map_err(|error| file_error("write", &self.path, error.into()))?;
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_all());
        if let Err(source) = written {
            // A partial line must not become the start of the next line.
            let _ = self.file.set_len(self.length);
            return Err(file_error("write", &self.path, source));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// The text of a journal.
#[derive(Debug)]
pub struct ParsedJournal {
    /// The steps in the order of their start.
    pub entries: Vec<JournalEntry>,
    /// The bytes up to the last complete line; 0 without a heading.
    pub length: usize,
}

impl ParsedJournal {
    /// Parses the journal `path` of the namespace `here`. A line that Pathbench does not write is an error.
    pub fn parse(path: &Path, text: &[u8], here: &NamespaceIdentity) -> Result<Self, JournalError> {
        let length = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (lines, torn) = text.split_at(length);
        let mut lines = lines.split(|byte| *byte == b'\n').enumerate();
        match lines.next().filter(|(_, line)| !line.is_empty()) {
            Some((_, line)) => check_heading(path, line, here)?,
            None if length == 0 && is_beginning_of_heading(torn) => {}
            None => return Err(corrupt(path, 1, "it is no journal")),
        }
        let mut entries = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            parse_line(line)
                .and_then(|line| take(&mut entries, line))
                .map_err(|detail| corrupt(path, number + 1, &detail))?;
        }
        Ok(Self { entries, length })
    }
}

fn parse_line(line: &[u8]) -> Result<JournalLine, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("it has more than {LONGEST_LINE} bytes"));
    }
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

fn take(entries: &mut Vec<JournalEntry>, line: JournalLine) -> Result<(), String> {
    let known = entries.len();
    let unknown = |step: usize| format!("it names step {step}, which has not begun");
    match line {
        JournalLine::Journal { .. } => return Err("a second heading".to_owned()),
        JournalLine::Begin { step, .. } if step != known => {
            return Err(format!("step {step} where {known} was next"));
        }
        JournalLine::Begin { operation, undo, .. } => {
            operation.check()?;
            entries.push(JournalEntry {
                operation,
                undo_commands: undo.iter().map(|command| printable(command, LONGEST_COMMAND)).collect(),
                done: false,
                undoing: false,
                undone: false,
                left: None,
            });
        }
        JournalLine::Done { step, left } => {
            let entry = entries.get_mut(step).ok_or_else(|| unknown(step))?;
            (entry.done, entry.left) = (true, left);
        }
        JournalLine::Undoing { step } | JournalLine::Undone { step } | JournalLine::Kept { step } => {
            let entry = entries.get_mut(step).ok_or_else(|| unknown(step))?;
            entry.undone |= matches!(line, JournalLine::Undone { .. });
            match line {
                JournalLine::Undoing { .. } => entry.undoing = true,
                JournalLine::Kept { .. } => entry.undoing = false,
                _ => {}
            }
        }
    }
    Ok(())
}

fn check_heading(path: &Path, line: &[u8], here: &NamespaceIdentity) -> Result<(), JournalError> {
    let corrupt = |detail: &str| corrupt(path, 1, detail);
    match parse_line(line) {
        Ok(JournalLine::Journal { format, .. }) if format != FORMAT => {
            Err(corrupt(&format!("its format is {format}, this version reads {FORMAT}")))
        }
        Ok(JournalLine::Journal { identity, .. }) if identity == *here => Ok(()),
        Ok(JournalLine::Journal { identity, .. }) => Err(JournalError::Elsewhere {
            path: path.to_owned(),
            written: Box::new(identity),
            here: Box::new(here.clone()),
        }),
        Ok(_) => Err(corrupt("it has no heading")),
        Err(detail) => Err(corrupt(&detail)),
    }
}

fn is_beginning_of_heading(torn: &[u8]) -> bool {
    torn.iter().zip(HEADING).all(|(byte, expected)| byte == expected)
}

fn corrupt(path: &Path, line: usize, detail: &str) -> JournalError {
    JournalError::Corrupt { path: path.to_owned(), line, detail: printable(detail, LONGEST_COMMAND) }
}

fn file_error(what: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::File { what, path: path.to_owned(), source }
}

/// A file survives a crash only if its directory is synced, too.
fn sync_directory_of(path: &Path) -> Result<(), JournalError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    file::OpenDirectory::open(directory)
        .and_then(|directory| directory.sync())
        .map_err(|source| file_error("sync the directory of", path, source))
}
