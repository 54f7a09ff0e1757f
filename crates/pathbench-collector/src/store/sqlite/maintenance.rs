//! Erasures, raw parts, verification, and the copy for a backup.

use super::failure::{failed, failure};
use super::row::{raw_range, unsigned};
use super::{Sqlite, write};
use crate::store::{DatabaseMaintenance, Document, DocumentKind, Erasure, RawRange, StoreError, signed};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, Row, params};
use std::path::Path;
use std::time::Duration;

const COPY_ATTEMPTS: u32 = 100;
const COPY_PAUSE: Duration = Duration::from_millis(100);

impl DatabaseMaintenance for Sqlite {
    fn erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError> {
        // Another process may have deleted results.
        self.empty_log();
        let query = "SELECT number, raw_segment, raw_offset, raw_bytes, raw_digest FROM erasures
                     ORDER BY number LIMIT ?1";
        let erasure = |row: &Row<'_>| {
            let number = unsigned(row, 0)?;
            Ok(raw_range(row, 1)?.map(|range| Erasure { number, range }))
        };
        self.read(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            let rows = statement.query_map([signed(limit as u64)], erasure)?;
            rows.filter_map(Result::transpose).collect()
        })
    }

    fn erased(&self, numbers: &[u64]) -> Result<(), StoreError> {
        self.write(|connection| write::erased(connection, numbers))
    }

    fn segments_after(&self, name: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let query = "SELECT DISTINCT raw_segment FROM results WHERE raw_segment > ?1
                     ORDER BY raw_segment LIMIT ?2";
        self.read(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            statement.query_map(params![name, signed(limit as u64)], |row| row.get(0))?.collect()
        })
    }

    fn ranges(&self, segment: &str) -> Result<Vec<RawRange>, StoreError> {
        let query = "SELECT raw_segment, raw_offset, raw_bytes, raw_digest FROM results
                     WHERE raw_segment = ?1 ORDER BY raw_offset";
        self.read(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            let rows = statement.query_map([segment], |row| raw_range(row, 0))?;
            rows.filter_map(Result::transpose).collect()
        })
    }

    fn add_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError> {
        let query = "INSERT INTO documents VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        let Document { key, body, updated_ms } = document;
        let values = params![kind.name(), key, body, signed(*updated_ms)];
        self.write(|connection| connection.execute(query, values).map(|_| ()))
    }

    fn verify(&self) -> Result<Vec<String>, StoreError> {
        self.read(verify)
    }
}

/// Each query finds at most 100 rows that must not exist.
const RULES: [(&str, &str); 4] = [
    ("is stored and deleted", "SELECT hex(id) FROM results WHERE id IN (SELECT id FROM deletions) LIMIT 100"),
    (
        "has no summary",
        "SELECT hex(id) FROM results WHERE sequence NOT IN (SELECT sequence FROM summaries) LIMIT 100",
    ),
    (
        "shares its sequence number with a deletion",
        "SELECT hex(id) FROM results WHERE sequence IN (SELECT sequence FROM deletions) LIMIT 100",
    ),
    (
        "has a sequence number beyond the last one",
        "SELECT hex(id) FROM results WHERE sequence > (SELECT last FROM changes) LIMIT 100",
    ),
];

fn verify(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut integrity = connection.prepare("PRAGMA integrity_check(100)")?;
    let lines = integrity.query_map([], |row| row.get::<_, String>(0))?;
    let mut problems: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
    problems.retain(|line| line != "ok");
    for (problem, query) in RULES {
        let mut statement = connection.prepare(query)?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        for id in ids {
            problems.push(format!("result {} {problem}", id?.to_ascii_lowercase()));
        }
    }
    problems.truncate(100);
    Ok(problems)
}

impl Sqlite {
    /// Copies a consistent snapshot to a new file while results are stored.
    pub fn copy_to(&self, target: &Path) -> Result<(), StoreError> {
        let at = |error| failure(target, &error);
        let mut copy = Connection::open(target).map_err(at)?;
        // One step copies all under a read lock; with a write-ahead log the writer goes on.
        let copied = self.read(|connection| {
            let backup = Backup::new(connection, &mut copy)?;
            for _ in 0..COPY_ATTEMPTS {
                if backup.step(-1)? == StepResult::Done {
                    return Ok(true);
                }
                std::thread::sleep(COPY_PAUSE);
            }
            Ok(false)
        })?;
        if !copied {
            return Err(failed(target, "the database is locked by another program"));
        }
        // One file, without a log beside it.
        let mode =
            copy.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0));
        match mode.map_err(at)?.as_str() {
            "delete" => Ok(()),
            mode => Err(failed(target, format!("the copy has journal mode {mode}"))),
        }
    }
}
