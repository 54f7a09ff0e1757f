//! The kinds of findings.

/// A kind of [`TraceFinding`](pathbench_record::trace::TraceFinding).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKind {
    Fallback,
    Checksum,
    Reinjections,
    OnePath,
    Retransmissions,
    Unmapped,
    Missing,
    TooBig,
    BlackHole,
    JoinHmac,
    Reset,
    SequenceRewritten,
    PayloadRewritten,
    OptionRemoved,
    MssClamped,
    Loss,
}

impl FindingKind {
    pub const ALL: [Self; 16] = [
        Self::Fallback,
        Self::Checksum,
        Self::Reinjections,
        Self::OnePath,
        Self::Retransmissions,
        Self::Unmapped,
        Self::Missing,
        Self::TooBig,
        Self::BlackHole,
        Self::JoinHmac,
        Self::Reset,
        Self::SequenceRewritten,
        Self::PayloadRewritten,
        Self::OptionRemoved,
        Self::MssClamped,
        Self::Loss,
    ];

    /// `id` of the finding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fallback => "fallback",
            Self::Checksum => "checksum",
            Self::Reinjections => "reinjections",
            Self::OnePath => "one-path",
            Self::Retransmissions => "retransmissions",
            Self::Unmapped => "unmapped",
            Self::Missing => "missing",
            Self::TooBig => "too-big",
            Self::BlackHole => "black-hole",
            Self::JoinHmac => "join-hmac",
            Self::Reset => "reset",
            Self::SequenceRewritten => "sequence-rewritten",
            Self::PayloadRewritten => "payload-rewritten",
            Self::OptionRemoved => "option-removed",
            Self::MssClamped => "mss-clamped",
            Self::Loss => "loss",
        }
    }
}
