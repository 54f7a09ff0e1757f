//! Whole captures: several files, or several interfaces, merged by time, into one result.

mod live;

pub use crate::analyzer::AnalysisParameters;
pub use live::LiveAnalysis;

use crate::analyzer::{Analyzer, Counts, Sequence, TracedSegment};
use crate::capture::{Batch, CaptureReader, Frame, InterfaceDescription, OpenError, link_type_name};
use crate::quic::Quic;
use pathbench_record::trace::{CaptureInterface, CaptureRecord, TraceDocument, UndecodedPackets};
use std::io::Read;

/// Most packets of a batch.
const BATCH_FRAMES: usize = 64;

/// The bytes of a capture.
pub type CaptureBytes<'a> = Box<dyn Read + 'a>;

/// A capture to read.
pub struct CaptureSource<R = Box<dyn Read>> {
    /// As the result and messages name it.
    pub name: String,
    pub reader: CaptureReader<R>,
}

/// Packets of a capture that wait for those of others: copies, because a reader's buffer is its own.
#[derive(Default)]
struct Waiting {
    frames: Vec<Stored>,
    bytes: Vec<u8>,
    next: usize,
    ended: bool,
}

struct Stored {
    frame: Frame<'static>,
    start: usize,
    comment: Option<(usize, usize)>,
    end: usize,
}

impl Waiting {
    fn store(&mut self, batch: &Batch<'_>) {
        self.clear();
        for frame in batch {
            self.push(&frame);
        }
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.bytes.clear();
        self.next = 0;
    }

    fn push(&mut self, frame: &Frame<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame.bytes);
        let end = self.bytes.len();
        let comment = frame.comment.map(|comment| {
            self.bytes.extend_from_slice(comment);
            (end, self.bytes.len())
        });
        let frame = Frame { bytes: &[], comment: None, ..*frame };
        self.frames.push(Stored { frame, start, comment, end });
    }

    fn time_ns(&self) -> Option<u64> {
        self.frames.get(self.next).map(|stored| stored.frame.time_ns)
    }

    /// The packets of one batch from the next on whose time is at most `until_ns`, and at least one.
    fn take(&mut self, until_ns: u64) -> impl Iterator<Item = Frame<'_>> {
        let from = self.next;
        let following = self.frames.iter().skip(from + 1).take(BATCH_FRAMES - 1);
        let more = following.take_while(|stored| stored.frame.time_ns <= until_ns).count();
        self.next = (from + 1 + more).min(self.frames.len());
        let bytes = &self.bytes;
        self.frames.get(from..self.next).unwrap_or_default().iter().map(move |stored| Frame {
            bytes: bytes.get(stored.start..stored.end).unwrap_or_default(),
            comment: stored.comment.and_then(|(start, end)| bytes.get(start..end)),
            ..stored.frame
        })
    }
}

/// The result of an analysis, and what a second pass over the captures needs.
#[derive(Debug)]
pub struct Analysis<S> {
    pub document: TraceDocument,
    pub sequence: S,
    /// Time of the first packet of all captures: second 0 of the document.
    pub origin_ns: u64,
    /// Of each capture.
    pub interfaces: Vec<Vec<InterfaceDescription>>,
}

/// Reads all captures to their ends. Damage is in the result: it ends one capture and no other.
///
/// The code that sees each packet is not generic, so that it is compiled here: in the crate of a caller it would have the
/// caller's optimisation, and that of the program has none.
pub fn analyse<S: Sequence>(
    sources: Vec<CaptureSource<CaptureBytes<'_>>>,
    parameters: &AnalysisParameters,
    quic: Quic,
    mut sequence: S,
) -> Analysis<S> {
    let Analysis { document, origin_ns, interfaces, .. } = if S::ACTIVE {
        let mut segment = |frame: &Frame<'_>, segment: &TracedSegment| sequence.segment(frame, segment);
        analyse_segments(sources, parameters, quic, &mut segment)
    } else {
        analyse_connections(sources, parameters, quic)
    };
    Analysis { document, sequence, origin_ns, interfaces }
}

/// Receives each segment.
struct Receiver<'a>(&'a mut dyn FnMut(&Frame<'_>, &TracedSegment));

impl Sequence for Receiver<'_> {
    const ACTIVE: bool = true;

    fn segment(&mut self, frame: &Frame<'_>, segment: &TracedSegment) {
        (self.0)(frame, segment);
    }
}

#[inline(never)]
fn analyse_connections(
    sources: Vec<CaptureSource<CaptureBytes<'_>>>,
    parameters: &AnalysisParameters,
    quic: Quic,
) -> Analysis<()> {
    read_all(sources, parameters, quic, ())
}

#[inline(never)]
fn analyse_segments(
    sources: Vec<CaptureSource<CaptureBytes<'_>>>,
    parameters: &AnalysisParameters,
    quic: Quic,
    segment: &mut dyn FnMut(&Frame<'_>, &TracedSegment),
) -> Analysis<()> {
    read_all(sources, parameters, quic, Receiver(segment))
}

fn read_all<S: Sequence>(
    sources: Vec<CaptureSource<CaptureBytes<'_>>>,
    parameters: &AnalysisParameters,
    quic: Quic,
    sequence: S,
) -> Analysis<()> {
    let mut analyzer = Analyzer::new(parameters, sources.len(), quic, sequence);
    let mut sources = sources;
    let mut damage: Vec<Option<String>> = vec![None; sources.len()];
    if let [source] = sources.as_mut_slice() {
        damage[0] = whole(source, &mut analyzer);
    } else {
        merge(&mut sources, &mut analyzer, &mut damage);
    }
    let (mut document, counts, _) = analyzer.finish();
    let origin_ns = counts.iter().filter_map(|counts| counts.first_ns).min().unwrap_or(0);
    let interfaces = sources.iter().map(|source| source.reader.interfaces().to_vec()).collect();
    document.captures = sources
        .into_iter()
        .zip(counts)
        .zip(damage)
        .map(|((source, counts), damage)| record(source.name, &source.reader, &counts, damage))
        .collect();
    Analysis { document, sequence: (), origin_ns, interfaces }
}

fn whole<S: Sequence>(
    source: &mut CaptureSource<CaptureBytes<'_>>,
    analyzer: &mut Analyzer<S>,
) -> Option<String> {
    loop {
        match source.reader.batch() {
            Ok(Some(batch)) => {
                analyzer.add_secrets(batch.secrets());
                analyzer.batch(0, batch.interfaces(), batch.iter());
            }
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

fn merge<S: Sequence>(
    sources: &mut [CaptureSource<CaptureBytes<'_>>],
    analyzer: &mut Analyzer<S>,
    damage: &mut [Option<String>],
) {
    let mut waiting: Vec<Waiting> = sources.iter().map(|_| Waiting::default()).collect();
    loop {
        let each = sources.iter_mut().zip(&mut waiting).zip(damage.iter_mut()).enumerate();
        for (index, ((source, waiting), damage)) in each {
            while waiting.time_ns().is_none() && !waiting.ended {
                match source.reader.batch() {
                    Ok(Some(batch)) => {
                        analyzer.add_secrets(batch.secrets());
                        waiting.store(&batch);
                    }
                    Ok(None) => waiting.ended = true,
                    Err(error) => {
                        *damage = Some(error.to_string());
                        waiting.ended = true;
                    }
                }
                if waiting.ended {
                    analyzer.capture_ended(index as u32);
                }
            }
        }
        let Some((first, until_ns)) = earliest(&waiting) else { return };
        let source = &sources[first];
        analyzer.batch(first as u32, source.reader.interfaces(), waiting[first].take(until_ns));
    }
}

/// The index of the next packet by time, and the time up to which packets of its capture come before those of the
/// others. Of packets at the same time, those of the earlier capture come first.
fn earliest(waiting: &[Waiting]) -> Option<(usize, u64)> {
    let times = || waiting.iter().enumerate().filter_map(|(index, one)| Some((one.time_ns()?, index)));
    let (_, first) = times().min()?;
    let until = |(time_ns, index): (u64, usize)| time_ns.saturating_sub(u64::from(index < first));
    let others = times().filter(|(_, index)| *index != first).map(until);
    Some((first, others.min().unwrap_or(u64::MAX)))
}

fn record(
    name: String,
    reader: &CaptureReader<CaptureBytes<'_>>,
    counts: &Counts,
    damage: Option<String>,
) -> CaptureRecord {
    CaptureRecord {
        format: reader.format().name().to_owned(),
        compression: reader.compression().map(|compression| compression.name().to_owned()),
        damage,
        ..capture_record(name, reader.interfaces(), counts)
    }
}

fn capture_record(name: String, interfaces: &[InterfaceDescription], counts: &Counts) -> CaptureRecord {
    let packets = |index: usize| counts.by_interface.get(index).copied().unwrap_or(0);
    let interface = |(index, interface): (usize, &InterfaceDescription)| CaptureInterface {
        name: interface.name.clone(),
        link_type: link_type_name(interface.link_type).into_owned(),
        packets: packets(index),
    };
    CaptureRecord {
        file: name,
        interfaces: interfaces.iter().enumerate().map(interface).collect(),
        packets: counts.packets,
        captured_bytes: counts.captured_bytes,
        wire_bytes: counts.wire_bytes,
        truncated_packets: counts.truncated_packets,
        other_packets: counts.other_packets,
        undecoded: counts
            .undecoded()
            .into_iter()
            .map(|(reason, packets)| UndecodedPackets { reason: reason.into_owned(), packets })
            .collect(),
        ..CaptureRecord::default()
    }
}

/// Opens a capture: its format is known after its first bytes.
pub fn open<'a>(name: String, source: impl Read + 'a) -> Result<CaptureSource<CaptureBytes<'a>>, OpenError> {
    open_bytes(name, Box::new(source))
}

#[inline(never)]
fn open_bytes(name: String, source: CaptureBytes<'_>) -> Result<CaptureSource<CaptureBytes<'_>>, OpenError> {
    Ok(CaptureSource { name, reader: CaptureReader::open(source)? })
}
