//! The capture of a link: all packets in order of arrival, each with its fate.

use super::packet::{Piece, Pool};
use super::report::PlaneError;
use crate::segmentation::Run;
use pathbench_link::packet::{Delivery, Fate};
use pathbench_record::direction::LinkDirection;
use pathbench_record::file;
use pathbench_record::time::Timestamp;
use pathbench_trace::capture::{Frame, InterfaceDescription, writer};
use pathbench_trace::packet::link::RAW;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of packets that wait for their fate or for the fate of an older packet; beyond that, the oldest
/// packet is written without its fate.
const WAITING_PACKETS: usize = 65_536;
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum number of blocks to write; beyond that, the data plane waits for the disk, which increases its lateness.
const WAITING_BLOCKS: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) enum Note {
    Left { at: Timestamp, delivery: Delivery, refused: bool },
    Dropped(Fate),
}

#[derive(Debug)]
struct Entry {
    at: Timestamp,
    piece: Piece,
    note: Option<Note>,
}

#[derive(Debug, Default)]
struct Waiting {
    first: u64,
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
pub(super) struct Recorder {
    waiting: [Waiting; 2],
    wall_offset_ns: i64,
    file: CaptureFile,
    wire: Vec<u8>,
    comment: String,
}

impl Recorder {
    pub(super) fn create(link: &str, path: &Path, wall_offset_ns: i64) -> Result<Self, PlaneError> {
        let failed = |source| PlaneError::Capture { link: link.to_owned(), path: path.to_owned(), source };
        let mut file = CaptureFile::create(path).map_err(failed)?;
        let interfaces = LinkDirection::BOTH.map(|direction| InterfaceDescription {
            link_type: RAW,
            name: Some(format!("{link} {}", direction.name())),
            ..InterfaceDescription::default()
        });
        writer::begin(&interfaces, &mut file.block);
        Ok(Self {
            waiting: Default::default(),
            wall_offset_ns,
            file,
            wire: Vec::new(),
            comment: String::new(),
        })
    }

    pub(super) fn enter(&mut self, direction: LinkDirection, at: Timestamp, piece: Piece) {
        self.waiting[direction.index()].entries.push_back(Entry { at, piece, note: None });
    }

    pub(super) fn note(&mut self, direction: LinkDirection, number: u64, note: Note, pool: &mut Pool) {
        let waiting = &mut self.waiting[direction.index()];
        let index = number.checked_sub(waiting.first).map(|index| index as usize);
        if let Some(entry) = index.and_then(|index| waiting.entries.get_mut(index)) {
            entry.note = Some(note);
        }
        self.write_settled(pool);
    }

    pub(super) fn restart(&mut self, pool: &mut Pool) {
        while let Some(direction) = self.oldest() {
            self.write_oldest(direction, pool);
        }
        self.waiting = Default::default();
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.file.error.as_deref()
    }

    fn write_settled(&mut self, pool: &mut Pool) {
        while let Some(direction) = self.oldest() {
            let entries = &self.waiting[direction.index()].entries;
            let settled = entries.front().is_some_and(|entry| entry.note.is_some());
            if !settled
                && self.waiting.iter().map(|waiting| waiting.entries.len()).sum::<usize>() <= WAITING_PACKETS
            {
                return;
            }
            self.write_oldest(direction, pool);
        }
    }

    fn oldest(&self) -> Option<LinkDirection> {
        let front = |direction: LinkDirection| {
            self.waiting[direction.index()]
                .entries
                .front()
                .map(|entry| (entry.at, direction.index(), direction))
        };
        LinkDirection::BOTH
            .into_iter()
            .filter_map(front)
            .min_by_key(|(at, index, _)| (*at, *index))
            .map(|(_, _, direction)| direction)
    }

    fn write_oldest(&mut self, direction: LinkDirection, pool: &mut Pool) {
        let waiting = &mut self.waiting[direction.index()];
        let Some(Entry { at, piece, note }) = waiting.entries.pop_front() else { return };
        waiting.first += 1;
        let at_ns = i128::from(at.as_nanos()) + i128::from(self.wall_offset_ns);
        let at_ns = u64::try_from(at_ns).unwrap_or_default();
        describe(at, note, &mut self.comment);
        let Run { first, count } = piece.run;
        for segment in first..first.saturating_add(count) {
            let gso = piece.gso();
            if gso.and_then(|h| h.wire_packet(piece.packet.ip(), segment, false, &mut self.wire)).is_some() {
                let frame = Frame {
                    interface: direction.index() as u32,
                    time_ns: at_ns,
                    original_length: self.wire.len() as u32,
                    bytes: &self.wire,
                    comment: Some(self.comment.as_bytes()),
                };
                writer::packet(&frame, &mut self.file.block);
            }
        }
        pool.put(piece.packet);
        self.file.pass_on(BLOCK_BYTES);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.restart(&mut Pool::new());
    }
}

fn describe(at: Timestamp, note: Option<Note>, text: &mut String) {
    text.clear();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    // Writing to a `String` cannot fail.
    let _ = match note {
        None => write!(text, "still in the link when the capture ended"),
        Some(Note::Dropped(Fate::Dropped { cause, at: dropped })) => {
            write!(text, "dropped: {}, after {:.3} ms", cause.name(), ms(dropped.duration_since(at)))
        }
        Some(Note::Dropped(Fate::Delivered(_))) => write!(text, "delivered"),
        Some(Note::Left { at: left, delivery, refused }) => {
            let verb = if refused { "not taken by the far end" } else { "delivered" };
            let (after, due) = (ms(left.duration_since(at)), ms(delivery.due.duration_since(at)));
            let mark = if delivery.mark { ", marked CE" } else { "" };
            let corrupt = if delivery.corrupt.is_some() { ", one bit flipped" } else { "" };
            let twice = if delivery.twice { ", twice" } else { "" };
            write!(text, "{verb} after {after:.3} ms (due {due:.3}){mark}{corrupt}{twice}")
        }
    };
}

/// A file written by a separate thread, so that the disk does not delay packets.
#[derive(Debug)]
struct CaptureFile {
    block: Vec<u8>,
    blocks: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    error: Option<String>,
}

impl CaptureFile {
    fn create(path: &Path) -> std::io::Result<Self> {
        let file = file::create_anew(path, 0o666)?;
        let (blocks, inbox) = sync_channel(WAITING_BLOCKS);
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || write_blocks(file, &inbox))?;
        Ok(Self { block: Vec::new(), blocks: Some(blocks), thread: Some(thread), error: None })
    }

    fn pass_on(&mut self, least_bytes: usize) {
        if self.block.len() < least_bytes.max(1) {
            return;
        }
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(least_bytes + (64 << 10)));
        // The thread ends early only if it cannot write.
        if self.blocks.as_ref().is_some_and(|blocks| blocks.send(block).is_err()) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.blocks = None;
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            self.error = Some(format!("the capture's file could not be written: {error}"));
        }
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        self.pass_on(0);
        self.end();
    }
}

fn write_blocks(mut file: File, inbox: &Receiver<Vec<u8>>) -> std::io::Result<()> {
    for block in inbox {
        file.write_all(&block)?;
    }
    file.flush()
}
