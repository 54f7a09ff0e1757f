//! The parameters of `bulk`.

use crate::direction::DataDirection;
use serde::{Deserialize, Serialize};

/// Parameters of `bulk`: at least one of its amounts is not 0. Default: `MultipathTester`'s GET of 10 MB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BulkParameters {
    /// Bytes to download on all streams together; 0: none.
    pub bytes: u64,
    /// Bytes to upload at the same time, on the same streams; 0: none.
    pub upload_bytes: u64,
    pub streams: u32,
}

impl Default for BulkParameters {
    fn default() -> Self {
        Self { bytes: 10_000_000, upload_bytes: 0, streams: 1 }
    }
}

impl BulkParameters {
    pub const fn direction(&self) -> DataDirection {
        match (self.bytes, self.upload_bytes) {
            (_, 0) => DataDirection::Download,
            (0, _) => DataDirection::Upload,
            _ => DataDirection::Both,
        }
    }

    pub(super) fn least_bytes(&self) -> u64 {
        [self.bytes, self.upload_bytes].into_iter().filter(|bytes| *bytes > 0).min().unwrap_or(0)
    }
}
