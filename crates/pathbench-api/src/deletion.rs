//! Deletion: whoever has the deletion token of results can delete them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/deletions`: deletes all results whose `deletion_sha256` is the SHA-256 digest of the bytes of this text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletionRequest {
    pub deletion_token: String,
}

/// The answer, after the deletion is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletionAnswer {
    /// Deleted results.
    pub deleted: u64,
}
