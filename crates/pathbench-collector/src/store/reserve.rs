//! A reserve of free disk: a full disk takes no results, and still deletions, which need some space for a while.

use super::{Database, Deletion, StoreError};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that takes the space, and that is removed where a deletion needs it.
#[derive(Debug, Clone)]
pub struct Reserve {
    file: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// The name of its file in the collector's directory.
    pub const FILE: &str = "reserve";

    pub const fn new(file: PathBuf, bytes: u64) -> Self {
        Self { file, bytes }
    }

    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let found = statvfs(self.file.parent().unwrap_or(Path::new(".")))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Whether results may be stored: as much as the reserve is free beside it. An error of the file system is none of
    /// space.
    pub fn has_space(&self) -> bool {
        self.bytes == 0 || self.free_bytes().is_ok_and(|free| free >= self.bytes)
    }

    /// Makes the reserve where there is space for it and none yet.
    pub fn fill(&self) -> io::Result<()> {
        if self.bytes == 0 || fs::metadata(&self.file).is_ok_and(|file| file.len() >= self.bytes) {
            return Ok(());
        }
        if self.free_bytes()? < 2 * self.bytes {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.file)?;
        if let Err(error) = fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            self.release();
            return Err(error.into());
        }
        Ok(())
    }

    /// Deletes results; on a full disk with the space of the reserve.
    pub fn delete(
        reserve: Option<&Self>,
        database: &dyn Database,
        which: &Deletion,
        now_ms: u64,
    ) -> Result<u64, StoreError> {
        match database.delete(which, now_ms) {
            Err(StoreError::Full { .. }) if reserve.is_some_and(Self::release) => {
                database.delete(which, now_ms)
            }
            outcome => outcome,
        }
    }

    /// Frees the space; whether there was some.
    pub fn release(&self) -> bool {
        fs::remove_file(&self.file).is_ok()
    }
}
