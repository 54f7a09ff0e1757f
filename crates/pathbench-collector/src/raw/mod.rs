//! The raw store: the raw parts of results, in segments.

use crate::store::RawPlace;
use std::fmt::Debug;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum RawError {
    #[error("the raw store at {place}: {problem}")]
    Failed { place: String, problem: String },
    #[error("the raw store at {place} is full: free some space")]
    Full { place: String },
    #[error("the raw store at {place} lacks segment {segment}")]
    Missing { place: String, segment: String },
}

/// All methods block.
pub trait RawStore: Send + Sync + Debug {
    /// Stores the parts of one batch, durably before it returns; one place for each part, in order.
    fn append(&self, parts: &[&[u8]]) -> Result<Vec<RawPlace>, RawError>;

    fn read(&self, place: &RawPlace) -> Result<Vec<u8>, RawError>;

    /// Overwrites or removes the bytes of deleted results.
    fn erase(&self, places: &[RawPlace]) -> Result<(), RawError>;

    fn check(&self) -> Result<(), RawError>;
}
