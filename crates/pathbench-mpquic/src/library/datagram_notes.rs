//! The paths of DATAGRAM frames (RFC 9221), which the library does not report: noted from the plaintext of packets.

use noq_proto::PathId;
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;

/// Bytes at the beginning of a datagram that identify it: the application's header.
pub const DATAGRAM_PREFIX_BYTES: usize = 40;

/// The beginning of a datagram and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPrefix {
    bytes: [u8; DATAGRAM_PREFIX_BYTES],
    /// Length of the whole datagram.
    pub length_bytes: u16,
}

/// Notes kept in each direction; the oldest ones are dropped. More than one turn of a connection sends or receives.
const NOTES: usize = 4096;

impl DatagramPrefix {
    /// The prefix of a datagram.
    pub fn new(datagram: &[u8]) -> Self {
        let mut bytes = [0; DATAGRAM_PREFIX_BYTES];
        bytes.iter_mut().zip(datagram).for_each(|(byte, from)| *byte = *from);
        Self { bytes, length_bytes: u16::try_from(datagram.len()).unwrap_or(u16::MAX) }
    }

    /// The beginning of the datagram, at most [`DATAGRAM_PREFIX_BYTES`].
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length_bytes)).unwrap_or(&self.bytes)
    }
}

#[derive(Debug, Default)]
pub(super) struct DatagramNotes {
    enabled: bool,
    sent: VecDeque<(PathId, DatagramPrefix)>,
    received: VecDeque<((PathId, Option<Timestamp>), DatagramPrefix)>,
    /// When the packet that is decrypted arrived.
    packet: Option<Timestamp>,
}

impl DatagramNotes {
    pub(super) fn enable(&mut self) {
        self.enabled = true;
    }

    pub(super) fn note_packet(&mut self, at: Option<Timestamp>) {
        self.packet = at;
    }

    pub(super) fn note_departure(&mut self, path: PathId, datagram: &[u8]) {
        push(self.enabled, &mut self.sent, path, datagram);
    }

    pub(super) fn note_arrival(&mut self, path: PathId, datagram: &[u8]) {
        push(self.enabled, &mut self.received, (path, self.packet), datagram);
    }

    pub(super) fn take_departures(&mut self) -> Vec<(PathId, DatagramPrefix)> {
        self.sent.drain(..).collect()
    }

    /// A packet that is received twice is decrypted twice and delivered once, so notes and datagrams are matched by
    /// content, not by order.
    pub(super) fn take_arrival(&mut self, datagram: &[u8]) -> Option<(PathId, Option<Timestamp>)> {
        let prefix = DatagramPrefix::new(datagram);
        let index = self.received.iter().position(|(_, noted)| *noted == prefix)?;
        self.received.remove(index).map(|(arrival, _)| arrival)
    }
}

fn push<N>(enabled: bool, notes: &mut VecDeque<(N, DatagramPrefix)>, note: N, datagram: &[u8]) {
    if !enabled {
        return;
    }
    if notes.len() >= NOTES {
        notes.pop_front();
    }
    notes.push_back((note, DatagramPrefix::new(datagram)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_found_by_content_and_notes_are_bounded() {
        let mut notes = DatagramNotes::default();
        let path = |id: u32| PathId::from(id);
        notes.note_arrival(path(0), b"before it is enabled");
        notes.enable();
        notes.note_arrival(path(1), b"first");
        notes.note_arrival(path(0), b"second");
        notes.note_packet(Some(Timestamp::from_nanos(7)));
        notes.note_arrival(path(1), b"second");
        assert_eq!(notes.take_arrival(b"second"), Some((path(0), None)));
        assert_eq!(notes.take_arrival(b"second"), Some((path(1), Some(Timestamp::from_nanos(7)))));
        assert_eq!(notes.take_arrival(b"before it is enabled"), None);
        for number in 0..3 * NOTES as u64 {
            notes.note_departure(path(2), &number.to_be_bytes());
        }
        assert_eq!(notes.take_departures().len(), NOTES);
        assert!(notes.take_departures().is_empty());
        assert_eq!(DatagramPrefix::new(&[7; 3]).bytes(), [7; 3]);
        assert_eq!(DatagramPrefix::new(&[7; 100]).bytes(), [7; DATAGRAM_PREFIX_BYTES]);
    }
}
