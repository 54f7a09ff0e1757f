//! Where the lines of each run are: a result is larger than memory, one run is not.

use super::error::ReadError;
use super::line::{LineOwner, RunLine};
use super::lines::{LineFile, Opened, RawLine, Records, for_each};
use super::reader::ResultDirectory;
use crate::datagram::DatagramLine;
use crate::delivery::DeliveryLine;
use crate::document::{LinkSample, ProbeLine};
use crate::end::MessageLine;
use crate::event::Event;
use crate::sample::Sample;
use memchr::memchr;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Blocks that the index of one file holds (8 MiB), unless that is less than two per run.
const MAX_BLOCKS: usize = 1 << 19;

/// The lines of one run, in the order of the files. (Lines of `probes.jsonl` belong to no run.)
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunLines {
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
    pub deliveries: Vec<DeliveryLine>,
    /// The last line of each message.
    pub messages: Vec<MessageLine>,
    pub datagrams: Vec<DatagramLine>,
    pub links: Vec<LinkSample>,
}

/// The positions in the files of the lines of each run of a result. The index holds its files open, so that it stays valid when a command
/// that measures replaces them.
#[derive(Debug)]
pub struct LineIndex {
    /// For the user: a file is missing, its last line is cut off, or the result is unfinished.
    pub warnings: Vec<String>,
    runs: HashMap<String, usize>,
    samples: Option<IndexedFile>,
    events: Option<IndexedFile>,
    deliveries: Option<IndexedFile>,
    messages: Option<IndexedFile>,
    datagrams: Option<IndexedFile>,
    links: Option<IndexedFile>,
    is_unfinished: bool,
}

impl ResultDirectory {
    /// Locates the lines of each run of the document, in one pass over each file of lines in bounded memory.
    ///
    /// A line that is no object with a `run` is an error here; any other broken line is one when its run is read.
    ///
    /// ```rust
    /// use pathbench_record::delivery::DeliveryLine;
    /// use pathbench_record::direction::Direction;
    /// use pathbench_record::directory::{ResultDirectory, ResultWriter};
    /// use pathbench_record::document::{ResultDocument, RunRecord};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let mut writer = ResultWriter::create(dir.path())?;
    /// let runs = ["01-tcp-r1", "02-mptcp-r1"].map(|id| RunRecord { id: id.to_owned(), ..RunRecord::default() });
    /// for (run, bytes) in runs.iter().zip([1_000, 2_000]) {
    ///     let (run, direction) = (run.id.clone(), Direction::Download);
    ///     writer.append(&[DeliveryLine { run, direction, t_ms: 0.0, bytes }])?;
    /// }
    /// writer.finish(&ResultDocument { runs: runs.to_vec(), ..ResultDocument::default() })?;
    ///
    /// let index = ResultDirectory::open(dir.path())?.index()?;
    /// let lines = index.read("02-mptcp-r1")?;
    /// assert_eq!(lines.deliveries.len(), 1);
    /// assert_eq!(lines.deliveries[0].bytes, 2_000);
    /// assert!(lines.samples.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn index(&self) -> Result<LineIndex, ReadError> {
        let ids = self.document.runs.iter().enumerate();
        let runs = ids.map(|(position, run)| (run.id.clone(), position)).collect();
        let mut warnings: Vec<String> = self.warning.clone().into_iter().collect();
        let (samples, events) = (
            IndexedFile::scan::<Sample>(self, &runs, &mut warnings)?,
            IndexedFile::scan::<Event>(self, &runs, &mut warnings)?,
        );
        let (deliveries, messages, datagrams, links) = (
            IndexedFile::scan::<DeliveryLine>(self, &runs, &mut warnings)?,
            IndexedFile::scan::<MessageLine>(self, &runs, &mut warnings)?,
            IndexedFile::scan::<DatagramLine>(self, &runs, &mut warnings)?,
            IndexedFile::scan::<LinkSample>(self, &runs, &mut warnings)?,
        );
        warnings.extend(for_each::<ProbeLine>(self, drop)?);
        let is_unfinished = self.warning.is_some();
        Ok(LineIndex {
            warnings,
            runs,
            samples,
            events,
            deliveries,
            messages,
            datagrams,
            links,
            is_unfinished,
        })
    }

    /// All lines of `messages.jsonl`. An unfinished result may have several lines of one message: only the last one
    /// counts.
    pub fn messages(&self) -> Result<Records<MessageLine>, ReadError> {
        let mut lines: Records<MessageLine> = self.lines()?;
        if self.warning.is_some() {
            lines.items = last_lines(lines.items);
        }
        Ok(lines)
    }
}

impl LineIndex {
    /// Reads the lines of the run with this id; none if the document has no such run.
    pub fn read(&self, run: &str) -> Result<RunLines, ReadError> {
        let Some(&position) = self.runs.get(run) else { return Ok(RunLines::default()) };
        let messages = lines(self.messages.as_ref(), position, run)?;
        Ok(RunLines {
            samples: lines(self.samples.as_ref(), position, run)?,
            events: lines(self.events.as_ref(), position, run)?,
            deliveries: lines(self.deliveries.as_ref(), position, run)?,
            messages: if self.is_unfinished { last_lines(messages) } else { messages },
            datagrams: lines(self.datagrams.as_ref(), position, run)?,
            links: lines(self.links.as_ref(), position, run)?,
        })
    }

    /// The bytes of the run's lines, roughly.
    pub fn bytes(&self, run: &str) -> u64 {
        let messages = [&self.messages, &self.datagrams];
        let files = [&self.samples, &self.events, &self.deliveries, &self.links].into_iter().chain(messages);
        let blocks = |&position: &usize| {
            let files = files.clone().flatten();
            files.flat_map(|file| &file.blocks[position]).map(|block| block.end - block.start).sum()
        };
        self.runs.get(run).map_or(0, blocks)
    }
}

fn lines<T: RunLine>(file: Option<&IndexedFile>, position: usize, run: &str) -> Result<Vec<T>, ReadError> {
    file.map_or_else(|| Ok(Vec::new()), |file| file.read(position, run))
}

#[derive(Debug)]
struct IndexedFile {
    file: LineFile,
    /// By the run's position in the document: ranges of bytes that contain all its lines, and few of others.
    blocks: Vec<Vec<Range<u64>>>,
}

impl IndexedFile {
    fn scan<T: RunLine>(
        directory: &ResultDirectory,
        runs: &HashMap<String, usize>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, ReadError> {
        let file = match LineFile::open::<T>(directory)? {
            Opened::File(file) => file,
            Opened::Absent(warning) => {
                warnings.extend(warning);
                return Ok(None);
            }
        };
        let count = directory.document.runs.len();
        let (mut blocks, most) = (vec![Vec::new(); count], (MAX_BLOCKS / count.max(1)).max(2));
        // The start of the previous line up to its run, which most lines share, and the run's position.
        let (mut start, mut position) = (Vec::new(), None);
        let mut reader = file.lines(0..u64::MAX);
        while let Some(line) = reader.next()? {
            if line.is_cut_off() && line.parse::<T>().is_err() {
                warnings.push(file.cut_off(line.from));
                break;
            }
            if start.is_empty() || !line.bytes.starts_with(&start) || !is_closed(&line) {
                let run = run_of(&line).map_err(|error| file.broken(line.from, error.to_string()))?;
                position = runs.get(&*run).copied();
                start.clear();
                if let Some(length) = written_run(&line).map(|run| PREFIX.len() + run.len() + 1) {
                    start.extend_from_slice(&line.bytes[..length]);
                }
            }
            if let Some(position) = position {
                add(&mut blocks[position], line.from..line.end(), most);
            }
        }
        Ok(Some(Self { file, blocks }))
    }

    fn read<T: RunLine>(&self, position: usize, run: &str) -> Result<Vec<T>, ReadError> {
        let mut found = Vec::new();
        let mut reader = self.file.lines(0..0);
        for block in &self.blocks[position] {
            reader.enter(block);
            while let Some(line) = reader.next()? {
                if written_run(&line).is_some_and(|other| other != run) {
                    continue;
                }
                let parsed = T::written(line.bytes).map_or_else(|| line.parse(), Ok);
                let item = parsed.map_err(|error| self.file.broken(line.from, error.to_string()))?;
                if item.run() == run {
                    found.push(item);
                }
            }
        }
        Ok(found)
    }
}

/// Adds a line's bytes to the blocks of its run. At `most` blocks neighbours are joined, with what lies between them.
fn add(blocks: &mut Vec<Range<u64>>, line: Range<u64>, most: usize) {
    match blocks.last_mut() {
        Some(last) if last.end == line.start => last.end = line.end,
        _ => {
            if blocks.len() >= most {
                *blocks = blocks.chunks(2).map(|pair| pair[0].start..pair[pair.len() - 1].end).collect();
            }
            blocks.push(line);
        }
    }
}

/// The start of a line as Pathbench writes it.
const PREFIX: &[u8] = br#"{"run":""#;

/// The run of a line as Pathbench writes it, if it is printable ASCII without escapes.
fn written_run<'a>(line: &RawLine<'a>) -> Option<&'a str> {
    let rest = line.bytes.strip_prefix(PREFIX)?;
    let run = &rest[..memchr(b'"', rest)?];
    let is_plain = run.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'\\');
    std::str::from_utf8(run).ok().filter(|_| is_plain && is_closed(line))
}

/// Whether the line ends as an object does.
fn is_closed(line: &RawLine) -> bool {
    line.bytes.trim_ascii_end().ends_with(b"}")
}

fn run_of<'a>(line: &RawLine<'a>) -> Result<Cow<'a, str>, serde_json::Error> {
    match written_run(line) {
        Some(run) => Ok(run.into()),
        None => serde_json::from_slice::<LineOwner>(line.bytes).map(|line| line.run),
    }
}

/// The last line of each message, by due time.
fn last_lines(lines: Vec<MessageLine>) -> Vec<MessageLine> {
    let mut last = BTreeMap::new();
    for line in lines {
        last.insert((line.run.clone(), line.direction, line.sequence), line);
    }
    let mut lines: Vec<MessageLine> = last.into_values().collect();
    lines.sort_by(|a, b| a.run.cmp(&b.run).then(a.due_ms.total_cmp(&b.due_ms)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_alternating_runs_are_joined_at_the_limit() {
        let mut blocks = Vec::new();
        for line in 0..1000 {
            add(&mut blocks, line * 20..line * 20 + 10, 8);
            assert!(blocks.len() <= 8);
        }
        let contains = |at| blocks.iter().any(|block| block.contains(&at));
        assert!((0..1000).all(|line| contains(line * 20) && contains(line * 20 + 9)));
        assert!(blocks.windows(2).all(|pair| pair[0].end < pair[1].start));
        add(&mut blocks, 19_990..20_000, 8);
        assert_eq!(blocks.last().map(|block| block.end), Some(20_000));
    }
}
