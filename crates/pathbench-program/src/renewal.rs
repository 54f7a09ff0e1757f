//! Files that another program renews, such as a certificate and its key.

use pathbench_record::time::Timestamp;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The state of a file: device, inode, size and time of the last change; `None` if it cannot be read. Links are followed.
type Version = Option<(u64, u64, u64, i64, i64)>;

/// Files that are used until they have changed.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<PathBuf>,
    used: Vec<Version>,
    seen: Vec<Version>,
    next_check: Timestamp,
}

impl FileWatch {
    /// Watches files, before they are read for the first time.
    pub fn new(files: Vec<PathBuf>) -> Self {
        let used: Vec<Version> = files.iter().map(version).collect();
        Self { seen: used.clone(), files, used, next_check: Timestamp::default() }
    }

    /// Whether the files are to be read again: on request, or because they have changed since they were last used, and not
    /// since the last check, 2 s ago: the files of a pair are written one after the other.
    pub fn is_due(&mut self, is_requested: bool, now: Timestamp) -> bool {
        let mut is_renewed = is_requested;
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            let versions: Vec<Version> = self.files.iter().map(version).collect();
            let is_settled = versions == self.seen;
            self.seen = versions;
            is_renewed |= is_settled && self.seen != self.used;
        }
        if is_renewed {
            self.used.clone_from(&self.seen);
        }
        is_renewed
    }
}

fn version(file: &PathBuf) -> Version {
    let metadata = fs::metadata(file).ok()?;
    let at = (metadata.ctime(), metadata.ctime_nsec());
    Some((metadata.dev(), metadata.ino(), metadata.size(), at.0, at.1))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests open files by themselves")]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        fs::write(&certificate, "1").unwrap();
        fs::write(&key, "1").unwrap();
        let mut watch = FileWatch::new(vec![certificate.clone(), key.clone()]);
        let mut now = Timestamp::default();
        let mut is_renewed = |watch: &mut FileWatch| {
            now = now + CHECK_INTERVAL;
            let is_due = watch.is_due(false, now);
            assert!(!watch.is_due(false, now + CHECK_INTERVAL / 2), "between two checks");
            is_due
        };
        assert!(!is_renewed(&mut watch));
        fs::write(&certificate, "22").unwrap();
        assert!(!is_renewed(&mut watch), "the key may follow");
        fs::rename(&certificate, &key).unwrap();
        assert!(!is_renewed(&mut watch), "it followed");
        assert!(is_renewed(&mut watch));
        assert!(!is_renewed(&mut watch), "once");
        std::os::unix::fs::symlink(&key, &certificate).unwrap();
        assert!(!is_renewed(&mut watch));
        assert!(is_renewed(&mut watch), "a link to a new file");
        assert!(watch.is_due(true, Timestamp::default()), "a request needs no change");
    }
}
