//! The errors that a collector answers with, as JSON.

use crate::Uuid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of every answer with a status of 400 and above.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A problem, its location and the remedy.
    pub error: String,
    /// Whether the same request can succeed later; the header `Retry-After` says when. A full disk (507) has none.
    pub retryable: bool,
}

/// The status of a full disk.
pub const INSUFFICIENT_STORAGE: u16 = 507;

/// The fate of one line of a batch.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum LineStatus {
    /// Stored durably (201).
    Created,
    /// Stored earlier with the same content (200).
    Known,
    /// Stored earlier with other content (409).
    Conflict,
    /// Deleted earlier on request (410).
    Deleted,
    /// Not a valid submission (422).
    Invalid,
    /// Longer than a line may be (413).
    Large,
    /// Not stored now; send it again later (503, or 507 of a full disk).
    Busy,
}

impl LineStatus {
    /// In the order of the variants.
    pub const NAMES: &[&str] = <Self as strum::VariantNames>::VARIANTS;

    pub const fn code(self) -> u16 {
        match self {
            Self::Created => 201,
            Self::Known => 200,
            Self::Conflict => 409,
            Self::Deleted => 410,
            Self::Invalid => 422,
            Self::Large => 413,
            Self::Busy => 503,
        }
    }

    /// Whether the collector has the line: the client can delete its copy.
    pub const fn is_stored(self) -> bool {
        matches!(self, Self::Created | Self::Known)
    }

    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// The answer to one line of a batch.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineAnswer {
    /// From 1.
    pub line: u32,
    /// The submission's id, if the line had one.
    pub id: Option<Uuid>,
    pub status: LineStatus,
    /// The HTTP status of this line.
    pub code: u16,
    /// Whether the same line can succeed later.
    pub retryable: bool,
    /// The problem.
    pub error: Option<String>,
}

impl LineAnswer {
    pub fn new(line: u32, id: Option<Uuid>, status: LineStatus, error: Option<String>) -> Self {
        Self { line, id, status, code: status.code(), retryable: status.is_retryable(), error }
    }

    /// Of a line for which the disk has no space (RFC 4918, section 11.5).
    pub fn without_space(line: u32, id: Option<Uuid>, error: String) -> Self {
        Self { code: INSUFFICIENT_STORAGE, ..Self::new(line, id, LineStatus::Busy, Some(error)) }
    }
}

/// The answer to `POST /v1/results`, one entry a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct BatchAnswer {
    pub results: Vec<LineAnswer>,
}
