//! Bytes in pages of their own, which the kernel sends without copying them.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create, sendfile};
use rustix::io::{pwrite, retry_on_intr};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a memory file (`memfd_create(2)`) that nobody can change: packets that wait for their acknowledgement refer to
/// its pages.
#[derive(Debug)]
pub struct SealedBytes {
    file: OwnedFd,
}

impl SealedBytes {
    /// Errors: the process has no file descriptor left, or may not create memory files.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        let file = memfd_create("pathbench", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut written = 0;
        while let rest @ [_, ..] = &bytes[written..] {
            written += retry_on_intr(|| pwrite(&file, rest, written as u64))?;
        }
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self { file })
    }

    /// Passes bytes of `range` to `socket`; the number of accepted ones.
    pub(crate) fn send(&self, socket: impl AsFd, range: &Range<usize>) -> rustix::io::Result<usize> {
        let mut offset = range.start as u64;
        sendfile(socket, &self.file, Some(&mut offset), range.len())
    }
}
