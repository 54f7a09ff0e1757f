//! Erasures, raw parts and verification.

use super::Postgres;
use super::connection::{Arguments, Connection};
use super::row::raw_range;
use crate::store::{
    DatabaseMaintenance, Document, DocumentKind, Erasure, RawRange, StoreError, signed, unsigned,
};
use pathbench_api::Uuid;
use tokio_postgres::Error;

impl DatabaseMaintenance for Postgres {
    fn erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError> {
        let query = "SELECT number, raw_segment, raw_offset, raw_bytes, raw_digest FROM erasures
                     ORDER BY number LIMIT $1";
        self.call(async |connection| {
            let mut found = Vec::new();
            for row in connection.query(query, &[&signed(limit as u64)]).await? {
                let number = unsigned(row.try_get(0)?);
                found.extend(raw_range(&row, 1)?.map(|range| Erasure { number, range }));
            }
            Ok(found)
        })
    }

    fn erased(&self, numbers: &[u64]) -> Result<(), StoreError> {
        let numbers: Vec<i64> = numbers.iter().copied().map(signed).collect();
        let query = "DELETE FROM erasures WHERE number = ANY($1)";
        self.call(async |connection| connection.execute(query, &[&numbers]).await.map(|_| ()))
    }

    fn segments_after(&self, name: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let query = "SELECT DISTINCT raw_segment FROM results WHERE raw_segment > $1
                     ORDER BY raw_segment LIMIT $2";
        self.call(async |connection| {
            let rows = connection.query(query, &[&name, &signed(limit as u64)]).await?;
            rows.iter().map(|row| row.try_get(0)).collect()
        })
    }

    fn ranges(&self, segment: &str) -> Result<Vec<RawRange>, StoreError> {
        let query = "SELECT raw_segment, raw_offset, raw_bytes, raw_digest FROM results
                     WHERE raw_segment = $1 ORDER BY raw_offset";
        self.call(async |connection| {
            let rows = connection.query(query, &[&segment]).await?;
            rows.iter().filter_map(|row| raw_range(row, 0).transpose()).collect()
        })
    }

    fn add_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError> {
        let query = "INSERT INTO documents VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let updated_ms = signed(document.updated_ms);
        self.call(async |connection| {
            let values: Arguments<'_> = &[&kind.name(), &document.key, &document.body, &updated_ms];
            connection.execute(query, values).await.map(|_| ())
        })
    }

    fn verify(&self) -> Result<Vec<String>, StoreError> {
        self.call(async |connection| verify(connection).await)
    }
}

/// Each query finds at most 100 rows that must not exist.
const RULES: [(&str, &str); 4] = [
    ("is stored and deleted", "SELECT id FROM results JOIN deletions USING (id) LIMIT 100"),
    (
        "shares its sequence number with a deletion",
        "SELECT results.id FROM results JOIN deletions USING (sequence) LIMIT 100",
    ),
    (
        "shares its sequence number with another result",
        "SELECT min(id::text)::uuid FROM results GROUP BY sequence HAVING count(*) > 1 LIMIT 100",
    ),
    (
        "has a sequence number beyond the last one",
        "SELECT id FROM results WHERE sequence > (SELECT last_value FROM changes) LIMIT 100",
    ),
];

async fn verify(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let mut problems = Vec::new();
    for (problem, query) in RULES {
        for row in connection.query(query, &[]).await? {
            problems.push(format!("result {} {problem}", row.try_get::<_, Uuid>(0)?));
        }
    }
    problems.truncate(100);
    Ok(problems)
}
