//! Queries, and the changes of a document.

use super::row::{raw_range, unsigned, uuid};
use super::{Sqlite, write};
use crate::store::{
    Database, Deletion, Document, DocumentKind, Inserted, NewResult, ResultChange, StoreError, StoredResult,
    consent_from_code, delete_in_rounds, signed,
};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

/// One statement reads one snapshot: no change is committed between the two halves.
const CHANGES: &str = "
    SELECT * FROM (
        SELECT sequence, id, agent, consent, received_ms, facts FROM results
        WHERE sequence > ?1 ORDER BY sequence LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT sequence, id, NULL, NULL, NULL, NULL FROM deletions
        WHERE sequence > ?1 ORDER BY sequence LIMIT ?2
    )
    ORDER BY sequence LIMIT ?2";

const RESULT: &str = "
    SELECT sequence, id, agent, consent, received_ms, raw_segment, raw_offset, raw_bytes, raw_digest, summary
    FROM results JOIN summaries USING (sequence)";

impl Database for Sqlite {
    fn known(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, Option<Digest>)>, StoreError> {
        self.read(|connection| {
            let mut stored = connection.prepare_cached("SELECT digest FROM results WHERE id = ?1")?;
            let mut deleted = connection.prepare_cached("SELECT 1 FROM deletions WHERE id = ?1")?;
            let mut found = Vec::new();
            for id in ids {
                let digest = stored.query_row([id.as_bytes()], |row| row.get(0).map(Digest)).optional()?;
                if digest.is_some() || deleted.exists([id.as_bytes()])? {
                    found.push((*id, digest));
                }
            }
            Ok(found)
        })
    }

    fn insert(&self, batch: &[NewResult]) -> Result<Vec<Inserted>, StoreError> {
        self.write(|connection| write::insert(connection, batch))
    }

    fn changes_after(&self, sequence: u64, limit: usize) -> Result<Vec<ResultChange>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(CHANGES)?;
            statement.query_map([signed(sequence), signed(limit as u64)], change)?.collect()
        })
    }

    fn results(&self, sequences: &[u64]) -> Result<Vec<StoredResult>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("{RESULT} WHERE sequence = ?1"))?;
            let mut found = Vec::with_capacity(sequences.len());
            for sequence in sequences {
                found.extend(statement.query_row([signed(*sequence)], stored).optional()?);
            }
            Ok(found)
        })
    }

    fn result(&self, id: Uuid) -> Result<Option<StoredResult>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("{RESULT} WHERE id = ?1"))?;
            statement.query_row([id.as_bytes()], stored).optional()
        })
    }

    fn delete(&self, which: &Deletion, now_ms: u64) -> Result<u64, StoreError> {
        let delete = |connection: &mut Connection| write::delete(connection, which, now_ms);
        let deleted = delete_in_rounds(|| self.write_deletion(delete))?;
        if deleted > 0 {
            self.empty_log();
        }
        Ok(deleted)
    }

    fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<Document>, StoreError> {
        let query = "SELECT key, body, updated_ms FROM documents WHERE kind = ?1 AND key = ?2";
        self.read(|connection| {
            connection.prepare_cached(query)?.query_row([kind.name(), key], document_of).optional()
        })
    }

    fn documents_since(
        &self,
        kind: DocumentKind,
        since_ms: u64,
        (after, limit): (&str, usize),
    ) -> Result<Vec<Document>, StoreError> {
        let query =
            "SELECT key, body, updated_ms FROM documents WHERE kind = ?1 AND updated_ms >= ?2 AND key > ?3
                     ORDER BY key LIMIT ?4";
        let arguments = (kind.name(), signed(since_ms), after, signed(limit as u64));
        self.read(|connection| connection.prepare_cached(query)?.query_map(arguments, document_of)?.collect())
    }

    fn count_documents(&self, kind: DocumentKind, since_ms: u64) -> Result<u64, StoreError> {
        let query = "SELECT count(*) FROM documents WHERE kind = ?1 AND updated_ms >= ?2";
        let arguments = (kind.name(), since_ms as i64);
        self.read(|connection| connection.prepare_cached(query)?.query_row(arguments, |row| unsigned(row, 0)))
    }

    fn put_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError> {
        let query = "INSERT INTO documents VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body, updated_ms = excluded.updated_ms";
        let Document { key, body, updated_ms } = document;
        let values = params![kind.name(), key, body, signed(*updated_ms)];
        self.write(|connection| connection.prepare_cached(query)?.execute(values).map(|_| ()))
    }

    fn delete_document(&self, kind: DocumentKind, key: &str) -> Result<bool, StoreError> {
        let query = "DELETE FROM documents WHERE kind = ?1 AND key = ?2";
        self.write(|connection| {
            connection.prepare_cached(query)?.execute([kind.name(), key]).map(|removed| removed > 0)
        })
    }

    fn delete_documents(&self, kind: DocumentKind, before_ms: u64) -> Result<u64, StoreError> {
        let query = "DELETE FROM documents WHERE kind = ?1 AND updated_ms < ?2";
        let arguments = (kind.name(), signed(before_ms));
        self.write_deletion(|connection| {
            connection.prepare_cached(query)?.execute(arguments).map(|count| count as u64)
        })
    }

    /// Writes without a change: a full or read-only file system fails.
    fn check(&self) -> Result<(), StoreError> {
        self.write(|connection| connection.execute("UPDATE changes SET last = last", []).map(|_| ()))
    }
}

fn change(row: &Row<'_>) -> rusqlite::Result<ResultChange> {
    let (sequence, id) = (unsigned(row, 0)?, uuid(row, 1)?);
    if row.get_ref(2)? == ValueRef::Null {
        return Ok(ResultChange::Deleted { sequence, id });
    }
    Ok(ResultChange::Added {
        sequence,
        id,
        agent: uuid(row, 2)?,
        consent: consent_from_code(row.get(3)?),
        received_ms: unsigned(row, 4)?,
        facts: row.get(5)?,
    })
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredResult> {
    Ok(StoredResult {
        sequence: unsigned(row, 0)?,
        id: uuid(row, 1)?,
        agent: uuid(row, 2)?,
        consent: consent_from_code(row.get(3)?),
        received_ms: unsigned(row, 4)?,
        raw: raw_range(row, 5)?,
        summary: row.get(9)?,
    })
}

fn document_of(row: &Row<'_>) -> rusqlite::Result<Document> {
    Ok(Document { key: row.get(0)?, body: row.get(1)?, updated_ms: unsigned(row, 2)? })
}
