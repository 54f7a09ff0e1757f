//! The counts of one capture.

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
