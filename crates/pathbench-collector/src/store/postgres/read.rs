//! Queries.

use super::connection::{Arguments, Connection};
use crate::store::{
    Document, DocumentKind, RawRange, ResultChange, StoredResult, consent_from_code, signed, unsigned,
};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use std::collections::HashMap;
use tokio_postgres::{Error, Row};

pub(super) fn digest(row: &Row, column: usize) -> Result<Option<Digest>, Error> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(Digest))
}

/// The range of a raw part from four columns, the first of which is `column`.
pub(super) fn raw_range(row: &Row, column: usize) -> Result<Option<RawRange>, Error> {
    let Some(segment) = row.try_get::<_, Option<String>>(column)? else { return Ok(None) };
    let offset = unsigned(row.try_get(column + 1)?);
    let bytes = unsigned(row.try_get(column + 2)?);
    Ok(digest(row, column + 3)?.map(|digest| RawRange { segment, offset, bytes, digest }))
}

const KNOWN: &str = "
    SELECT id, digest FROM results WHERE id = ANY($1)
    UNION ALL
    SELECT id, NULL FROM deletions WHERE id = ANY($1)";

pub(super) async fn known(
    connection: &mut Connection,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Option<Digest>)>, Error> {
    let rows = connection.query(KNOWN, &[&ids]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, digest(row, 1)?))).collect()
}

/// One statement reads one snapshot: no change is committed between the two halves.
const CHANGES: &str = "
    SELECT * FROM (
        SELECT sequence, id, agent, consent, received_ms, facts FROM results
        WHERE sequence > $1 ORDER BY sequence LIMIT $2
    ) AS added
    UNION ALL
    SELECT * FROM (
        SELECT sequence, id, NULL::uuid, NULL::smallint, NULL::bigint, NULL::bytea FROM deletions
        WHERE sequence > $1 ORDER BY sequence LIMIT $2
    ) AS deleted
    ORDER BY sequence LIMIT $2";

pub(super) async fn changes_after(
    connection: &mut Connection,
    sequence: u64,
    limit: usize,
) -> Result<Vec<ResultChange>, Error> {
    let rows = connection.query(CHANGES, &[&signed(sequence), &signed(limit as u64)]).await?;
    let change = |row: &Row| {
        let (sequence, id) = (unsigned(row.try_get(0)?), row.try_get(1)?);
        let Some(agent) = row.try_get(2)? else { return Ok(ResultChange::Deleted { sequence, id }) };
        Ok(ResultChange::Added {
            sequence,
            id,
            agent,
            consent: consent_from_code(row.try_get::<_, i16>(3)?.into()),
            received_ms: unsigned(row.try_get(4)?),
            facts: row.try_get(5)?,
        })
    };
    rows.iter().map(change).collect()
}

macro_rules! results_where {
    ($condition:literal) => {
        concat!(
            "SELECT sequence, id, agent, consent, received_ms, raw_segment, raw_offset, raw_bytes, raw_digest, summary ",
            "FROM results WHERE ",
            $condition
        )
    };
}

fn stored(row: &Row) -> Result<StoredResult, Error> {
    Ok(StoredResult {
        sequence: unsigned(row.try_get(0)?),
        id: row.try_get(1)?,
        agent: row.try_get(2)?,
        consent: consent_from_code(row.try_get::<_, i16>(3)?.into()),
        received_ms: unsigned(row.try_get(4)?),
        raw: raw_range(row, 5)?,
        summary: row.try_get(9)?,
    })
}

pub(super) async fn results(
    connection: &mut Connection,
    sequences: &[u64],
) -> Result<Vec<StoredResult>, Error> {
    let wanted: Vec<i64> = sequences.iter().copied().map(signed).collect();
    let rows = connection.query(results_where!("sequence = ANY($1)"), &[&wanted]).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        let result = stored(row)?;
        found.insert(result.sequence, result);
    }
    Ok(sequences.iter().filter_map(|sequence| found.get(sequence).cloned()).collect())
}

pub(super) async fn result(connection: &mut Connection, id: Uuid) -> Result<Option<StoredResult>, Error> {
    let rows = connection.query(results_where!("id = $1"), &[&id]).await?;
    rows.first().map(stored).transpose()
}

fn document_of(row: &Row) -> Result<Document, Error> {
    Ok(Document { key: row.try_get(0)?, body: row.try_get(1)?, updated_ms: unsigned(row.try_get(2)?) })
}

pub(super) async fn document(
    connection: &mut Connection,
    kind: DocumentKind,
    key: &str,
) -> Result<Option<Document>, Error> {
    let query = "SELECT key, body, updated_ms FROM documents WHERE kind = $1 AND key = $2";
    let rows = connection.query(query, &[&kind.name(), &key]).await?;
    rows.first().map(document_of).transpose()
}

pub(super) async fn documents_since(
    connection: &mut Connection,
    kind: DocumentKind,
    since_ms: u64,
    limit: usize,
) -> Result<Vec<Document>, Error> {
    let query = "SELECT key, body, updated_ms FROM documents WHERE kind = $1 AND updated_ms >= $2
                 ORDER BY key LIMIT $3";
    let arguments: Arguments<'_> = &[&kind.name(), &signed(since_ms), &signed(limit as u64)];
    connection.query(query, arguments).await?.iter().map(document_of).collect()
}

pub(super) async fn count_documents(
    connection: &mut Connection,
    kind: DocumentKind,
    since_ms: u64,
) -> Result<u64, Error> {
    let query = "SELECT count(*) FROM documents WHERE kind = $1 AND updated_ms >= $2";
    let rows = connection.query(query, &[&kind.name(), &(since_ms as i64)]).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(count.unsigned_abs())
}
