//! The kinds of findings.

use pathbench_record::trace::TraceFinding;

/// A display filter, and the capture whose frame numbers it has.
pub(crate) type Filter = (String, Option<u32>);

/// A kind of [`TraceFinding`].
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
    ZeroWindow,
    OneDirection,
    ConnectUnanswered,
    ConnectUnacknowledged,
    ConnectRefused,
    JoinUnanswered,
    JoinUnacknowledged,
    JoinRefused,
    AddAddrUnconfirmed,
    NeverJoined,
}

impl FindingKind {
    pub const ALL: [Self; 26] = [
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
        Self::ZeroWindow,
        Self::OneDirection,
        Self::ConnectUnanswered,
        Self::ConnectUnacknowledged,
        Self::ConnectRefused,
        Self::JoinUnanswered,
        Self::JoinUnacknowledged,
        Self::JoinRefused,
        Self::AddAddrUnconfirmed,
        Self::NeverJoined,
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
            Self::ZeroWindow => "zero-window",
            Self::OneDirection => "one-direction",
            Self::ConnectUnanswered => "connect-unanswered",
            Self::ConnectUnacknowledged => "connect-unacknowledged",
            Self::ConnectRefused => "connect-refused",
            Self::JoinUnanswered => "join-unanswered",
            Self::JoinUnacknowledged => "join-unacknowledged",
            Self::JoinRefused => "join-refused",
            Self::AddAddrUnconfirmed => "add-addr-unconfirmed",
            Self::NeverJoined => "never-joined",
        }
    }

    pub(crate) fn finding(self, level: &str, text: String, (filter, capture): Filter) -> TraceFinding {
        let (id, level) = (self.name().to_owned(), level.to_owned());
        TraceFinding { id, level, connection: None, subflow: None, text, filter, capture }
    }
}
