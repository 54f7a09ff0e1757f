//! The frames that show findings: no display filter selects a retransmission, or a reinjection, as the analysis counts it.

use crate::display_filter::frames_filter;
use crate::packet::PacketHeaders;
use crate::tcp::{Arrival, Flow};

/// Frames of one kind and direction of a flow; the first ones are kept.
pub(super) const MOST_FRAMES: usize = 32;
/// Frames of all live flows.
pub(super) const MOST_LIVE_FRAMES: usize = 1 << 19;

/// A property of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    Retransmission,
    Reinjection,
    Unmapped,
    /// An acknowledgment of bytes that are not in the capture.
    Missing,
    TooBig,
    /// The last packet of a mapping with a wrong checksum.
    Checksum,
    /// Payload that is not at the other point of capture.
    Lost,
    /// Payload that differs at the other point of capture.
    Rewritten,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) shows: Shows,
    /// Index of the end whose data the frame shows.
    pub(super) side: usize,
    pub(super) capture: u32,
    pub(super) frame: u64,
    /// Positions of its data.
    pub(super) range: (u64, u64),
    pub(super) ip_length: u32,
}

/// The frames of one flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    pub(super) entries: Vec<Entry>,
    /// Mappings with a wrong checksum so far.
    pub(super) wrong: u64,
    /// Missing bytes so far, by the sender of the data.
    missing: [u64; 2],
}

impl Evidence {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_full(&self, shows: Shows, side: usize) -> bool {
        self.entries.iter().filter(|entry| (entry.shows, entry.side) == (shows, side)).count() >= MOST_FRAMES
    }

    pub(super) fn push(&mut self, entry: Entry) -> usize {
        let same = self.entries.last().is_some_and(|last| {
            (last.shows, last.side, last.capture, last.frame)
                == (entry.shows, entry.side, entry.capture, entry.frame)
        });
        if same || self.is_full(entry.shows, entry.side) {
            return 0;
        }
        self.entries.push(entry);
        1
    }

    /// Adds frames of a comparison of two captures.
    pub(super) fn extend(&mut self, shows: Shows, side: usize, capture: u32, frames: &[u64]) {
        for &frame in frames {
            self.push(Entry { shows, side, capture, frame, range: (0, 0), ip_length: 0 });
        }
    }

    /// Takes over the frames of end `side` from the point of capture nearer to it, as [`Flow::take_sender`] does.
    pub(super) fn take_sender(&mut self, side: usize, nearer: &mut Self) {
        let is_taken = |entry: &Entry| {
            entry.side == side && matches!(entry.shows, Shows::Retransmission | Shows::Missing)
        };
        self.entries.retain(|entry| !is_taken(entry));
        self.entries.extend(nearer.entries.drain(..).filter(is_taken));
    }

    /// Retransmissions, and acknowledgments of bytes that are not in the capture, of a packet that end `side` sent.
    #[inline]
    pub(super) fn note_flow(
        &mut self,
        flow: &Flow,
        (side, capture, frame): (usize, u32, u64),
        packet: &PacketHeaders<'_>,
        arrival: Option<&Arrival>,
        acknowledges: bool,
    ) -> usize {
        let mut added = 0;
        if let Some(arrival) = arrival.filter(|arrival| arrival.retransmitted() > 0) {
            let range = (arrival.start, arrival.end);
            let ip_length = packet.ip_length;
            added +=
                self.push(Entry { shows: Shows::Retransmission, side, capture, frame, range, ip_length });
        }
        let sent = &flow.directions[1 - side];
        let captured = sent.coverage.contiguous_end().saturating_add(u64::from(sent.fin));
        if acknowledges && sent.acknowledged > captured && !self.is_full(Shows::Missing, 1 - side) {
            let missing = sent.missing_bytes();
            if missing > self.missing[1 - side] {
                let (range, ip_length) = ((captured, sent.acknowledged), 0);
                let shows = Shows::Missing;
                added += self.push(Entry { shows, side: 1 - side, capture, frame, range, ip_length });
            }
            self.missing[1 - side] = missing;
        }
        added
    }
}

/// The frames of a connection's findings.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// By subflow; `side` is the connection's end.
    pub(super) subflows: Vec<Vec<Entry>>,
    pub(super) fallback: Option<(u32, u64)>,
}

impl Shown {
    pub(super) fn fallback(&self) -> Option<(String, u32)> {
        self.fallback.map(|(capture, frame)| (frames_filter(&[frame]), capture))
    }

    /// A filter of the frames of one subflow, or of all, with this property, and the capture that they are in: that of
    /// the first. `side` is the end that sent the data; packets have at least `least` bytes.
    pub(super) fn filter(
        &self,
        subflow: Option<usize>,
        shows: Shows,
        side: Option<usize>,
        least: u32,
    ) -> Option<(String, u32)> {
        let subflows = self.subflows.iter().enumerate();
        let entries: Vec<&Entry> = subflows
            .filter(|(index, _)| subflow.is_none_or(|subflow| subflow == *index))
            .flat_map(|(_, entries)| entries)
            .filter(|entry| {
                entry.shows == shows && side.is_none_or(|side| side == entry.side) && entry.ip_length >= least
            })
            .collect();
        let capture = entries.first()?.capture;
        let mut frames: Vec<u64> =
            entries.iter().filter(|entry| entry.capture == capture).map(|entry| entry.frame).collect();
        frames.sort_unstable();
        frames.dedup();
        frames.truncate(MOST_FRAMES);
        Some((frames_filter(&frames), capture))
    }
}
