//! The frames that show findings: no display filter selects a retransmission, or a reinjection, as the analysis counts it.

use super::connection::Subflow;
use super::sequence::Sequence;
use super::state::Analyzer;
use crate::display_filter::frames_filter;
use crate::mptcp::checksum::Checksums;
use crate::mptcp::data::Carried;
use crate::packet::{PacketHeaders, Tcp};
use crate::tcp::{ACK, Arrival, Flow};

/// Frames of one kind and direction of a flow; the first ones are kept.
const MOST_FRAMES: usize = 32;
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
struct Entry {
    shows: Shows,
    /// Index of the end whose data the frame shows.
    side: usize,
    capture: u32,
    frame: u64,
    /// Positions of its data.
    range: (u64, u64),
    ip_length: u32,
}

/// The frames of one flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    entries: Vec<Entry>,
    /// Mappings with a wrong checksum so far.
    wrong: u64,
    /// Missing bytes so far, by the sender of the data.
    missing: [u64; 2],
}

impl Evidence {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn is_full(&self, shows: Shows, side: usize) -> bool {
        self.entries.iter().filter(|entry| (entry.shows, entry.side) == (shows, side)).count() >= MOST_FRAMES
    }

    fn push(&mut self, entry: Entry) -> usize {
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
    fn note_flow(
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

/// Whether a packet shows anything, which few do.
#[inline]
fn is_notable(flow: &Flow, side: usize, tcp: &Tcp<'_>, arrival: Option<&Arrival>) -> bool {
    let sent = &flow.directions[1 - side];
    arrival.is_some_and(|arrival| arrival.new < arrival.end - arrival.start)
        || (tcp.flags & ACK != 0
            && sent.started
            && sent.acknowledged > sent.coverage.contiguous_end().saturating_add(u64::from(sent.fin)))
}

impl<S: Sequence> Analyzer<S> {
    /// Keeps the number of the current frame for each finding that it shows.
    #[inline]
    pub(super) fn note(
        &mut self,
        flow: u32,
        side: usize,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        (arrival, carried): (Option<&Arrival>, Option<Carried>),
    ) {
        let Subflow { flow: tcp_flow, mptcp, connection, evidence, .. } = &self.flows[flow as usize];
        let connection = &self.connections[*connection as usize];
        let wrong = |sums: &Checksums| sums.wrong;
        let wrong =
            mptcp.as_ref().map_or(0, |mptcp| mptcp.checksums.iter().flatten().map(|sums| wrong(sums)).sum());
        let partly = carried
            .zip(arrival)
            .is_some_and(|(carried, arrival)| carried.again > 0 || carried.new + carried.again < arrival.new);
        if partly
            || wrong > evidence.as_ref().map_or(0, |evidence| evidence.wrong)
            || (connection.fallback.is_some() && connection.fallback_frame.is_none())
            || is_notable(tcp_flow, side, tcp, arrival)
        {
            self.note_frame(flow, side, packet, tcp, (arrival, carried), wrong);
        }
    }

    #[cold]
    fn note_frame(
        &mut self,
        flow: u32,
        side: usize,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        (arrival, carried): (Option<&Arrival>, Option<Carried>),
        wrong: u64,
    ) {
        let Self { flows, connections, frame, frames_left, .. } = self;
        let Subflow { flow: tcp_flow, mptcp, connection, evidence, capture, .. } = &mut flows[flow as usize];
        let connection = &mut connections[*connection as usize];
        if connection.fallback.is_some() && *frames_left > 0 {
            connection.fallback_frame.get_or_insert((*capture, *frame));
        }
        if *frames_left < MOST_FRAMES {
            return;
        }
        let evidence = evidence.get_or_insert_default();
        let context = (side, *capture, *frame);
        let mut added = evidence.note_flow(tcp_flow, context, packet, arrival, tcp.flags & ACK != 0);
        let mut add = |shows: Shows, range: (u64, u64)| {
            let (capture, frame) = (*capture, *frame);
            added += evidence.push(Entry { shows, side, capture, frame, range, ip_length: packet.ip_length });
        };
        if wrong > 0 {
            add(Shows::Checksum, (0, 0));
        }
        if let (Some(carried), Some(arrival)) = (carried, arrival) {
            let range = (arrival.start, arrival.end);
            if carried.again > 0 {
                add(Shows::Reinjection, range);
            }
            if carried.new + carried.again < arrival.new {
                add(Shows::Unmapped, range);
            }
        }
        evidence.wrong = wrong;
        // Payload that came before its mapping.
        if let Some(mptcp) = mptcp.as_ref().filter(|_| evidence.is_full(Shows::Unmapped, side)) {
            let before = evidence.entries.len();
            let mappings = &mptcp.mappings[side];
            evidence.entries.retain(|entry| {
                (entry.shows, entry.side) != (Shows::Unmapped, side)
                    || mappings.lacks(entry.range.0, entry.range.1)
            });
            *frames_left += before - evidence.entries.len();
        }
        *frames_left = frames_left.saturating_sub(added);
    }

    /// A router's report about a packet of end `side`.
    #[cold]
    pub(super) fn note_too_big(&mut self, flow: u32, capture: u32) {
        let Self { flows, frame, frames_left, .. } = self;
        if *frames_left > 0 {
            let evidence = flows[flow as usize].evidence.get_or_insert_default();
            let (shows, range, frame) = (Shows::TooBig, (0, 0), *frame);
            *frames_left -= evidence.push(Entry { shows, side: 0, capture, frame, range, ip_length: 0 });
        }
    }

    /// As [`note`](Self::note), at the second point of capture.
    pub(super) fn note_second(
        &mut self,
        flow: u32,
        (side, capture): (usize, u32),
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        arrival: Option<&Arrival>,
    ) {
        let Self { flows, frame, frames_left, .. } = self;
        let Some(compared) = &mut flows[flow as usize].comparison else { return };
        if *frames_left >= MOST_FRAMES && is_notable(&compared.flow, side, tcp, arrival) {
            let context = (side, capture, *frame);
            let acknowledges = tcp.flags & ACK != 0;
            *frames_left -=
                compared.evidence.note_flow(&compared.flow, context, packet, arrival, acknowledges);
        }
    }
}

/// The frames of a connection's findings.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// By subflow; `side` is the connection's end.
    subflows: Vec<Vec<Entry>>,
    fallback: Option<(u32, u64)>,
}

impl Shown {
    /// From the subflows of a connection that has ended.
    pub(super) fn new(members: &[Subflow], fallback: Option<(u32, u64)>) -> Self {
        let entries = |member: &Subflow| {
            let is_shown = |entry: &&Entry| match entry.shows {
                Shows::Missing => {
                    let (start, end) = entry.range;
                    member.flow.directions[entry.side].coverage.covered(start, end)
                        < end.saturating_sub(start)
                }
                Shows::Unmapped => member
                    .mptcp
                    .as_ref()
                    .is_some_and(|mptcp| mptcp.mappings[entry.side].lacks(entry.range.0, entry.range.1)),
                _ => true,
            };
            let of_connection = |entry: &Entry| Entry { side: member.connection_side(entry.side), ..*entry };
            let entries = member.evidence.iter().flat_map(|evidence| &evidence.entries);
            entries.filter(is_shown).map(of_connection).collect()
        };
        Self { subflows: members.iter().map(entries).collect(), fallback }
    }

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
