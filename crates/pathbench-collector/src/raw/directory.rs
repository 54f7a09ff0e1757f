//! The raw store in a directory: segments to which batches are appended.

use super::{IDENTITY, Randomness, RawError, RawMaintenance, RawSegment, RawStore, name_time_ms, new_name};
use crate::store::RawRange;
use pathbench_api::bounds::RAW_BYTES;
use pathbench_api::digest::Digest;
use pathbench_record::file;
use pathbench_record::time::SharedClock;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, IoSlice, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A segment with as many bytes receives no more appends.
pub const SEALED_BYTES: u64 = 64 << 20;

/// A segment of this age receives no more appends, so that maintenance knows which ones are complete.
pub const SEALED_AFTER: Duration = Duration::from_secs(3_600);

/// Buffers of one writev(2); Linux accepts 1,024.
const VECTORS: usize = 512;

const SUFFIX: &str = ".segment";

/// Torn tails after a crash are harmless: ranges come only from the database, which is written later.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    clock: SharedClock,
    random: Randomness,
    current: Mutex<Option<Current>>,
}

/// The segment that receives appends.
#[derive(Debug)]
struct Current {
    name: String,
    file: File,
    bytes: u64,
    made_ms: u64,
}

impl Directory {
    /// Opens the directory, or creates it.
    pub fn open(path: &Path, clock: SharedClock, random: Randomness) -> Result<Self, RawError> {
        let store = Self { path: path.to_owned(), clock, random, current: Mutex::new(None) };
        // Private results are in it.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| store.failure(&error))?;
        Ok(store)
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, error: &io::Error) -> RawError {
        let location = self.location();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => RawError::Full { location },
            _ => RawError::Failed { location, problem: error.to_string() },
        }
    }

    fn path_of(&self, segment: &str) -> Result<PathBuf, RawError> {
        // Names come from the database; none leaves the directory.
        if name_time_ms(segment).is_none() {
            return Err(self.missing(segment));
        }
        Ok(self.path.join(format!("{segment}{SUFFIX}")))
    }

    fn missing(&self, segment: &str) -> RawError {
        RawError::Missing { location: self.location(), segment: segment.to_owned() }
    }

    fn open_segment(&self, segment: &str, write: bool) -> Result<File, RawError> {
        let path = self.path_of(segment)?;
        let opened = if write { file::open_for_update(&path) } else { file::open(&path) };
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.missing(segment)),
            outcome => outcome.map_err(|error| self.failure(&error)),
        }
    }

    fn begin(&self, now_ms: u64) -> io::Result<Current> {
        let name = new_name(now_ms, (self.random)());
        let path = self.path.join(format!("{name}{SUFFIX}"));
        let file = file::create_new(&path, 0o600)?;
        sync_directory(&self.path)?;
        Ok(Current { name, file, bytes: 0, made_ms: now_ms })
    }

    /// The segment for the next append: the current one unless it is sealed.
    fn for_append<'a>(&self, current: &'a mut Option<Current>) -> io::Result<&'a mut Current> {
        let now_ms = self.clock.unix_ms();
        let sealed_after_ms = SEALED_AFTER.as_millis() as u64;
        let fits = |current: &Current| {
            // A clock that was set back seals as well.
            current.bytes < SEALED_BYTES
                && (current.made_ms..current.made_ms + sealed_after_ms).contains(&now_ms)
        };
        match current {
            Some(open) if fits(open) => {}
            _ => *current = Some(self.begin(now_ms)?),
        }
        current.as_mut().ok_or_else(|| io::Error::other("no segment"))
    }
}

impl RawStore for Directory {
    fn append(&self, parts: &[&[u8]]) -> Result<Vec<RawRange>, RawError> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let digests: Vec<Digest> = parts.iter().map(|part| Digest::compute(part)).collect();
        let mut current = self.current();
        let segment = self.for_append(&mut current).map_err(|error| self.failure(&error))?;
        let begin = segment.bytes;
        let written = write_all(&mut segment.file, parts).and_then(|()| segment.file.sync_data());
        if let Err(error) = written {
            let failure = self.failure(&error);
            // After a failed sync the kernel reports the pages as clean: this segment is not trusted with more.
            let usable = error.kind() == io::ErrorKind::StorageFull && segment.truncate_to(begin).is_ok();
            if !usable {
                *current = None;
            }
            return Err(failure);
        }
        let mut ranges = Vec::with_capacity(parts.len());
        for (part, digest) in parts.iter().zip(digests) {
            let bytes = part.len() as u64;
            ranges.push(RawRange { segment: segment.name.clone(), offset: segment.bytes, bytes, digest });
            segment.bytes += bytes;
        }
        Ok(ranges)
    }

    fn read(&self, range: &RawRange) -> Result<Vec<u8>, RawError> {
        let file = self.open_segment(&range.segment, false)?;
        let damaged = || RawError::Damaged {
            location: self.location(),
            segment: range.segment.clone(),
            offset: range.offset,
        };
        let held = file.metadata().map_err(|error| self.failure(&error))?.len();
        if range.offset.checked_add(range.bytes).is_none_or(|end| end > held) {
            return Err(damaged());
        }
        let mut part = vec![0; range.bytes as usize];
        file.read_exact_at(&mut part, range.offset).map_err(|error| self.failure(&error))?;
        if Digest::compute(&part) == range.digest { Ok(part) } else { Err(damaged()) }
    }

    fn erase(&self, ranges: &[RawRange]) -> Result<(), RawError> {
        let mut sorted: Vec<&RawRange> = ranges.iter().collect();
        sorted.sort_by_key(|range| (&range.segment, range.offset));
        for group in sorted.chunk_by(|a, b| a.segment == b.segment) {
            let file = match self.open_segment(&group[0].segment, true) {
                // Removed with all its results.
                Err(RawError::Missing { .. }) => continue,
                file => file?,
            };
            let held = file.metadata().map_err(|error| self.failure(&error))?.len();
            for range in group {
                let end = range.offset.saturating_add(range.bytes).min(held);
                let bytes = end.saturating_sub(range.offset);
                erase_range(&file, range.offset, bytes).map_err(|error| self.failure(&error))?;
            }
            file.sync_data().map_err(|error| self.failure(&error))?;
        }
        Ok(())
    }

    /// Whether the largest raw part can be stored.
    fn check(&self) -> Result<(), RawError> {
        let at = |error: io::Error| self.failure(&error);
        let mut probe = tempfile::tempfile_in(&self.path).map_err(at)?;
        match fallocate(&probe, FallocateFlags::empty(), 0, RAW_BYTES as u64) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => probe.write_all(&[0; 4_096]).map_err(at),
            outcome => outcome.map_err(|errno| at(errno.into())),
        }
    }
}

impl RawMaintenance for Directory {
    fn segments(&self) -> Result<Vec<RawSegment>, RawError> {
        let at = |error: io::Error| self.failure(&error);
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(at)? {
            let entry = entry.map_err(at)?;
            let file_name = entry.file_name();
            let name = file_name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            if let Some((name, made_ms)) = name.and_then(|name| Some((name, name_time_ms(name)?))) {
                let bytes = entry.metadata().map_err(at)?.len();
                segments.push(RawSegment { name: name.to_owned(), bytes, made_ms });
            }
        }
        segments.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(segments)
    }

    fn sealed_before_ms(&self) -> u64 {
        // Twice: collectors that share a directory have clocks of their own.
        let before_ms = self.clock.unix_ms().saturating_sub(2 * SEALED_AFTER.as_millis() as u64);
        self.current().as_ref().map_or(before_ms, |current| before_ms.min(current.made_ms))
    }

    fn remove(&self, segment: &str) -> Result<(), RawError> {
        match fs::remove_file(self.path_of(segment)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.failure(&error)),
            _ => {}
        }
        sync_directory(&self.path).map_err(|error| self.failure(&error))
    }

    fn copy(&self, segment: &str, to: &mut dyn Write) -> Result<(), RawError> {
        let mut file = BufReader::with_capacity(1 << 18, self.open_segment(segment, false)?);
        io::copy(&mut file, to).map(|_| ()).map_err(|error| self.failure(&error))
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn identity(&self) -> Result<Option<String>, RawError> {
        match file::read_text(self.path.join(IDENTITY), file::SMALL_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => text.map(|text| Some(text.trim().to_owned())).map_err(|error| self.failure(&error)),
        }
    }

    fn set_identity(&self, identity: &str) -> Result<(), RawError> {
        let at = |error: io::Error| self.failure(&error);
        let made = file::Replacement::with_mode(&self.path.join(IDENTITY), 0o600).map_err(at)?;
        writeln!(made.file(), "{identity}").map_err(at)?;
        match made.commit_new() {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(error)),
            _ => Ok(()),
        }
    }
}

impl Current {
    fn truncate_to(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes)).map(|_| ())
    }
}

/// `write_all_vectored` of the standard library is not stable.
fn write_all(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let parts: Vec<&[u8]> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    for parts in parts.chunks(VECTORS) {
        let mut buffers: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = buffers.as_mut_slice();
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Frees the blocks; the partial ones at both ends are overwritten with zeros by the kernel.
fn erase_range(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => overwrite(file, offset, bytes),
        outcome => outcome.map_err(io::Error::from),
    }
}

fn overwrite(mut file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    io::copy(&mut io::repeat(0).take(bytes), &mut file).map(|_| ())
}

/// A new or removed name is on disk only after a sync of its directory.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    file::OpenDirectory::open(path)?.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the file system frees no blocks.
    #[test]
    fn a_range_is_overwritten() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 40_000], 0).unwrap();
        overwrite(&file, 5, 35_000).unwrap();
        let mut bytes = vec![9; 40_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let expected = [vec![1; 5], vec![0; 35_000], vec![1; 4_995]].concat();
        assert!(bytes == expected);
    }
}
