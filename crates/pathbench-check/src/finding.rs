//! A finding: the examined object, its state, the meaning and the remedy.

use serde::Serialize;

/// How a finding affects multipath. The order is the order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    Ok,
    /// The object could not be examined: a privilege or a kernel feature is missing.
    NotExamined,
    Advice,
    /// Multipath does not work, or a path is not used, because of this.
    Problem,
}

/// One result of `pathbench check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub id: FindingId,
    pub level: Level,
    /// The interface, address, path or file that the finding concerns; absent for the host as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The state as read or measured: `net.mptcp.enabled is 0`.
    pub found: String,
    /// The consequence; empty for [`Level::Ok`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub meaning: String,
    /// Shell commands or sentences that correct it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedy: Vec<String>,
}

/// The stable identity of a finding. `docs/check.md` lists every id with [`FindingId::explanation`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr, strum::EnumIter,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum FindingId {
    MptcpEnabled,
}

impl FindingId {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The documentation of the id: the examined object, and the consequence of a problem.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::MptcpEnabled => {
                "`net.mptcp.enabled` of this network namespace. With 0 the kernel refuses MPTCP sockets (ENOPROTOOPT), and \
                 listeners answer MP_CAPABLE with plain TCP."
            }
        }
    }
}
