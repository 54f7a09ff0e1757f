//! Files that another program renews, such as a certificate and its key.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// Interval between two checks of a [`FileWatch`].
pub const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The state of a file: device, inode, size and time of the last change; `None` if it cannot be read. Links are followed.
type Version = Option<(u64, u64, u64, i64, i64)>;

/// Files that are used until they have changed.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<PathBuf>,
    used: Vec<Version>,
    seen: Vec<Version>,
}

impl FileWatch {
    /// Watches files, before they are read for the first time.
    pub fn new(files: Vec<PathBuf>) -> Self {
        let used: Vec<Version> = files.iter().map(version).collect();
        Self { seen: used.clone(), files, used }
    }

    /// Whether the files have changed since they were last used, and not since the last check: the files of a pair are
    /// written one after the other.
    pub fn is_renewed(&mut self) -> bool {
        let now: Vec<Version> = self.files.iter().map(version).collect();
        let is_settled = now == self.seen;
        self.seen = now;
        let is_renewed = is_settled && self.seen != self.used;
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
        assert!(!watch.is_renewed());
        fs::write(&certificate, "22").unwrap();
        assert!(!watch.is_renewed(), "the key may follow");
        fs::rename(&certificate, &key).unwrap();
        assert!(!watch.is_renewed(), "it followed");
        assert!(watch.is_renewed());
        assert!(!watch.is_renewed(), "once");
        std::os::unix::fs::symlink(&key, &certificate).unwrap();
        assert!(!watch.is_renewed());
        assert!(watch.is_renewed(), "a link to a new file");
    }
}
