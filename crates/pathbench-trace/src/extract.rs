//! The packets of chosen connections as captures of their own, with a comment on each packet.

use crate::analyzer::{SegmentKind, Sequence, TracedSegment};
use crate::capture::{Frame, InterfaceDescription, writer};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Encoded bytes of a connection that wait for the sink.
const BLOCK_BYTES: usize = 256 << 10;

/// Passes encoded parts of the captures to `sink`, with the connection's id.
pub struct Extract<F> {
    captures: BTreeMap<u64, Vec<u8>>,
    /// First number of each capture's interfaces in the new captures.
    first_interface: Vec<u32>,
    comment: String,
    sink: F,
}

impl<F: FnMut(u64, &[u8])> Extract<F> {
    /// `interfaces` are those of each capture.
    pub fn new(
        connections: impl IntoIterator<Item = u64>,
        interfaces: &[Vec<InterfaceDescription>],
        sink: F,
    ) -> Self {
        let mut begin = Vec::new();
        writer::begin(&interfaces.concat(), &mut begin);
        let captures = connections.into_iter().map(|id| (id, begin.clone())).collect();
        let mut next = 0;
        let first_interface = interfaces.iter().map(|of_capture| {
            let first = next;
            next += of_capture.len() as u32;
            first
        });
        Self { captures, first_interface: first_interface.collect(), comment: String::new(), sink }
    }

    /// Passes the rest to the sink.
    pub fn finish(mut self) {
        for (id, bytes) in &self.captures {
            (self.sink)(*id, bytes);
        }
    }
}

impl<F: FnMut(u64, &[u8])> Sequence for Extract<F> {
    const ACTIVE: bool = true;

    fn segment(&mut self, frame: &Frame<'_>, segment: &TracedSegment) {
        let Some(out) = self.captures.get_mut(&segment.connection) else { return };
        if frame.bytes.is_empty() {
            // Reassembled from fragments.
            return;
        }
        self.comment.clear();
        describe(segment, &mut self.comment);
        if let Some(comment) = frame.comment {
            // Writing to a string cannot fail.
            let _written = write!(self.comment, "; {}", String::from_utf8_lossy(comment));
        }
        let first = self.first_interface.get(segment.capture as usize).copied().unwrap_or(0);
        let frame =
            Frame { interface: first + frame.interface, comment: Some(self.comment.as_bytes()), ..*frame };
        writer::packet(&frame, out);
        if out.len() > BLOCK_BYTES {
            (self.sink)(segment.connection, out);
            out.clear();
        }
    }
}

fn describe(segment: &TracedSegment, out: &mut String) {
    let direction = if segment.sender == 0 { "upload" } else { "download" };
    let _written = write!(out, "subflow {}, {direction}", segment.subflow);
    if segment.kind != SegmentKind::Control {
        let _written = write!(out, ": {}", segment.kind.name());
    }
    if let Some((start, end)) = segment.range {
        let _written = write!(out, " of subflow bytes {start}–{}", end.saturating_sub(1));
    }
    if let Some((start, end)) = segment.data_range {
        let _written = write!(out, ", data bytes {start}–{}", end.saturating_sub(1));
    }
}
