//! Deletion: the deletion token of results is the credential.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `DELETE /v1/results`, after the deletion is durable. The credential is the deletion token, and all
/// results go whose `deletion_sha256` is the digest of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deleted", description = "The number of deleted results.")]
pub struct DeletionAnswer {
    pub deleted: u64,
}
