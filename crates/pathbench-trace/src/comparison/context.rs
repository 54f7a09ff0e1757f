//! The captures of a flow at the time of an observation.

/// The time that a capture covers, by its own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaptureSpan {
    pub first_ns: u64,
    /// Of the packets so far.
    pub last_ns: u64,
    /// No packet will follow.
    pub ended: bool,
}

/// Bounds and captures at the time of an observation; arrays by point.
#[derive(Debug, Clone, Copy)]
pub struct ObservationContext {
    pub spans: [CaptureSpan; 2],
    /// Most ranges that wait for their counterparts, per direction and point.
    pub waiting: usize,
    /// Number of the packet in its capture.
    pub frame: u64,
}

impl Default for ObservationContext {
    fn default() -> Self {
        Self { spans: [CaptureSpan::default(); 2], waiting: 65_536, frame: 0 }
    }
}
