//! Files of JSON Lines, read line by line in bounded memory.

use super::error::ReadError;
use super::line::Line;
use super::reader::ResultDirectory;
use super::records::check_length;
use crate::file;
use memchr::{memchr, memchr_iter};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes that one call reads.
const CHUNK: u64 = 256 * 1024;

/// A longer line is broken.
const MAX_LINE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct Records<T> {
    /// In the order of the file.
    pub items: Vec<T>,
    /// A warning for the user: the file is missing, or its last line is truncated.
    pub warning: Option<String>,
}

impl ResultDirectory {
    /// All lines of one kind; none, and no warning, when no run of the result has such lines.
    pub fn lines<T: Line>(&self) -> Result<Records<T>, ReadError> {
        let mut items = Vec::new();
        let warning = for_each(self, |line| items.push(line))?;
        Ok(Records { items, warning })
    }
}

/// Calls `seen` with each line of the file of `T`; returns a warning about the file.
pub(super) fn for_each<T: Line>(
    directory: &ResultDirectory,
    seen: impl FnMut(T),
) -> Result<Option<String>, ReadError> {
    let file = match LineFile::open::<T>(directory)? {
        Opened::File(file) => file,
        Opened::Absent(warning) => return Ok(warning),
    };
    file.for_each(seen)
}

#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
}

pub(super) enum Opened {
    File(LineFile),
    /// With a warning if a run of the result needs the file.
    Absent(Option<String>),
}

impl LineFile {
    pub(super) fn open<T: Line>(directory: &ResultDirectory) -> Result<Opened, ReadError> {
        let path = directory.path.join(T::FILE);
        if let Some(file) = Self::open_if_present(path.clone())? {
            return Ok(Opened::File(file));
        }
        let is_missing = T::is_expected(&directory.document);
        Ok(Opened::Absent(is_missing.then(|| format!("{} is missing", path.display()))))
    }

    /// `None` without the file.
    pub(super) fn open_if_present(path: PathBuf) -> Result<Option<Self>, ReadError> {
        match file::open(&path) {
            Ok(file) => Ok(Some(Self { path, file })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    /// The file, if its lines may be in memory together.
    pub(super) fn bounded(self) -> Result<Self, ReadError> {
        check_length(&self.path, &self.file).map(|()| self)
    }

    /// Calls `seen` with each line; returns a warning if the last line is cut off.
    pub(super) fn for_each<T: DeserializeOwned>(
        &self,
        mut seen: impl FnMut(T),
    ) -> Result<Option<String>, ReadError> {
        let mut reader = self.lines(0..u64::MAX);
        while let Some(line) = reader.next()? {
            match line.parse() {
                Ok(item) => seen(item),
                Err(_) if line.is_cut_off() => return Ok(Some(self.cut_off(line.from))),
                Err(error) => return Err(self.broken(line.from, error.to_string())),
            }
        }
        Ok(None)
    }

    /// The lines of a range of bytes, which starts at the start of a line. An end of `u64::MAX` is that of the file.
    pub(super) fn lines(&self, range: Range<u64>) -> LineReader<'_> {
        LineReader { file: self, buffer: Vec::new(), start: 0, offset: range.start, end: range.end }
    }

    pub(super) fn broken(&self, from: u64, problem: String) -> ReadError {
        match self.number_of(from) {
            Ok(line) => ReadError::Broken { path: self.path.clone(), line, problem },
            Err(error) => error,
        }
    }

    pub(super) fn cut_off(&self, from: u64) -> String {
        let number = self.number_of(from).unwrap_or_default();
        format!("{}:{number}: the last line is cut off and was left out", self.path.display())
    }

    /// The number, from 1, of the line that starts at `from`.
    fn number_of(&self, from: u64) -> Result<usize, ReadError> {
        let mut buffer = Vec::new();
        let (mut at, mut number) = (0, 1);
        while at < from {
            buffer.clear();
            match self.read(&mut buffer, at, (from - at).min(CHUNK))? {
                0 => break,
                read => at += read as u64,
            }
            number += memchr_iter(b'\n', &buffer).count();
        }
        Ok(number)
    }

    /// Appends up to `count` bytes of the file.
    fn read(&self, buffer: &mut Vec<u8>, at: u64, count: u64) -> Result<usize, ReadError> {
        let before = buffer.len();
        buffer.resize(before + count as usize, 0);
        let read = loop {
            match self.file.read_at(&mut buffer[before..], at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let read = read.map_err(|source| ReadError::Io { path: self.path.clone(), source })?;
        buffer.truncate(before + read);
        Ok(read)
    }
}

/// Reads lines; memory is bounded by [`MAX_LINE_BYTES`].
pub(super) struct LineReader<'a> {
    file: &'a LineFile,
    buffer: Vec<u8>,
    /// The bytes of the buffer before it have been returned.
    start: usize,
    /// The offset in the file of the buffer's start.
    offset: u64,
    end: u64,
}

/// One line with its line end.
#[derive(Clone, Copy)]
pub(super) struct RawLine<'a> {
    pub(super) bytes: &'a [u8],
    /// Its first byte in the file.
    pub(super) from: u64,
}

impl RawLine<'_> {
    pub(super) fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.bytes)
    }

    /// Only the last line can lack its line end: the writer ended in the middle of it.
    pub(super) fn is_cut_off(&self) -> bool {
        self.bytes.last() != Some(&b'\n')
    }
}

impl LineReader<'_> {
    /// Continues with another range.
    pub(super) fn enter(&mut self, range: &Range<u64>) {
        self.buffer.clear();
        (self.start, self.offset, self.end) = (0, range.start, range.end);
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> Result<Option<RawLine<'_>>, ReadError> {
        loop {
            let length = self.length_of_next()?;
            if length == 0 {
                return Ok(None);
            }
            let (from, start) = (self.offset + self.start as u64, self.start);
            self.start += length;
            if !self.buffer[start..self.start].trim_ascii().is_empty() {
                return Ok(Some(RawLine { bytes: &self.buffer[start..self.start], from }));
            }
        }
    }

    fn length_of_next(&mut self) -> Result<usize, ReadError> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..];
            if let Some(end) = memchr(b'\n', &unread[searched..]) {
                return Ok(searched + end + 1);
            }
            searched = unread.len();
            if searched > MAX_LINE_BYTES {
                let from = self.offset + self.start as u64;
                return Err(self.file.broken(from, format!("a line of more than {MAX_LINE_BYTES} bytes")));
            }
            if !self.fill()? {
                return Ok(searched);
            }
        }
    }

    fn fill(&mut self) -> Result<bool, ReadError> {
        self.offset += self.start as u64;
        self.buffer.drain(..self.start);
        self.start = 0;
        let at = self.offset + self.buffer.len() as u64;
        let read = self.file.read(&mut self.buffer, at, self.end.saturating_sub(at).min(CHUNK))?;
        if read == 0 && at < self.end && self.end != u64::MAX {
            let source = io::ErrorKind::UnexpectedEof.into();
            return Err(ReadError::Io { path: self.file.path.clone(), source });
        }
        Ok(read > 0)
    }
}
