//! The counts of one capture.

use crate::capture::Frame;
use crate::packet::Reason;
use std::borrow::Cow;

/// Most reasons with a count of their own.
const REASONS: usize = 64;

/// Counts of one capture.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub packets: u64,
    pub captured_bytes: u64,
    pub wire_bytes: u64,
    pub truncated_packets: u64,
    pub other_packets: u64,
    /// Packets that may belong to connections, with the reason and the link type.
    undecoded: Vec<(Reason, u16, u64)>,
    pub by_interface: Vec<u64>,
    /// Time of the first packet.
    pub first_ns: Option<u64>,
    pub(super) last_ns: u64,
    pub(super) ended: bool,
}

impl Counts {
    pub(super) fn add(&mut self, frame: &Frame<'_>) {
        self.packets += 1;
        self.captured_bytes += frame.bytes.len() as u64;
        self.wire_bytes += u64::from(frame.original_length);
        self.truncated_packets += u64::from((frame.bytes.len() as u64) < u64::from(frame.original_length));
        let interface = frame.interface as usize;
        if self.by_interface.len() <= interface {
            self.by_interface.resize(interface + 1, 0);
        }
        self.by_interface[interface] += 1;
    }

    #[inline]
    pub(super) fn set_time(&mut self, time_ns: u64) {
        self.first_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// A packet, or a packet that was put together from fragments, without a transport header that the analysis reads.
    #[cold]
    pub(super) fn add_undecoded(&mut self, reason: Reason, link_type: u16) {
        if let Some((.., packets)) =
            self.undecoded.iter_mut().find(|known| (known.0, known.1) == (reason, link_type))
        {
            *packets += 1;
        } else if self.undecoded.len() < REASONS && reason.undecoded(link_type).is_some() {
            self.undecoded.push((reason, link_type, 1));
        }
    }

    /// Words and number of the packets that were not decoded, the most frequent first.
    pub fn undecoded(&self) -> Vec<(Cow<'static, str>, u64)> {
        let mut found: Vec<(Cow<'static, str>, u64)> = Vec::new();
        for &(reason, link_type, packets) in &self.undecoded {
            let Some(words) = reason.undecoded(link_type) else { continue };
            match found.iter_mut().find(|known| known.0 == words) {
                Some(known) => known.1 += packets,
                None => found.push((words, packets)),
            }
        }
        found.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
        found
    }
}
