//! The database in `PostgreSQL`, for several collectors and many clients.

mod address;
mod connection;
mod database;
mod maintenance;
mod migrations;
mod partitions;
mod row;
mod tls;
mod write;

use super::StoreError;
use super::pool::Pool;
use address::Address;
use connection::Connection;
pub use connection::PostgresOptions;
use partitions::Partitions;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tls::Tls;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};

/// Its methods must not be called on a thread of an async runtime, except on one for blocking calls.
pub struct Postgres {
    /// Host and database, without the password.
    location: String,
    config: Config,
    tls: Option<Tls>,
    options: PostgresOptions,
    pool: Pool<Connection>,
    partitions: Partitions,
    /// Drives the connections; `None` only while this value is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("location", &self.location)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime blocks, which panics on a thread of another one.
            runtime.shutdown_background();
        }
    }
}

enum Failure {
    Server(Error),
    Deadline,
}

impl Postgres {
    /// Connects to `postgres://…`, by TLS with `sslmode=require`, and brings the database to the newest schema.
    pub fn connect(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let Address { mut config, tls, location } = Address::parse(url)?;
        config
            .connect_timeout(options.connect_timeout)
            .tcp_user_timeout(options.deadline)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .application_name("pathbench-collector");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Failed { location: location.clone(), problem: error.to_string() })?;
        let database = Self {
            location,
            config,
            tls,
            options,
            pool: Pool::new(options.connections),
            partitions: Partitions::default(),
            runtime: Some(runtime),
        };
        database.migrate()?;
        Ok(database)
    }

    fn failed(&self, problem: impl Into<String>) -> StoreError {
        StoreError::Failed { location: self.location.clone(), problem: problem.into() }
    }

    fn failure(&self, failure: &Failure) -> StoreError {
        let error = match failure {
            Failure::Deadline => {
                return self.failed(format!("no answer within {} s", self.options.deadline.as_secs()));
            }
            Failure::Server(error) => error,
        };
        if error.code() == Some(&SqlState::DISK_FULL) {
            return StoreError::Full { location: self.location.clone() };
        }
        let detail = error.as_db_error().map(|error| error.message().to_owned());
        let cause = || error.source().map(ToString::to_string);
        self.failed(detail.or_else(cause).unwrap_or_else(|| error.to_string()))
    }

    /// Runs `task` on a connection. Every task can be repeated: it is, once, if the server closed an idle connection. A
    /// connection on which a task fails is closed, and with it the task's transaction.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass closures")]
    fn call<T>(&self, task: impl AsyncFn(&mut Connection) -> Result<T, Error>) -> Result<T, StoreError> {
        let Some(runtime) = &self.runtime else { return Err(self.failed("it is closed")) };
        let taken = self.pool.take(self.options.deadline);
        let mut permit = taken.ok_or_else(|| self.failed("all connections are in use"))?;
        let idle = permit.idle.take().filter(|connection| !connection.client.is_closed());
        let attempt = async {
            if let Some(mut connection) = idle {
                match task(&mut connection).await {
                    Err(error) if error.is_closed() => {}
                    outcome => return outcome.map(|value| (connection, value)),
                }
            }
            let mut connection = Connection::open(&self.config, self.tls.as_ref(), &self.options).await?;
            let value = task(&mut connection).await?;
            Ok((connection, value))
        };
        let within = async { tokio::time::timeout(self.options.deadline, attempt).await };
        let failure = match runtime.block_on(within) {
            Ok(Ok((connection, value))) => {
                permit.keep(connection);
                return Ok(value);
            }
            Ok(Err(error)) => Failure::Server(error),
            Err(_) => Failure::Deadline,
        };
        Err(self.failure(&failure))
    }
}
