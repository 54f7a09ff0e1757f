//! The counts of one capture.

use crate::capture::Frame;

/// Counts of one capture.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub packets: u64,
    pub captured_bytes: u64,
    pub wire_bytes: u64,
    pub truncated_packets: u64,
    pub other_packets: u64,
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
}
