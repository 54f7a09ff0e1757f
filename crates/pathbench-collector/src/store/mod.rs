//! The database: summaries, deletions, and the small documents of servers, agents and experiments.

mod pool;
pub mod postgres;
pub mod record;
pub mod reserve;
pub mod sqlite;

use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use std::fmt::Debug;
use thiserror::Error;

/// A result that passed every check, with its raw part already in the raw store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewResult {
    pub id: Uuid,
    /// Of the submitted line.
    pub digest: Digest,
    pub agent: Uuid,
    pub consent: Consent,
    /// SHA-256 of the deletion token.
    pub deletion: Digest,
    /// Unix time.
    pub received_ms: u64,
    /// JSON of `pathbench_api::summary::Summary`.
    pub summary: Vec<u8>,
    /// [`crate::facts`]
    pub facts: Vec<u8>,
    pub raw: Option<RawRange>,
}

/// The bytes of a raw part in the raw store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRange {
    /// Name of the segment in the raw store.
    pub segment: String,
    pub offset: u64,
    pub bytes: u64,
    /// Of the raw part: a read checks it.
    pub digest: Digest,
}

/// A raw part of a deleted result that is still in the raw store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    pub number: u64,
    pub range: RawRange,
}

/// The outcome of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    Created,
    /// Stored earlier with the same digest.
    Known,
    /// Stored earlier with another digest.
    Conflict,
    /// Deleted earlier on request.
    Deleted,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    pub sequence: u64,
    pub id: Uuid,
    pub agent: Uuid,
    pub consent: Consent,
    pub received_ms: u64,
    pub summary: Vec<u8>,
    pub raw: Option<RawRange>,
}

/// A change of the set of results. Sequence numbers grow in the order of commits, also with several collectors.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultChange {
    Added { sequence: u64, id: Uuid, agent: Uuid, consent: Consent, received_ms: u64, facts: Vec<u8> },
    Deleted { sequence: u64, id: Uuid },
}

/// Which results to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    One(Uuid),
    /// One result, if its deletion token has this digest.
    OneWithToken(Uuid, Digest),
    /// All results with a deletion token of this digest.
    AllWithToken(Digest),
    /// Received before this Unix time.
    ReceivedBefore(u64),
}

/// A small JSON document: a server, an agent, an experiment, a live report, a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub key: String,
    pub body: String,
    /// Unix time of the last write.
    pub updated_ms: u64,
}

/// The kinds of [`Document`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// Key: name. Registered by the operator.
    Server,
    /// Key: name. The last report of a server.
    ServerReport,
    /// Key: id.
    Agent,
    /// Key: name.
    Experiment,
    /// Key: id of the agent.
    Live,
    /// Key: name.
    Setting,
    /// Key: serial number of a token.
    Revocation,
}

impl DocumentKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::ServerReport => "server-report",
            Self::Agent => "agent",
            Self::Experiment => "experiment",
            Self::Live => "live",
            Self::Setting => "setting",
            Self::Revocation => "revocation",
        }
    }
}

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("the database at {location}: {problem}")]
    Failed { location: String, problem: String },
    #[error("the database at {location} is full: free some space")]
    Full { location: String },
    #[error("the collector knows {most} agents: it takes no new ones now")]
    Agents { most: u64 },
    #[error(
        "the database at {location} has schema {found}; this collector supports {known}: update the collector"
    )]
    Newer { location: String, found: u32, known: u32 },
}

/// All methods block; a handler calls them on a thread for that.
pub trait Database: Send + Sync + Debug {
    /// Of `ids`, those that are stored (with their digest) or deleted (`None`).
    fn known(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, Option<Digest>)>, StoreError>;

    /// Stores all of `batch` in one transaction, durably before it returns; one entry for each result.
    fn insert(&self, batch: &[NewResult]) -> Result<Vec<Inserted>, StoreError>;

    /// Up to `limit` changes after `sequence`, in order.
    fn changes_after(&self, sequence: u64, limit: usize) -> Result<Vec<ResultChange>, StoreError>;

    /// The results with these sequence numbers, in that order; deleted ones are left out.
    fn results(&self, sequences: &[u64]) -> Result<Vec<StoredResult>, StoreError>;

    fn result(&self, id: Uuid) -> Result<Option<StoredResult>, StoreError>;

    /// Deletes durably, leaves tombstones so that no repetition brings a result back, and returns the number.
    fn delete(&self, which: &Deletion, now_ms: u64) -> Result<u64, StoreError>;

    fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<Document>, StoreError>;

    /// All documents of a kind, by key.
    fn documents(&self, kind: DocumentKind) -> Result<Vec<Document>, StoreError> {
        self.documents_since(kind, 0, ("", usize::MAX))
    }

    /// The documents of a kind that were written at or after this Unix time, by key: those with keys after the given one,
    /// and at most as many.
    fn documents_since(
        &self,
        kind: DocumentKind,
        since_ms: u64,
        page: (&str, usize),
    ) -> Result<Vec<Document>, StoreError>;

    /// The number of documents of a kind that were written at or after this Unix time.
    fn count_documents(&self, kind: DocumentKind, since_ms: u64) -> Result<u64, StoreError>;

    fn put_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError>;

    /// Whether there was one.
    fn delete_document(&self, kind: DocumentKind, key: &str) -> Result<bool, StoreError>;

    /// Deletes the documents of a kind that were last written before this Unix time, and returns the number.
    fn delete_documents(&self, kind: DocumentKind, before_ms: u64) -> Result<u64, StoreError>;

    /// Whether the database answers and accepts writes.
    fn check(&self) -> Result<(), StoreError>;
}

/// The part of a database that only maintenance needs.
pub trait DatabaseMaintenance: Database {
    /// Up to `limit` raw parts of deleted results. A deletion adds them in its transaction, so none is forgotten.
    fn erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError>;

    /// Removes entries whose raw part is erased.
    fn erased(&self, numbers: &[u64]) -> Result<(), StoreError>;

    /// Up to `limit` names of segments after `name`, in order, that stored results refer to.
    fn segments_after(&self, name: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// The raw parts of stored results in a segment, by offset.
    fn ranges(&self, segment: &str) -> Result<Vec<RawRange>, StoreError>;

    /// Stores a document, unless there is one with its key.
    fn add_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError>;

    /// Reads the whole database and reports every inconsistency, at most 100.
    fn verify(&self) -> Result<Vec<String>, StoreError>;
}

/// A deletion of more takes several transactions, so that results can be stored between them, and so that each fits the
/// reserve of free disk.
const DELETED_AT_ONCE: u64 = 1_000;

/// Calls `delete`, which deletes up to [`DELETED_AT_ONCE`] results, until none is left; returns their number.
fn delete_in_rounds(mut delete: impl FnMut() -> Result<u64, StoreError>) -> Result<u64, StoreError> {
    let mut deleted = 0;
    loop {
        let now = delete()?;
        deleted += now;
        if now < DELETED_AT_ONCE {
            return Ok(deleted);
        }
    }
}

/// Databases have signed integers only.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    value.max(0).unsigned_abs()
}

/// The code in a database.
const fn consent_code(consent: Consent) -> i64 {
    match consent {
        Consent::None => 0,
        Consent::Private => 1,
        Consent::Public => 2,
    }
}

/// An unknown code is the narrowest consent.
const fn consent_from_code(code: i64) -> Consent {
    match code {
        2 => Consent::Public,
        1 => Consent::Private,
        _ => Consent::None,
    }
}
