//! Transactions.

use crate::store::{
    DELETED_AT_ONCE, Deletion, Document, DocumentKind, Inserted, NewResult, consent_code, signed,
};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension as _, Transaction, TransactionBehavior, params,
};

fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn last_sequence(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    transaction.query_row("SELECT last FROM changes", [], |row| row.get(0))
}

fn set_last_sequence(transaction: &Transaction<'_>, last: i64) -> rusqlite::Result<()> {
    transaction.execute("UPDATE changes SET last = ?1", [last]).map(|_| ())
}

const INSERT: &str = "
    INSERT INTO results (sequence, id, digest, agent, consent, deletion, received_ms,
        raw_segment, raw_offset, raw_bytes, raw_digest, facts)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (id) DO NOTHING";

struct Statements<'a> {
    deleted: CachedStatement<'a>,
    result: CachedStatement<'a>,
    summary: CachedStatement<'a>,
    digest: CachedStatement<'a>,
}

pub(super) fn insert(connection: &mut Connection, batch: &[NewResult]) -> rusqlite::Result<Vec<Inserted>> {
    let transaction = begin(connection)?;
    let mut last = last_sequence(&transaction)?;
    let mut inserted = Vec::with_capacity(batch.len());
    {
        let mut statements = Statements {
            deleted: transaction.prepare_cached("SELECT 1 FROM deletions WHERE id = ?1")?,
            result: transaction.prepare_cached(INSERT)?,
            summary: transaction.prepare_cached("INSERT INTO summaries VALUES (?1, ?2)")?,
            digest: transaction.prepare_cached("SELECT digest FROM results WHERE id = ?1")?,
        };
        for result in batch {
            let outcome = insert_one(&mut statements, last + 1, result)?;
            last += i64::from(outcome == Inserted::Created);
            inserted.push(outcome);
        }
    }
    set_last_sequence(&transaction, last)?;
    transaction.commit()?;
    Ok(inserted)
}

fn insert_one(to: &mut Statements<'_>, sequence: i64, result: &NewResult) -> rusqlite::Result<Inserted> {
    let id = result.id.as_bytes();
    if to.deleted.exists([id])? {
        return Ok(Inserted::Deleted);
    }
    let raw = result.raw.as_ref();
    let added = to.result.execute(params![
        sequence,
        id,
        result.digest.0,
        result.agent.as_bytes(),
        consent_code(result.consent),
        result.deletion.0,
        signed(result.received_ms),
        raw.map(|range| &range.segment),
        raw.map(|range| signed(range.offset)),
        raw.map(|range| signed(range.bytes)),
        raw.map(|range| range.digest.0),
        result.facts,
    ])?;
    if added == 1 {
        to.summary.execute(params![sequence, result.summary])?;
        return Ok(Inserted::Created);
    }
    let stored: [u8; 32] = to.digest.query_row([id], |row| row.get(0))?;
    Ok(if stored == result.digest.0 { Inserted::Known } else { Inserted::Conflict })
}

pub(super) fn delete(connection: &mut Connection, which: &Deletion, now_ms: u64) -> rusqlite::Result<u64> {
    let transaction = begin(connection)?;
    let sequences = affected(&transaction, which)?;
    let mut last = last_sequence(&transaction)?;
    for sequence in &sequences {
        last += 1;
        let mut tombstone = transaction
            .prepare_cached("INSERT INTO deletions SELECT ?1, id, ?2 FROM results WHERE sequence = ?3")?;
        tombstone.execute(params![last, signed(now_ms), sequence])?;
        let mut erasure = transaction.prepare_cached(
            "INSERT INTO erasures (raw_segment, raw_offset, raw_bytes, raw_digest)
             SELECT raw_segment, raw_offset, raw_bytes, raw_digest FROM results
             WHERE sequence = ?1 AND raw_segment IS NOT NULL",
        )?;
        erasure.execute([sequence])?;
        transaction.prepare_cached("DELETE FROM summaries WHERE sequence = ?1")?.execute([sequence])?;
        transaction.prepare_cached("DELETE FROM results WHERE sequence = ?1")?.execute([sequence])?;
    }
    set_last_sequence(&transaction, last)?;
    transaction.commit()?;
    Ok(sequences.len() as u64)
}

fn affected(transaction: &Transaction<'_>, which: &Deletion) -> rusqlite::Result<Vec<i64>> {
    let most = signed(DELETED_AT_ONCE);
    match which {
        Deletion::One(id) => transaction
            .query_row("SELECT sequence FROM results WHERE id = ?1", [id.as_bytes()], |row| row.get(0))
            .optional()
            .map(|found| found.into_iter().collect()),
        Deletion::OneWithToken(id, token) => transaction
            .query_row(
                "SELECT sequence FROM results WHERE id = ?1 AND deletion = ?2",
                params![id.as_bytes(), token.0],
                |row| row.get(0),
            )
            .optional()
            .map(|found| found.into_iter().collect()),
        Deletion::AllWithToken(token) => transaction
            .prepare_cached("SELECT sequence FROM results WHERE deletion = ?1 LIMIT ?2")?
            .query_map(params![token.0, most], |row| row.get(0))?
            .collect(),
        Deletion::ReceivedBefore(limit_ms) => transaction
            .prepare_cached(
                "SELECT sequence FROM results WHERE received_ms < ?1 ORDER BY received_ms LIMIT ?2",
            )?
            .query_map(params![signed(*limit_ms), most], |row| row.get(0))?
            .collect(),
    }
}

pub(super) fn put_document(
    connection: &mut Connection,
    kind: DocumentKind,
    document: &Document,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO documents VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body, updated_ms = excluded.updated_ms",
    )?;
    let updated_ms = signed(document.updated_ms);
    statement.execute(params![kind.name(), document.key, document.body, updated_ms]).map(|_| ())
}

pub(super) fn delete_document(
    connection: &mut Connection,
    kind: DocumentKind,
    key: &str,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("DELETE FROM documents WHERE kind = ?1 AND key = ?2")?;
    statement.execute(params![kind.name(), key]).map(|removed| removed > 0)
}

pub(super) fn delete_documents(
    connection: &mut Connection,
    kind: DocumentKind,
    before_ms: u64,
) -> rusqlite::Result<u64> {
    let query = "DELETE FROM documents WHERE kind = ?1 AND updated_ms < ?2";
    let mut statement = connection.prepare_cached(query)?;
    statement.execute(params![kind.name(), signed(before_ms)]).map(|deleted| deleted as u64)
}

/// Writes without a change: a full or read-only file system fails.
pub(super) fn check(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE changes SET last = last", []).map(|_| ())
}

pub(super) fn erased(connection: &mut Connection, numbers: &[u64]) -> rusqlite::Result<()> {
    let transaction = begin(connection)?;
    for number in numbers {
        transaction.prepare_cached("DELETE FROM erasures WHERE number = ?1")?.execute([signed(*number)])?;
    }
    transaction.commit()
}
