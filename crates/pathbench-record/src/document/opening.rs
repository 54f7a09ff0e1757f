//! The opening of a run's connection.

use super::UnreachableBecause;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the opening of a run's connection ended.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpeningRecord {
    /// The initial path, on which every transport opens its connection.
    pub path: Option<String>,
    /// The outcome; `error` of the run has the words.
    pub outcome: OpeningOutcome,
    /// First attempt to open the connection → its outcome ([definition](metrics.md#opening)).
    pub after_ms: f64,
}

/// The outcome of opening a connection.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum OpeningOutcome {
    /// The first stream can carry data.
    Opened,
    /// No answer in time: the initial path was silent.
    Timeout,
    /// No route to host from the initial path.
    NoRoute,
    /// The far end of the initial path answered that no socket listens on the port.
    Refused,
    /// Any other error.
    Other,
}

impl OpeningOutcome {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<UnreachableBecause> for OpeningOutcome {
    fn from(because: UnreachableBecause) -> Self {
        match because {
            UnreachableBecause::Timeout => Self::Timeout,
            UnreachableBecause::NoRoute => Self::NoRoute,
            UnreachableBecause::Refused => Self::Refused,
            UnreachableBecause::Other => Self::Other,
        }
    }
}
