//! Transactions of results.

use super::connection::{Arguments, Connection};
use super::row::{count, digest};
use crate::store::{Deletion, Inserted, NewResult, consent_code, signed};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use std::collections::{HashMap, HashSet};
use tokio_postgres::Error;

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

/// COPY has no ON CONFLICT.
const INSERT: &str = "
    INSERT INTO results (sequence, id, digest, agent, consent, deletion, received_ms,
        raw_segment, raw_offset, raw_bytes, raw_digest, facts, summary)
    SELECT nextval('changes'), new.* FROM unnest(
        $1::uuid[], $2::bytea[], $3::uuid[], $4::smallint[], $5::bytea[], $6::bigint[],
        $7::text[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bytea[]
    ) AS new (id, digest, agent, consent, deletion, received_ms,
        raw_segment, raw_offset, raw_bytes, raw_digest, facts, summary)
    WHERE NOT EXISTS (SELECT 1 FROM deletions WHERE deletions.id = new.id)
    ON CONFLICT (id) DO NOTHING
    RETURNING id";

/// A batch as the arrays of [`INSERT`].
#[derive(Default)]
pub(super) struct Columns<'a> {
    ids: Vec<Uuid>,
    digests: Vec<&'a [u8]>,
    agents: Vec<Uuid>,
    consents: Vec<i16>,
    deletions: Vec<&'a [u8]>,
    received_ms: Vec<i64>,
    raw_segments: Vec<Option<&'a str>>,
    raw_offsets: Vec<Option<i64>>,
    raw_bytes: Vec<Option<i64>>,
    raw_digests: Vec<Option<&'a [u8]>>,
    facts: Vec<&'a [u8]>,
    summaries: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn from_batch(batch: &'a [NewResult]) -> Self {
        let mut columns = Self::default();
        for result in batch {
            let raw = result.raw.as_ref();
            columns.ids.push(result.id);
            columns.digests.push(&result.digest.0);
            columns.agents.push(result.agent);
            columns.consents.push(consent_code(result.consent) as i16);
            columns.deletions.push(&result.deletion.0);
            columns.received_ms.push(signed(result.received_ms));
            columns.raw_segments.push(raw.map(|range| range.segment.as_str()));
            columns.raw_offsets.push(raw.map(|range| signed(range.offset)));
            columns.raw_bytes.push(raw.map(|range| signed(range.bytes)));
            columns.raw_digests.push(raw.map(|range| range.digest.0.as_slice()));
            columns.facts.push(&result.facts);
            columns.summaries.push(&result.summary);
        }
        columns
    }
}

pub(super) async fn insert(
    connection: &mut Connection,
    batch: &[NewResult],
    columns: &Columns<'_>,
) -> Result<Vec<Inserted>, Error> {
    let arguments: Arguments<'_> = &[
        &columns.ids,
        &columns.digests,
        &columns.agents,
        &columns.consents,
        &columns.deletions,
        &columns.received_ms,
        &columns.raw_segments,
        &columns.raw_offsets,
        &columns.raw_bytes,
        &columns.raw_digests,
        &columns.facts,
        &columns.summaries,
    ];
    connection.begin_change().await?;
    let rows = connection.query(INSERT, arguments).await?;
    let created = rows.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<Uuid>, Error>>()?;
    let mut stored = HashMap::new();
    if created.len() < batch.len() {
        stored.extend(known(connection, &columns.ids).await?);
    }
    connection.commit().await?;
    Ok(outcomes(batch, created, &stored))
}

fn outcomes(
    batch: &[NewResult],
    mut created: HashSet<Uuid>,
    stored: &HashMap<Uuid, Option<Digest>>,
) -> Vec<Inserted> {
    let outcome = |result: &NewResult| {
        // PostgreSQL inserts one of several rows with an id: the first with its digest counts as created.
        let known = stored.get(&result.id).copied();
        match known {
            Some(Some(digest)) if digest != result.digest => Inserted::Conflict,
            _ if created.remove(&result.id) => Inserted::Created,
            Some(None) => Inserted::Deleted,
            _ => Inserted::Known,
        }
    };
    batch.iter().map(outcome).collect()
}

/// Completes a query that selects `id` of the results to delete.
macro_rules! delete_where {
    ($condition:literal) => {
        concat!(
            "WITH gone AS (
                DELETE FROM results WHERE id IN (SELECT id FROM results WHERE ",
            $condition,
            " LIMIT 5000) RETURNING id, raw_segment, raw_offset, raw_bytes, raw_digest
            ), tombstones AS (
                INSERT INTO deletions (sequence, id, deleted_ms) SELECT nextval('changes'), id, $1 FROM gone
            ), erased AS (
                INSERT INTO erasures (raw_segment, raw_offset, raw_bytes, raw_digest)
                SELECT raw_segment, raw_offset, raw_bytes, raw_digest FROM gone WHERE raw_segment IS NOT NULL
            )
            SELECT count(*) FROM gone"
        )
    };
}

pub(super) async fn delete(connection: &mut Connection, which: &Deletion, now_ms: u64) -> Result<u64, Error> {
    let now_ms = signed(now_ms);
    connection.begin_change().await?;
    let rows = match which {
        Deletion::One(id) => connection.query(delete_where!("id = $2"), &[&now_ms, id]).await,
        Deletion::OneWithToken(id, token) => {
            let token = token.0.as_slice();
            connection.query(delete_where!("id = $2 AND deletion = $3"), &[&now_ms, id, &token]).await
        }
        Deletion::AllWithToken(token) => {
            connection.query(delete_where!("deletion = $2"), &[&now_ms, &token.0.as_slice()]).await
        }
        Deletion::ReceivedBefore(limit_ms) => {
            connection.query(delete_where!("received_ms < $2"), &[&now_ms, &signed(*limit_ms)]).await
        }
    }?;
    connection.commit().await?;
    count(&rows)
}
