//! The schemas of the `PostgreSQL` database, forward only.

use super::Postgres;
use super::connection::{Connection, MIGRATION_LOCK};
use crate::store::StoreError;
use tokio_postgres::Error;

/// The script at index N leads from schema N to schema N + 1. A released script never changes.
const SCRIPTS: &[&str] = &[include_str!("0001.sql")];

impl Postgres {
    /// In one transaction: collectors that start together wait for the first one.
    pub(super) fn migrate(&self) -> Result<(), StoreError> {
        let known = SCRIPTS.len() as u32;
        let found = self.call(async |connection| migrate(connection).await)?;
        if found > known {
            return Err(StoreError::Newer { location: self.location.clone(), found, known });
        }
        Ok(())
    }
}

/// Returns the schema that was found; a newer one is left as it is.
async fn migrate(connection: &mut Connection) -> Result<u32, Error> {
    let client = &connection.client;
    client.batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")).await?;
    client.batch_execute("CREATE TABLE IF NOT EXISTS pathbench_schema (version integer NOT NULL)").await?;
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM pathbench_schema", &[]).await?;
    let found: i32 = row.try_get(0)?;
    let found = found.max(0).unsigned_abs();
    for (version, script) in (1..).zip(SCRIPTS).skip(found as usize) {
        client.batch_execute(script).await?;
        client.batch_execute(&format!("INSERT INTO pathbench_schema VALUES ({version})")).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(found)
}
