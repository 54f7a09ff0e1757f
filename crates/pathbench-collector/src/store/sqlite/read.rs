//! Queries.

use super::row::{raw_range, unsigned, uuid};
use crate::store::{Document, DocumentKind, ResultChange, StoredResult, consent_from_code, signed};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) fn known(connection: &Connection, ids: &[Uuid]) -> rusqlite::Result<Vec<(Uuid, Option<Digest>)>> {
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
}

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

pub(super) fn changes_after(
    connection: &Connection,
    sequence: u64,
    limit: usize,
) -> rusqlite::Result<Vec<ResultChange>> {
    let mut statement = connection.prepare_cached(CHANGES)?;
    let change = |row: &Row<'_>| {
        let (sequence, id) = (unsigned(row, 0)?, uuid(row, 1)?);
        if row.get_ref(2)? == rusqlite::types::ValueRef::Null {
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
    };
    statement.query_map(params![signed(sequence), signed(limit as u64)], change)?.collect()
}

const RESULT: &str = "
    SELECT sequence, id, agent, consent, received_ms, raw_segment, raw_offset, raw_bytes, raw_digest, summary
    FROM results JOIN summaries USING (sequence)";

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

pub(super) fn results(connection: &Connection, sequences: &[u64]) -> rusqlite::Result<Vec<StoredResult>> {
    let mut statement = connection.prepare_cached(&format!("{RESULT} WHERE sequence = ?1"))?;
    let mut found = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        found.extend(statement.query_row([signed(*sequence)], stored).optional()?);
    }
    Ok(found)
}

pub(super) fn result(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<StoredResult>> {
    let mut statement = connection.prepare_cached(&format!("{RESULT} WHERE id = ?1"))?;
    statement.query_row([id.as_bytes()], stored).optional()
}

fn document_of(row: &Row<'_>) -> rusqlite::Result<Document> {
    Ok(Document { key: row.get(0)?, body: row.get(1)?, updated_ms: unsigned(row, 2)? })
}

pub(super) fn document(
    connection: &Connection,
    kind: DocumentKind,
    key: &str,
) -> rusqlite::Result<Option<Document>> {
    let query = "SELECT key, body, updated_ms FROM documents WHERE kind = ?1 AND key = ?2";
    connection.prepare_cached(query)?.query_row(params![kind.name(), key], document_of).optional()
}

pub(super) fn documents_since(
    connection: &Connection,
    kind: DocumentKind,
    since_ms: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Document>> {
    let query = "SELECT key, body, updated_ms FROM documents WHERE kind = ?1 AND updated_ms >= ?2
                 ORDER BY key LIMIT ?3";
    let arguments = (kind.name(), signed(since_ms), signed(limit as u64));
    connection.prepare_cached(query)?.query_map(arguments, document_of)?.collect()
}

pub(super) fn count_documents(
    connection: &Connection,
    kind: DocumentKind,
    since_ms: u64,
) -> rusqlite::Result<u64> {
    let query = "SELECT count(*) FROM documents WHERE kind = ?1 AND updated_ms >= ?2";
    let counted: rusqlite::Result<i64> =
        connection.prepare_cached(query)?.query_row((kind.name(), since_ms as i64), |row| row.get(0));
    counted.map(i64::unsigned_abs)
}
