//! Queries, and the changes of a document.

use super::connection::Arguments;
use super::row::{count, raw_range};
use super::{Postgres, partitions, write};
use crate::store::{
    Database, Deletion, Document, DocumentKind, Inserted, NewResult, ResultChange, StoreError, StoredResult,
    consent_from_code, delete_in_rounds, signed, unsigned,
};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use std::collections::HashMap;
use tokio_postgres::{Error, Row};

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

macro_rules! results_where {
    ($condition:literal) => {
        concat!(
            "SELECT sequence, id, agent, consent, received_ms, raw_segment, raw_offset, raw_bytes, raw_digest, summary ",
            "FROM results WHERE ",
            $condition
        )
    };
}

impl Database for Postgres {
    fn known(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, Option<Digest>)>, StoreError> {
        self.call(async |connection| write::known(connection, ids).await)
    }

    fn insert(&self, batch: &[NewResult]) -> Result<Vec<Inserted>, StoreError> {
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        if let Some(month) = self.partitions.next_month(first.received_ms)
            && self.call(async |connection| partitions::make_two(connection, month).await)?
        {
            self.partitions.set_newest(month);
        }
        let columns = write::Columns::from_batch(batch);
        self.call(async |connection| write::insert(connection, batch, &columns).await)
    }

    fn changes_after(&self, sequence: u64, limit: usize) -> Result<Vec<ResultChange>, StoreError> {
        self.call(async |connection| {
            let rows = connection.query(CHANGES, &[&signed(sequence), &signed(limit as u64)]).await?;
            rows.iter().map(change).collect()
        })
    }

    fn results(&self, sequences: &[u64]) -> Result<Vec<StoredResult>, StoreError> {
        let wanted: Vec<i64> = sequences.iter().copied().map(signed).collect();
        self.call(async |connection| {
            let rows = connection.query(results_where!("sequence = ANY($1)"), &[&wanted]).await?;
            let mut found = HashMap::with_capacity(rows.len());
            for row in &rows {
                let result = stored(row)?;
                found.insert(result.sequence, result);
            }
            Ok(sequences.iter().filter_map(|sequence| found.get(sequence).cloned()).collect())
        })
    }

    fn result(&self, id: Uuid) -> Result<Option<StoredResult>, StoreError> {
        self.call(async |connection| {
            let rows = connection.query(results_where!("id = $1"), &[&id]).await?;
            rows.first().map(stored).transpose()
        })
    }

    fn delete(&self, which: &Deletion, now_ms: u64) -> Result<u64, StoreError> {
        delete_in_rounds(|| self.call(async |connection| write::delete(connection, which, now_ms).await))
    }

    fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<Document>, StoreError> {
        let query = "SELECT key, body, updated_ms FROM documents WHERE kind = $1 AND key = $2";
        self.call(async |connection| {
            let rows = connection.query(query, &[&kind.name(), &key]).await?;
            rows.first().map(document_of).transpose()
        })
    }

    fn documents_since(
        &self,
        kind: DocumentKind,
        since_ms: u64,
        (after, limit): (&str, usize),
    ) -> Result<Vec<Document>, StoreError> {
        let query =
            "SELECT key, body, updated_ms FROM documents WHERE kind = $1 AND updated_ms >= $2 AND key > $3
                     ORDER BY key LIMIT $4";
        self.call(async |connection| {
            let arguments: Arguments<'_> = &[&kind.name(), &signed(since_ms), &after, &signed(limit as u64)];
            connection.query(query, arguments).await?.iter().map(document_of).collect()
        })
    }

    fn count_documents(&self, kind: DocumentKind, since_ms: u64) -> Result<u64, StoreError> {
        let query = "SELECT count(*) FROM documents WHERE kind = $1 AND updated_ms >= $2";
        self.call(async |connection| {
            count(&connection.query(query, &[&kind.name(), &(since_ms as i64)]).await?)
        })
    }

    fn put_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError> {
        let query = "INSERT INTO documents VALUES ($1, $2, $3, $4)
                     ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body, updated_ms = excluded.updated_ms";
        let updated_ms = signed(document.updated_ms);
        self.call(async |connection| {
            let values: Arguments<'_> = &[&kind.name(), &document.key, &document.body, &updated_ms];
            connection.execute(query, values).await.map(|_| ())
        })
    }

    fn delete_document(&self, kind: DocumentKind, key: &str) -> Result<bool, StoreError> {
        let query = "DELETE FROM documents WHERE kind = $1 AND key = $2";
        self.call(async |connection| {
            connection.execute(query, &[&kind.name(), &key]).await.map(|removed| removed > 0)
        })
    }

    fn delete_documents(&self, kind: DocumentKind, before_ms: u64) -> Result<u64, StoreError> {
        let query = "DELETE FROM documents WHERE kind = $1 AND updated_ms < $2";
        self.call(async |connection| connection.execute(query, &[&kind.name(), &signed(before_ms)]).await)
    }

    /// A write that is rolled back: a standby fails; a full disk can pass, since nothing is flushed.
    fn check(&self) -> Result<(), StoreError> {
        let script =
            "BEGIN; INSERT INTO documents VALUES ('check', '', '', 0) ON CONFLICT DO NOTHING; ROLLBACK";
        self.call(async |connection| connection.client.batch_execute(script).await)
    }
}

fn change(row: &Row) -> Result<ResultChange, Error> {
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

fn document_of(row: &Row) -> Result<Document, Error> {
    Ok(Document { key: row.try_get(0)?, body: row.try_get(1)?, updated_ms: unsigned(row.try_get(2)?) })
}
