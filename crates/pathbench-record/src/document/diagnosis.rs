//! Why a path that could have carried data carried none.

use crate::sample::Side;
use serde::{Deserialize, Serialize};

/// An unused path of a run, explained. Also a path that carried nothing for a second or more while others did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathDiagnosis {
    pub path: String,
    /// The end whose data did not go over it.
    pub side: Side,
    /// What it most likely is.
    pub kind: DiagnosisKind,
    /// From when on, on the run's clock; absent for all of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<f64>,
    /// Until when; absent: to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ms: Option<f64>,
    /// The signs it was known by, in words.
    pub because: String,
    pub remedy: String,
}

/// What keeps a path from carrying data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosisKind {
    /// Small packets pass and full-sized ones vanish: nothing is acknowledged, the retransmission timer backs off, and
    /// the path MTU in force is still the local interface's (RFC 2923, section 2.1).
    MtuBlackHole,
    /// The path went silent: whatever its size, nothing passes any more (MPTCP calls such a subflow stale).
    Stale,
    Backup,
    /// No subflow or QUIC path was ever established on it.
    NeverEstablished,
    /// The host has no route to the server from the path's address.
    NoRoute,
    /// It was open and healthy, and the scheduler preferred others.
    NotChosen,
}

impl DiagnosisKind {
    /// As in the result files: `mtu-black-hole`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MtuBlackHole => "mtu-black-hole",
            Self::Stale => "stale",
            Self::Backup => "backup",
            Self::NeverEstablished => "never-established",
            Self::NoRoute => "no-route",
            Self::NotChosen => "not-chosen",
        }
    }
}
