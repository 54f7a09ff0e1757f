//! The file formats of traces.

use super::error::TraceError;

/// File formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// Delivery opportunities; see [`mahimahi()`](super::mahimahi).
    Mahimahi,
    /// Packet trains; see [`cellreplay()`](super::cellreplay).
    CellReplay,
    /// A table; see [`bytes_per_second`](super::bytes_per_second).
    BytesPerSecond,
    /// Pensieve's "cooked" traces.
    Pensieve,
    /// A table with a header.
    Csv,
    /// JSON of `AlphaRTC`'s gym.
    AlphaRtc,
    /// Delays of `LeoReplayer` and `LeoCC`.
    LeoReplayer,
    Irtt,
    Ping,
}

impl TraceFormat {
    pub const ALL: [Self; 9] = [
        Self::Mahimahi,
        Self::CellReplay,
        Self::BytesPerSecond,
        Self::Pensieve,
        Self::Csv,
        Self::AlphaRtc,
        Self::LeoReplayer,
        Self::Irtt,
        Self::Ping,
    ];

    /// The name of the format in scenarios and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mahimahi => "mahimahi",
            Self::CellReplay => "cellreplay",
            Self::BytesPerSecond => "bytes-per-second",
            Self::Pensieve => "pensieve",
            Self::Csv => "csv",
            Self::AlphaRtc => "alphartc",
            Self::LeoReplayer => "leoreplayer",
            Self::Irtt => "irtt",
            Self::Ping => "ping",
        }
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The quantities that a file of the format can contain, as in messages.
    const fn quantities(self) -> &'static str {
        match self {
            Self::Mahimahi | Self::BytesPerSecond | Self::Pensieve => "a rate",
            Self::CellReplay => "a rate with its delay",
            Self::Csv => "the quantities of its columns",
            Self::AlphaRtc => "the quantities of its patterns",
            Self::LeoReplayer => "a delay",
            Self::Irtt | Self::Ping => "a delay and a loss",
        }
    }

    pub(super) fn lacks(self, what: &'static str) -> TraceError {
        TraceError::Lacks { format: self.name(), what, has: self.quantities() }
    }
}
