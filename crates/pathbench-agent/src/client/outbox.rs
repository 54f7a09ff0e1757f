//! Submissions that wait for a collector: a file each, on the disk before the first attempt to send it, and there until
//! the collector has acknowledged its id. A file that a collector will never accept goes to `rejected`, with the reason.

use super::address::CollectorAddress;
use super::settings::xdg_directory;
use crate::durable::{self, TEMPORARY};
use pathbench_api::Uuid;
use pathbench_api::bounds::LINE_BYTES;
use pathbench_api::digest::Digest;
use pathbench_api::submission::id_time_ms;
use pathbench_program::exit::Failure;
use pathbench_record::file;
use pathbench_record::text::printable;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SCHEMA: &str = "pathbench.outbox/1";
const ENDING: &str = "submission";
const REASON_ENDING: &str = "reason";
/// The first line of a file.
const HEADER_BYTES: u64 = 4096;
/// A temporary file of a process that was killed.
const STALE: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    schema: String,
    collector: String,
    /// Unix time.
    queued_s: u64,
    /// The result directory, for the user.
    result: String,
}

#[derive(Debug, Clone)]
pub(crate) struct WaitingSubmission {
    pub(crate) id: Uuid,
    pub(crate) collector: String,
    pub(crate) queued_s: u64,
    pub(crate) result: String,
    pub(crate) bytes: u64,
    file: PathBuf,
}

/// A submission that a collector will not accept.
#[derive(Debug, Clone)]
pub(crate) struct Rejected {
    pub(crate) id: String,
    pub(crate) reason: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    directory: PathBuf,
    most_bytes: u64,
}

impl Outbox {
    /// The outbox below a state directory.
    pub(crate) fn open(state_directory: &Path, most_bytes: u64, now_s: u64) -> Result<Self, Failure> {
        let outbox = Self { directory: state_directory.join("outbox"), most_bytes };
        durable::create_directory(&outbox.rejected_directory())
            .map_err(|error| outbox.failure("create", &error))?;
        outbox.remove_stale(now_s);
        Ok(outbox)
    }

    fn rejected_directory(&self) -> PathBuf {
        self.directory.join("rejected")
    }

    fn failure(&self, what: &str, error: &io::Error) -> Failure {
        Failure::failed(format!("cannot {what} the outbox {}: {error}", self.directory.display()))
    }

    fn remove_stale(&self, now_s: u64) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
            let modified = entry.metadata().ok().map(|metadata| {
                use std::os::unix::fs::MetadataExt as _;
                metadata.mtime().unsigned_abs()
            });
            if is_temporary && modified.is_some_and(|at| now_s.saturating_sub(at) > STALE.as_secs()) {
                let _stays = fs::remove_file(entry.path());
            }
        }
    }

    /// Keeps a line for `collector`, durably. The oldest ones are never dropped for it.
    pub(crate) fn keep(
        &self,
        id: Uuid,
        collector: &CollectorAddress,
        result: &Path,
        line: &[u8],
        now_s: u64,
    ) -> Result<(), Failure> {
        let file = self.directory.join(file_name(id, &collector.to_string()));
        if file.exists() {
            // Made earlier from the same result.
            return Ok(());
        }
        let held = self.bytes();
        if held.saturating_add(line.len() as u64) > self.most_bytes {
            return Err(Failure::failed(format!(
                "the outbox {} is full ({held} of {} bytes), and the result stays in {}: send it with `pathbench submit` \
                 when the collector answers, or raise `limits.outbox`",
                self.directory.display(),
                self.most_bytes,
                result.display()
            )));
        }
        let header = Header {
            schema: SCHEMA.to_owned(),
            collector: collector.to_string(),
            queued_s: now_s,
            result: result.display().to_string(),
        };
        let header = serde_json::to_vec(&header).map_err(Failure::failed)?;
        durable::write(&file, &[&header, b"\n", line, b"\n"]).map_err(|error| {
            Failure::failed(format!(
                "cannot write {}: {error}; the result stays in {}",
                file.display(),
                result.display()
            ))
        })
    }

    /// All that wait, the oldest first.
    pub(crate) fn waiting(&self) -> Vec<WaitingSubmission> {
        let files = files(&self.directory).into_iter();
        let mut found: Vec<_> = files.filter_map(|(file, bytes)| read_header(file, bytes)).collect();
        found.sort_by_key(|one| (one.queued_s, one.id));
        found
    }

    /// The line of one that waits; `None` if another process has sent it.
    pub(crate) fn line(&self, waiting: &WaitingSubmission) -> Result<Option<Vec<u8>>, Failure> {
        let file = match file::open(&waiting.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failure("read", &error)),
        };
        let mut text = Vec::new();
        file.take(HEADER_BYTES + LINE_BYTES as u64 + 2)
            .read_to_end(&mut text)
            .map_err(|error| self.failure("read", &error))?;
        let begin = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
        let line = text.split_off(begin);
        let line = line.strip_suffix(b"\n").map(<[u8]>::to_vec);
        if line.is_none() {
            self.reject(waiting, "the file is damaged")?;
        }
        Ok(line)
    }

    pub(crate) fn remove(&self, waiting: &WaitingSubmission) -> Result<(), Failure> {
        match fs::remove_file(&waiting.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failure("remove a file from", &error))
            }
            // Without a synchronisation: after a power cut it is sent again, which changes nothing.
            _ => Ok(()),
        }
    }

    pub(crate) fn reject(&self, waiting: &WaitingSubmission, reason: &str) -> Result<(), Failure> {
        let directory = self.rejected_directory();
        let reason = printable(reason, 500);
        let moved = durable::write(
            &directory.join(format!("{}.{REASON_ENDING}", waiting.id)),
            &[reason.as_bytes(), b"\n"],
        )
        .and_then(|()| {
            durable::rename(&waiting.file, &directory.join(file_name(waiting.id, &waiting.collector)))
        });
        self.prune_rejected();
        match moved {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failure("move a file within", &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the oldest rejected ones beyond a quarter of the outbox's bound. Their reasons were reported.
    fn prune_rejected(&self) {
        let mut files = files(&self.rejected_directory());
        // The names begin with the time of the result.
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        for (file, length) in files {
            if bytes <= self.most_bytes / 4 {
                break;
            }
            let _stays = fs::remove_file(file);
            bytes -= length;
        }
    }

    pub(crate) fn all_rejected(&self) -> Vec<Rejected> {
        let rejected = |(path, _): (PathBuf, u64)| {
            if path.extension()? != REASON_ENDING {
                return None;
            }
            let reason = file::read_text(&path, file::SMALL_FILE_BYTES).unwrap_or_default();
            let id = path.file_stem()?.to_string_lossy().into_owned();
            Some(Rejected { id, reason: printable(reason.trim(), 500) })
        };
        let files = files(&self.rejected_directory()).into_iter();
        let mut all: Vec<Rejected> = files.filter_map(rejected).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Bytes of all that wait.
    fn bytes(&self) -> u64 {
        files(&self.directory).iter().map(|(_, bytes)| bytes).sum()
    }
}

fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((entry.path(), metadata.len()))
    };
    entries.filter_map(file).collect()
}

/// A result can wait for several collectors.
fn file_name(id: Uuid, collector: &str) -> String {
    let digest = Digest::compute(collector.as_bytes()).to_string();
    format!("{id}.{}.{ENDING}", &digest[..8])
}

/// The directory of this program's state: `$XDG_STATE_HOME/pathbench`, of root `/var/lib/pathbench`.
pub fn state_directory() -> Result<PathBuf, Failure> {
    Ok(xdg_directory("XDG_STATE_HOME", ".local/state", "/var/lib")?.join("pathbench"))
}

fn read_header(file: PathBuf, bytes: u64) -> Option<WaitingSubmission> {
    if file.extension()? != ENDING {
        return None;
    }
    let id: Uuid = file.file_stem()?.to_str()?.split('.').next()?.parse().ok()?;
    id_time_ms(id)?;
    let mut first = String::new();
    BufReader::new(file::open(&file).ok()?.take(HEADER_BYTES)).read_line(&mut first).ok()?;
    let Header { collector, queued_s, result, .. } = serde_json::from_str(&first).ok()?;
    Some(WaitingSubmission { id, collector, queued_s, result, bytes, file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_api::submission::new_id;

    fn outbox(home: &Path, most_bytes: u64) -> Outbox {
        Outbox::open(home, most_bytes, 1_700_000_000).unwrap()
    }

    #[test]
    fn what_is_kept_is_found_again_in_order_and_bounded() {
        let home = tempfile::tempdir().unwrap();
        let collector: CollectorAddress = "https://c.example".parse().unwrap();
        let box_one = outbox(home.path(), 1000);
        let ids: Vec<Uuid> = (1..4).map(|n| new_id(1_700_000_000_000 + n, &[n as u8; 10])).collect();
        for (id, at) in ids.iter().zip([30, 20, 10]) {
            box_one.keep(*id, &collector, Path::new("here"), b"{\"a\":1}", at).unwrap();
        }
        let full = box_one.keep(new_id(1, &[9; 10]), &collector, Path::new("here"), &[b'x'; 900], 40);
        assert!(full.unwrap_err().message.contains("full"));
        let found = outbox(home.path(), 1000).waiting();
        assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [ids[2], ids[1], ids[0]]);
        assert_eq!(box_one.line(&found[0]).unwrap().unwrap(), b"{\"a\":1}");
        box_one.remove(&found[0]).unwrap();
        box_one.remove(&found[0]).unwrap();
        assert!(box_one.line(&found[0]).unwrap().is_none());
        box_one.reject(&found[1], "too \u{1b}[31m old").unwrap();
        assert_eq!(box_one.waiting().len(), 1);
        let rejected = box_one.all_rejected();
        assert!(rejected.len() == 1 && rejected[0].reason.contains("old"), "{rejected:?}");
        assert!(!rejected[0].reason.contains('\u{1b}'));
    }

    #[test]
    fn rejected_files_are_bounded_and_take_no_place_of_those_that_wait() {
        let home = tempfile::tempdir().unwrap();
        let collector: CollectorAddress = "https://c.example".parse().unwrap();
        let outbox = outbox(home.path(), 4000);
        let ids: Vec<Uuid> = (1..=8).map(|n| new_id(1_700_000_000_000 + n, &[n as u8; 10])).collect();
        for id in &ids {
            outbox.keep(*id, &collector, Path::new("here"), &[b'x'; 300], 40).unwrap();
            outbox.reject(&outbox.waiting()[0], "too old").unwrap();
        }
        let rejected = outbox.all_rejected();
        assert!((1..4).contains(&rejected.len()), "{rejected:?}");
        assert_eq!(rejected.last().unwrap().id, ids[7].to_string(), "the latest stay");
        assert!(files(&outbox.rejected_directory()).iter().map(|(_, bytes)| bytes).sum::<u64>() <= 1000);
        outbox.keep(new_id(1, &[9; 10]), &collector, Path::new("here"), &[b'x'; 3900], 40).unwrap();
    }

    #[test]
    fn a_cut_file_is_rejected_and_not_sent() {
        let home = tempfile::tempdir().unwrap();
        let collector: CollectorAddress = "https://c.example".parse().unwrap();
        let outbox = outbox(home.path(), 1 << 20);
        outbox.keep(new_id(1, &[9; 10]), &collector, Path::new("here"), b"{\"a\":1}", 40).unwrap();
        let waiting = outbox.waiting().remove(0);
        let file = fs::File::options().write(true).open(&waiting.file).unwrap();
        file.set_len(waiting.bytes - 3).unwrap();
        assert!(outbox.line(&waiting).unwrap().is_none());
        assert_eq!(outbox.all_rejected().len(), 1);
    }
}
