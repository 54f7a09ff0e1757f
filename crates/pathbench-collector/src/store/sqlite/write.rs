//! Transactions.

use crate::store::{DELETED_AT_ONCE, Deletion, Inserted, NewResult, consent_code, signed};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Transaction, TransactionBehavior, params, params_from_iter};

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
    let blob = |bytes: &[u8]| Value::Blob(bytes.to_vec());
    let (condition, values) = match which {
        Deletion::One(id) => ("id = ?1", vec![blob(id.as_bytes())]),
        Deletion::OneWithToken(id, token) => {
            ("id = ?1 AND deletion = ?2", vec![blob(id.as_bytes()), blob(&token.0)])
        }
        Deletion::AllWithToken(token) => ("deletion = ?1", vec![blob(&token.0)]),
        Deletion::ReceivedBefore(limit_ms) => {
            ("received_ms < ?1 ORDER BY received_ms", vec![Value::Integer(signed(*limit_ms))])
        }
    };
    let query = format!("SELECT sequence FROM results WHERE {condition} LIMIT {DELETED_AT_ONCE}");
    let mut statement = transaction.prepare_cached(&query)?;
    statement.query_map(params_from_iter(values), |row| row.get(0))?.collect()
}

pub(super) fn erased(connection: &mut Connection, numbers: &[u64]) -> rusqlite::Result<()> {
    let transaction = begin(connection)?;
    for number in numbers {
        transaction.prepare_cached("DELETE FROM erasures WHERE number = ?1")?.execute([signed(*number)])?;
    }
    transaction.commit()
}
