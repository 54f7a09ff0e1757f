//! The schemas of the `SQLite` file, forward only.

use super::failure::{failed, failure};
use crate::store::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// The script at index N leads from schema N to schema N + 1. A released script never changes.
const SCRIPTS: &[&str] = &[include_str!("0001.sql")];

fn schema(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn compare(path: &Path, found: u32) -> Result<usize, StoreError> {
    let known = SCRIPTS.len() as u32;
    if found > known {
        return Err(StoreError::Newer { location: path.display().to_string(), found, known });
    }
    Ok(found as usize)
}

pub(super) fn refuse_newer(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let found = schema(connection).map_err(|error| failure(path, &error))?;
    compare(path, found).map(|_| ())
}

/// All outstanding scripts in one transaction: another process that opens the file at the same time waits.
pub(super) fn migrate(path: &Path, connection: &mut Connection) -> Result<(), StoreError> {
    let at = |error| failure(path, &error);
    let found = schema(connection).map_err(at)?;
    if compare(path, found)? == SCRIPTS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
    let found = compare(path, schema(&transaction).map_err(at)?)?;
    if found == 0 && has_tables(&transaction).map_err(at)? {
        return Err(failed(path, "the file is a database of another program"));
    }
    for script in &SCRIPTS[found..] {
        transaction.execute_batch(script).map_err(at)?;
    }
    transaction.pragma_update(None, "user_version", SCRIPTS.len() as u32).map_err(at)?;
    transaction.commit().map_err(at)
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}
