//! Which frames show findings.

use super::connection::Subflow;
use super::evidence::{Entry, MOST_FRAMES, Shown, Shows};
use super::sequence::Sequence;
use super::state::Analyzer;
use crate::mptcp::checksum::Checksums;
use crate::mptcp::data::Carried;
use crate::packet::{PacketHeaders, Tcp};
use crate::tcp::{ACK, Arrival, Flow};

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
            || (wrong > 0 && wrong > evidence.as_ref().map_or(0, |evidence| evidence.wrong))
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

/// From the subflows of a connection that has ended.
pub(super) fn shown(members: &[Subflow], fallback: Option<(u32, u64)>) -> Shown {
    let entries = |member: &Subflow| {
        let is_shown = |entry: &&Entry| match entry.shows {
            Shows::Missing => {
                let (start, end) = entry.range;
                member.flow.directions[entry.side].coverage.covered(start, end) < end.saturating_sub(start)
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
    Shown { subflows: members.iter().map(entries).collect(), fallback }
}
