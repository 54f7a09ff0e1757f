//! A database and a raw store in memory.

use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use pathbench_api::submission::Checked;
use pathbench_collector::facts::{self, Source};
use pathbench_collector::raw::{RawError, RawStore};
use pathbench_collector::store::{
    Database, Deletion, Document, DocumentKind, Inserted, NewResult, RawRange, ResultChange, StoreError,
    StoredResult,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct MemoryDatabase(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    last: u64,
    results: BTreeMap<u64, NewResult>,
    by_id: HashMap<Uuid, u64>,
    deleted: BTreeMap<u64, Uuid>,
    documents: BTreeMap<(&'static str, String), Document>,
}

impl Tables {
    fn remove(&mut self, id: Uuid) {
        if let Some(sequence) = self.by_id.remove(&id) {
            self.results.remove(&sequence);
            self.last += 1;
            self.deleted.insert(self.last, id);
        }
    }
}

fn stored(sequence: u64, one: &NewResult) -> StoredResult {
    StoredResult {
        sequence,
        id: one.id,
        agent: one.agent,
        consent: one.consent,
        received_ms: one.received_ms,
        summary: one.summary.clone(),
        raw: one.raw.clone(),
    }
}

/// The result as the writer makes it.
pub fn new_result(checked: &Checked, raw: Option<RawRange>) -> NewResult {
    let submission = &checked.submission;
    NewResult {
        id: submission.id,
        digest: checked.digest,
        agent: submission.agent,
        consent: submission.consent,
        deletion: submission.deletion_sha256,
        received_ms: submission.summary.started_ms + 90_000,
        summary: serde_json::to_vec(&submission.summary).unwrap(),
        // A network for each agent.
        facts: facts::encode(checked, Source(submission.agent.as_u64_pair().0)),
        raw,
    }
}

impl MemoryDatabase {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for MemoryDatabase {
    fn known(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, Option<Digest>)>, StoreError> {
        let tables = self.tables();
        let of = |id: &Uuid| {
            let digest = tables.by_id.get(id).and_then(|sequence| tables.results.get(sequence));
            let is_deleted = tables.deleted.values().any(|deleted| deleted == id);
            (digest.is_some() || is_deleted).then(|| (*id, digest.map(|one| one.digest)))
        };
        Ok(ids.iter().filter_map(of).collect())
    }

    fn insert(&self, batch: &[NewResult]) -> Result<Vec<Inserted>, StoreError> {
        let mut tables = self.tables();
        let mut insert = |one: &NewResult| {
            if tables.by_id.contains_key(&one.id) {
                return Inserted::Known;
            }
            tables.last += 1;
            let sequence = tables.last;
            tables.by_id.insert(one.id, sequence);
            tables.results.insert(sequence, one.clone());
            Inserted::Created
        };
        Ok(batch.iter().map(&mut insert).collect())
    }

    fn changes_after(&self, sequence: u64, limit: usize) -> Result<Vec<ResultChange>, StoreError> {
        let tables = self.tables();
        let added =
            tables.results.range(sequence + 1..).take(limit).map(|(sequence, one)| ResultChange::Added {
                sequence: *sequence,
                id: one.id,
                agent: one.agent,
                consent: one.consent,
                received_ms: one.received_ms,
                facts: one.facts.clone(),
            });
        let deleted = tables.deleted.range(sequence + 1..).take(limit);
        let deleted = deleted.map(|(sequence, id)| ResultChange::Deleted { sequence: *sequence, id: *id });
        let mut all: Vec<ResultChange> = added.chain(deleted).collect();
        all.sort_by_key(|change| match change {
            ResultChange::Added { sequence, .. } | ResultChange::Deleted { sequence, .. } => *sequence,
        });
        all.truncate(limit);
        Ok(all)
    }

    fn results(&self, sequences: &[u64]) -> Result<Vec<StoredResult>, StoreError> {
        let tables = self.tables();
        let found = sequences.iter().filter_map(|one| Some(stored(*one, tables.results.get(one)?)));
        Ok(found.collect())
    }

    fn result(&self, id: Uuid) -> Result<Option<StoredResult>, StoreError> {
        let tables = self.tables();
        Ok(tables.by_id.get(&id).and_then(|one| Some(stored(*one, tables.results.get(one)?))))
    }

    fn delete(&self, which: &Deletion, _: u64) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        let fits = |one: &NewResult| match which {
            Deletion::One(id) => one.id == *id,
            Deletion::OneWithToken(id, token) => one.id == *id && one.deletion == *token,
            Deletion::AllWithToken(token) => one.deletion == *token,
            Deletion::ReceivedBefore(ms) => one.received_ms < *ms,
        };
        let ids: Vec<Uuid> = tables.results.values().filter(|one| fits(one)).map(|one| one.id).collect();
        for id in &ids {
            tables.remove(*id);
        }
        Ok(ids.len() as u64)
    }

    fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<Document>, StoreError> {
        Ok(self.tables().documents.get(&(kind.name(), key.to_owned())).cloned())
    }

    fn documents_since(
        &self,
        kind: DocumentKind,
        since_ms: u64,
        (after, limit): (&str, usize),
    ) -> Result<Vec<Document>, StoreError> {
        let tables = self.tables();
        let of_kind = tables.documents.iter().filter(|((one, _), _)| *one == kind.name());
        let recent =
            of_kind.filter(|((_, key), document)| document.updated_ms >= since_ms && key.as_str() > after);
        Ok(recent.map(|(_, document)| document.clone()).take(limit).collect())
    }

    fn count_documents(&self, kind: DocumentKind, since_ms: u64) -> Result<u64, StoreError> {
        Ok(self.documents(kind)?.iter().filter(|one| one.updated_ms >= since_ms).count() as u64)
    }

    fn put_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError> {
        self.tables().documents.insert((kind.name(), document.key.clone()), document.clone());
        Ok(())
    }

    fn delete_document(&self, kind: DocumentKind, key: &str) -> Result<bool, StoreError> {
        Ok(self.tables().documents.remove(&(kind.name(), key.to_owned())).is_some())
    }

    fn delete_documents(&self, kind: DocumentKind, before_ms: u64) -> Result<u64, StoreError> {
        let documents = &mut self.tables().documents;
        let before = documents.len();
        documents.retain(|(one, _), document| *one != kind.name() || document.updated_ms >= before_ms);
        Ok((before - documents.len()) as u64)
    }

    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Debug, Default)]
pub struct MemoryRawStore(Mutex<Vec<Vec<u8>>>);

impl RawStore for MemoryRawStore {
    fn append(&self, parts: &[&[u8]]) -> Result<Vec<RawRange>, RawError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut range = |part: &&[u8]| {
            held.push(part.to_vec());
            RawRange {
                segment: (held.len() - 1).to_string(),
                offset: 0,
                bytes: part.len() as u64,
                digest: Digest::compute(part),
            }
        };
        Ok(parts.iter().map(&mut range).collect())
    }

    fn read(&self, range: &RawRange) -> Result<Vec<u8>, RawError> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = range.segment.parse::<usize>().ok().and_then(|index| held.get(index).cloned());
        let (location, segment) = ("memory".to_owned(), range.segment.clone());
        part.ok_or(RawError::Missing { location, segment })
    }

    fn erase(&self, _: &[RawRange]) -> Result<(), RawError> {
        Ok(())
    }

    fn check(&self) -> Result<(), RawError> {
        Ok(())
    }
}
