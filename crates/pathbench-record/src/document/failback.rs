//! The return of traffic to a path that an event improved.

use crate::direction::Direction;
use crate::event::EventKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The return of a path's share of the bytes after an event that improved the path (docs/metrics.md).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailbackRecord {
    /// Direction of the bytes.
    pub direction: Direction,
    /// The event's kind.
    pub kind: EventKind,
    /// The event's path.
    pub path: String,
    /// When it took effect.
    pub at_ms: f64,
    /// Share of the path in the bytes of all paths before it got worse; absent if it is not known.
    pub share_before: Option<f64>,
    /// Time until the path carried its share again ([definition](metrics.md#failback)).
    pub failback_ms: Option<f64>,
    /// Why `failback_ms` is absent.
    pub reason: Option<FailbackAbsence>,
    /// The reason in words, with its figures.
    pub because: Option<String>,
}

/// The reason why a failback has no duration.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum FailbackAbsence {
    /// The other paths carried all that the application offered, so that the path was not needed.
    NotNeeded,
    /// The run, or the next event, came too early to tell.
    EndedTooEarly,
    /// The path was needed, and its share did not come back.
    NeverReturned,
    /// The share of the path before it got worse is not known, or below 1 %.
    NoShareBefore,
}

impl FailbackAbsence {
    pub fn name(self) -> &'static str {
        self.into()
    }
}
