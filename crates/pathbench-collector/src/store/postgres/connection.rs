//! One connection, its settings and its prepared statements.

use super::tls::Tls;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};

/// Locks of transactions that write, and of migrations: the first bytes of "pathbench".
pub(super) const WRITE_LOCK: i64 = 0x7061_7468_6265_0001;
pub(super) const MIGRATION_LOCK: i64 = 0x7061_7468_6265_0002;

#[derive(Debug, Clone, Copy)]
pub struct PostgresOptions {
    /// Of this collector.
    pub connections: usize,
    pub connect_timeout: Duration,
    pub statement_timeout: Duration,
    /// Of an operation with all its statements; a server that stops to answer is given up then.
    pub deadline: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(40),
        }
    }
}

/// Arguments of a query.
pub(super) type Arguments<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) struct Connection {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Connection {
    /// Must run on the runtime that drives the connection.
    pub(super) async fn open(
        config: &Config,
        tls: Option<&Tls>,
        options: &PostgresOptions,
    ) -> Result<Self, Error> {
        // The spawned task ends with the client or the server; the client reports the error.
        let client = if let Some(tls) = tls {
            let (client, connection) = config.connect(tls.clone()).await?;
            drop(tokio::spawn(connection));
            client
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            drop(tokio::spawn(connection));
            client
        };
        let statement_ms = options.statement_timeout.as_millis();
        // A server that acknowledges commits before they are on disk does not do so for this collector.
        client
            .batch_execute(&format!(
                "SET statement_timeout = {statement_ms};
                 SET lock_timeout = {statement_ms};
                 SET idle_in_transaction_session_timeout = {statement_ms};
                 SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off';"
            ))
            .await?;
        Ok(Self { client, statements: HashMap::new() })
    }

    async fn prepared(&mut self, query: &'static str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(query) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(query).await?;
        self.statements.insert(query, statement.clone());
        Ok(statement)
    }

    pub(super) async fn query(
        &mut self,
        query: &'static str,
        arguments: Arguments<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(query).await?;
        self.client.query(&statement, arguments).await
    }

    pub(super) async fn execute(
        &mut self,
        query: &'static str,
        arguments: Arguments<'_>,
    ) -> Result<u64, Error> {
        let statement = self.prepared(query).await?;
        self.client.execute(&statement, arguments).await
    }

    /// Begins a transaction in which no other collector changes results. The lock has a statement of its own: the next
    /// one's snapshot is taken after it. A transaction that fails ends with its connection.
    pub(super) async fn begin_change(&mut self) -> Result<(), Error> {
        self.client.batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({WRITE_LOCK})")).await
    }

    pub(super) async fn commit(&mut self) -> Result<(), Error> {
        self.client.batch_execute("COMMIT").await
    }
}
