//! The raw store: the raw parts of results, in segments.

pub mod directory;
pub mod s3;

use crate::store::RawRange;
use pathbench_api::Uuid;
use pathbench_api::submission::{id_time_ms, new_id};
use std::fmt::Debug;
use std::io::Write;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum RawError {
    #[error("the raw store at {location}: {problem}")]
    Failed { location: String, problem: String },
    #[error("the raw store at {location} is full: free some space")]
    Full { location: String },
    #[error("the raw store at {location} lacks segment {segment}")]
    Missing { location: String, segment: String },
    #[error("the raw store at {location} has other bytes in segment {segment} at {offset}")]
    Damaged { location: String, segment: String, offset: u64 },
}

/// All methods block.
pub trait RawStore: Send + Sync + Debug {
    /// Stores the parts of one batch, durably before it returns; one range for each part, in order.
    fn append(&self, parts: &[&[u8]]) -> Result<Vec<RawRange>, RawError>;

    fn read(&self, range: &RawRange) -> Result<Vec<u8>, RawError>;

    /// Overwrites or removes the bytes of deleted results.
    fn erase(&self, ranges: &[RawRange]) -> Result<(), RawError>;

    fn check(&self) -> Result<(), RawError>;
}

/// A segment as the raw store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSegment {
    pub name: String,
    pub bytes: u64,
    /// Unix time of the first append; 0 if the name holds no time.
    pub made_ms: u64,
}

/// The file, or the object, that ties a raw store to its database.
pub const IDENTITY: &str = "store.id";

/// The part of a raw store that only maintenance needs.
pub trait RawMaintenance: RawStore {
    /// All segments, by name.
    fn segments(&self) -> Result<Vec<RawSegment>, RawError>;

    /// Unix time before which no segment in use was begun: older ones receive no more appends, of any collector, and
    /// the results of earlier appends are in the database or given up. A clock that is set forward changes nothing for
    /// the newest segment of this collector.
    fn sealed_before_ms(&self) -> u64;

    /// Removes a segment without stored results.
    fn remove(&self, segment: &str) -> Result<(), RawError>;

    /// Copies a segment.
    fn copy(&self, segment: &str, to: &mut dyn Write) -> Result<(), RawError>;

    /// The directory, or the URL, for messages.
    fn location(&self) -> String;

    /// The text of [`IDENTITY`].
    fn identity(&self) -> Result<Option<String>, RawError>;

    /// Writes [`IDENTITY`], unless there is one.
    fn set_identity(&self, identity: &str) -> Result<(), RawError>;
}

/// 10 random bytes.
pub type Randomness = fn() -> [u8; 10];

/// The name of a new segment: a `UUIDv7`, so names are in the order of time and collectors never share one.
pub(crate) fn new_name(now_ms: u64, random: [u8; 10]) -> String {
    new_id(now_ms, &random).simple().to_string()
}

/// The time in a segment's name; `None` for any other name.
pub(crate) fn name_time_ms(name: &str) -> Option<u64> {
    let id = Uuid::try_parse(name).ok()?;
    (id.simple().to_string() == name).then(|| id_time_ms(id))?
}
