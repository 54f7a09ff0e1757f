//! Segments for time-sequence graphs and for captures of one connection.

use crate::capture::Frame;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// No payload.
    Control,
    Data,
    /// Fills a gap, seen for the first time.
    OutOfOrder,
    /// The subflow had carried all of it.
    Retransmission,
    /// Another range of a subflow had carried some of its data.
    Reinjection,
    /// The capture has it already.
    Copy,
    /// Of no window of the connection.
    OutOfWindow,
}

impl SegmentKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Data => "data",
            Self::OutOfOrder => "out-of-order",
            Self::Retransmission => "retransmission",
            Self::Reinjection => "reinjection",
            Self::Copy => "copy",
            Self::OutOfWindow => "out-of-window",
        }
    }
}

/// A segment and its position in its connection. Sides: 0 is the connection's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedSegment {
    /// Index of the capture.
    pub capture: u32,
    pub connection: u64,
    pub subflow: u32,
    pub sender: usize,
    pub time_ns: u64,
    pub kind: SegmentKind,
    /// Payload that its subflow had carried before.
    pub retransmitted: u64,
    /// Positions on the subflow: relative sequence numbers of 64 bits.
    pub range: Option<(u64, u64)>,
    /// Position of the peer's data that this end has acknowledged.
    pub acknowledged: u64,
    /// Positions at the data level.
    pub data_range: Option<(u64, u64)>,
    pub data_acknowledged: Option<u64>,
}

/// Receives each segment of an analysis.
pub trait Sequence {
    /// Without it, no segment is described.
    const ACTIVE: bool;

    fn segment(&mut self, frame: &Frame<'_>, segment: &TracedSegment);
}

/// Receives none.
impl Sequence for () {
    const ACTIVE: bool = false;

    fn segment(&mut self, _: &Frame<'_>, _: &TracedSegment) {}
}

/// Passes each segment to both.
impl<A: Sequence, B: Sequence> Sequence for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;

    fn segment(&mut self, frame: &Frame<'_>, segment: &TracedSegment) {
        self.0.segment(frame, segment);
        self.1.segment(frame, segment);
    }
}

/// Passes segments on if there is one.
impl<A: Sequence> Sequence for Option<A> {
    const ACTIVE: bool = A::ACTIVE;

    fn segment(&mut self, frame: &Frame<'_>, segment: &TracedSegment) {
        if let Some(sequence) = self {
            sequence.segment(frame, segment);
        }
    }
}
