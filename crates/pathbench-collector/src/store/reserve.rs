//! A reserve of free disk: a full disk takes no results, and still deletions, which need some space for a while.

use pathbench_record::file;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs;
use std::io;
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
        let file = file::create_anew(&self.file, 0o600)?;
        if let Err(error) = fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            self.release();
            return Err(error.into());
        }
        Ok(())
    }

    /// Frees the space; whether there was some.
    pub fn release(&self) -> bool {
        fs::remove_file(&self.file).is_ok()
    }
}
