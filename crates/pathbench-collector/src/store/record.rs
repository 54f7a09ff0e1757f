//! The documents of servers, agents and experiments, with their types.

use super::{Database, Document, DocumentKind, StoreError};
use pathbench_api::check_in::{CheckIn, ServerReport};
use pathbench_api::consent::Consent;
use pathbench_api::live::LiveReport;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A registered test server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredServer {
    /// `HOST:PORT` as the operator gives it; absent: the address from which its reports come, with their port.
    pub address: Option<String>,
    /// Part of the derivation of its key, made at the registration; absent in older ones.
    #[serde(default)]
    pub salt: Option<String>,
    /// Id of the collector's secret that its key is derived from; absent in older ones.
    #[serde(default)]
    pub secret: Option<String>,
}

/// The last report of a server, as the collector keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownServer {
    pub address: String,
    pub report: ServerReport,
}

/// An agent as the collector keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownAgent {
    pub check_in: CheckIn,
    /// Serial number of its token; absent where an open collector knows it without one.
    #[serde(default)]
    pub token: Option<String>,
}

/// The last live report of an agent, with the consent of its last check-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningAgent {
    pub consent: Consent,
    pub report: LiveReport,
}

/// All documents of a kind that can be read as `T`; others are of an older or newer version.
pub fn records<T: DeserializeOwned>(
    database: &dyn Database,
    kind: DocumentKind,
) -> Result<Vec<(Document, T)>, StoreError> {
    Ok(parsed(database.documents(kind)?))
}

fn parsed<T: DeserializeOwned>(found: Vec<Document>) -> Vec<(Document, T)> {
    let parsed = found.into_iter().filter_map(|document| {
        let body = serde_json::from_str(&document.body).ok()?;
        Some((document, body))
    });
    parsed.collect()
}

/// Some documents of a kind, by key.
#[derive(Debug)]
pub struct RecordPage<T> {
    pub records: Vec<(Document, T)>,
    /// The key after which the next page begins; absent after the last one.
    pub next: Option<String>,
}

/// The documents of a kind with keys after this one, of at most `limit` documents those that can be read as `T`.
pub fn record_page<T: DeserializeOwned>(
    database: &dyn Database,
    kind: DocumentKind,
    (after, limit): (&str, usize),
) -> Result<RecordPage<T>, StoreError> {
    let mut found = database.documents_since(kind, 0, (after, limit.saturating_add(1)))?;
    let has_next = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_next).map(|last| last.key.clone());
    Ok(RecordPage { records: parsed(found), next })
}

/// The last report of a server, and the Unix time of its arrival in milliseconds.
pub fn server_report(database: &dyn Database, name: &str) -> Result<Option<(u64, KnownServer)>, StoreError> {
    let found = database.document(DocumentKind::ServerReport, name)?;
    Ok(found.and_then(|found| Some((found.updated_ms, serde_json::from_str(&found.body).ok()?))))
}

/// One document, if it can be read as `T`.
pub fn record<T: DeserializeOwned>(
    database: &dyn Database,
    kind: DocumentKind,
    key: &str,
) -> Result<Option<T>, StoreError> {
    let found = database.document(kind, key)?;
    Ok(found.and_then(|document| serde_json::from_str(&document.body).ok()))
}

/// Agents that the database holds; those that do not check in any more are deleted after a time.
pub const MOST_AGENTS: u64 = 10_000;

/// Stores the check-in of an agent. A new one takes a place, for which `may_add` is asked.
pub fn put_agent<E: From<StoreError>>(
    database: &dyn Database,
    agent: &KnownAgent,
    now_ms: u64,
    may_add: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let key = agent.check_in.agent.to_string();
    if database.document(DocumentKind::Agent, &key)?.is_none() {
        if database.count_documents(DocumentKind::Agent, 0)? >= MOST_AGENTS {
            return Err(StoreError::Agents { most: MOST_AGENTS }.into());
        }
        may_add()?;
    }
    Ok(put_record(database, DocumentKind::Agent, &key, agent, now_ms)?)
}

/// Removes a test server with its last report; whether there was one.
pub fn remove_server(database: &dyn Database, name: &str) -> Result<bool, StoreError> {
    let was_registered = database.delete_document(DocumentKind::Server, name)?;
    let had_report = database.delete_document(DocumentKind::ServerReport, name)?;
    Ok(was_registered || had_report)
}

pub fn put_record(
    database: &dyn Database,
    kind: DocumentKind,
    key: &str,
    record: &impl Serialize,
    now_ms: u64,
) -> Result<(), StoreError> {
    let failed = |error: serde_json::Error| StoreError::Failed {
        location: format!("{} {key}", kind.name()),
        problem: error.to_string(),
    };
    let body = serde_json::to_string(record).map_err(failed)?;
    database.put_document(kind, &Document { key: key.to_owned(), body, updated_ms: now_ms })
}
