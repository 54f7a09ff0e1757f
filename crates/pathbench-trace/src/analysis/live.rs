//! Packets that arrive during the analysis, one capture per interface.

use super::{BATCH_FRAMES, Waiting, capture_record, earliest};
use crate::analyzer::{AnalysisParameters, Analyzer};
use crate::capture::{Frame, InterfaceDescription};
use crate::quic::Quic;
use pathbench_record::trace::{CaptureRecord, TraceDocument};

/// With several interfaces, packets wait until those of the others with the same time must have come: the kernel passes
/// packets on after 50 ms, and the caller reads one interface after the other.
const WAIT_NS: u64 = 200_000_000;
/// Bytes of the packets of one interface that may wait. If there are more, they are analysed in order of arrival.
const WAITING_BYTES: usize = 64 << 20;

/// The analysis of live captures.
pub struct LiveAnalysis {
    captures: Vec<Capture>,
    waiting: Vec<Waiting>,
    newest_ns: u64,
    pushed: usize,
    analyzer: Analyzer,
}

struct Capture {
    name: String,
    interfaces: [InterfaceDescription; 1],
    dropped_packets: u64,
    damage: Option<String>,
}

impl LiveAnalysis {
    /// Each capture has a name and one interface.
    pub fn new(
        interfaces: Vec<(String, InterfaceDescription)>,
        parameters: &AnalysisParameters,
        quic: Quic,
    ) -> Self {
        let capture =
            |(name, interface)| Capture { name, interfaces: [interface], dropped_packets: 0, damage: None };
        Self {
            analyzer: Analyzer::new(parameters, interfaces.len(), quic, ()).without_frame_numbers(),
            waiting: interfaces.iter().map(|_| Waiting::default()).collect(),
            captures: interfaces.into_iter().map(capture).collect(),
            newest_ns: 0,
            pushed: 0,
        }
    }

    /// Takes the next packet of an interface. `interface` is its index, `time_ns` is since 1970.
    pub fn push(&mut self, interface: usize, time_ns: u64, bytes: &[u8], original_length: u32) {
        let is_only = self.waiting.len() == 1;
        let Some(waiting) = self.waiting.get_mut(interface) else { return };
        waiting.push(&Frame { interface: 0, time_ns, original_length, bytes, comment: None });
        let is_full = waiting.bytes.len() >= WAITING_BYTES;
        self.newest_ns = self.newest_ns.max(time_ns);
        self.pushed += 1;
        if is_full {
            self.analyse(u64::MAX);
        } else if self.pushed.is_multiple_of(BATCH_FRAMES) {
            self.analyse(if is_only { u64::MAX } else { self.newest_ns.saturating_sub(WAIT_NS) });
        }
    }

    /// Counts packets that the capture lost.
    pub fn add_dropped(&mut self, interface: usize, packets: u64) {
        if let Some(capture) = self.captures.get_mut(interface) {
            capture.dropped_packets += packets;
        }
    }

    /// The capture of this interface ended early.
    pub fn set_damage(&mut self, interface: usize, reason: String) {
        if let Some(capture) = self.captures.get_mut(interface) {
            capture.damage = Some(reason);
        }
    }

    /// Analyses the waiting packets up to this time, in order of time.
    fn analyse(&mut self, until_ns: u64) {
        while let Some((first, others_ns)) = earliest(&self.waiting) {
            let waiting = &mut self.waiting[first];
            if waiting.time_ns().is_none_or(|time_ns| time_ns > until_ns) {
                break;
            }
            let interfaces = &self.captures[first].interfaces;
            self.analyzer.batch(first as u32, interfaces, waiting.take(others_ns.min(until_ns)));
        }
        self.waiting.iter_mut().for_each(Waiting::discard_taken);
    }

    /// The result of all packets.
    pub fn finish(mut self) -> TraceDocument {
        self.analyse(u64::MAX);
        let (mut document, counts, ()) = self.analyzer.finish();
        let record = |(capture, counts): (Capture, _)| CaptureRecord {
            format: "live".to_owned(),
            dropped_packets: (capture.dropped_packets > 0).then_some(capture.dropped_packets),
            damage: capture.damage,
            ..capture_record(capture.name, &capture.interfaces, &counts)
        };
        document.captures = self.captures.into_iter().zip(counts).map(record).collect();
        document
    }
}

impl Waiting {
    /// Frees the memory of packets that were taken, if they are at least half of all: moving the others then costs no
    /// more than storing them did.
    fn discard_taken(&mut self) {
        if self.next == self.frames.len() {
            self.clear();
        } else if self.next > self.frames.len() / 2 {
            let taken = self.frames.get(self.next).map_or(0, |stored| stored.start);
            self.bytes.drain(..taken);
            self.frames.drain(..self.next);
            self.next = 0;
            for stored in &mut self.frames {
                stored.start -= taken;
                stored.end -= taken;
                stored.comment = stored.comment.map(|(start, end)| (start - taken, end - taken));
            }
        }
    }
}
