//! Partitions of results by month.

use super::connection::Connection;
use pathbench_api::Uuid;
use pathbench_record::time::{rfc3339_from_unix, unix_from_rfc3339};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Time between two attempts to make a partition that another program's lock prevents.
const PAUSE_MS: u64 = 600_000;

/// Months since January of year 0, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Month(u64);

impl Month {
    fn from_unix_ms(unix_ms: u64) -> Self {
        let date = rfc3339_from_unix(i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX));
        let mut parts = date.split('-').map_while(|part| part.parse().ok());
        let (year, month): (u64, u64) = (parts.next().unwrap_or(1970), parts.next().unwrap_or(1));
        Self(year * 12 + month - 1)
    }

    fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// No `UUIDv7` of this month or a later one is smaller.
    fn first_id(self) -> Uuid {
        let begin = format!("{:04}-{:02}-01T00:00:00Z", self.0 / 12, self.0 % 12 + 1);
        let begin_ms = unix_from_rfc3339(&begin).unwrap_or_default() * 1_000;
        Uuid::from_u128(u128::from(begin_ms) << 80)
    }

    fn table(self) -> String {
        format!("results_{:04}_{:02}", self.0 / 12, self.0 % 12 + 1)
    }
}

/// The partitions that this collector has made or found.
#[derive(Debug, Default)]
pub(super) struct Partitions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    newest: Option<Month>,
    /// Unix time before which it does not try again.
    not_before_ms: u64,
}

impl Partitions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The month whose partition, and that of the next one, are to be made: no id is more than a day ahead of its
    /// reception. Without them the default partition takes the results, so a lock of another program (`pg_dump`) delays
    /// nothing.
    pub(super) fn next_month(&self, now_ms: u64) -> Option<Month> {
        let month = Month::from_unix_ms(now_ms);
        let mut state = self.state();
        if state.newest >= Some(month) || now_ms < state.not_before_ms {
            return None;
        }
        state.not_before_ms = now_ms.saturating_add(PAUSE_MS);
        Some(month)
    }

    pub(super) fn set_newest(&self, month: Month) {
        self.state().newest = Some(month);
    }
}

/// Makes the partitions of a month and the next; whether they exist afterwards.
pub(super) async fn make_two(connection: &mut Connection, month: Month) -> Result<bool, Error> {
    Ok(make(connection, month).await? && make(connection, month.next()).await?)
}

/// Whether the partition exists afterwards.
async fn make(connection: &mut Connection, month: Month) -> Result<bool, Error> {
    connection.begin_change().await?;
    let table = month.table();
    let client = &connection.client;
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await?;
    if row.try_get(0)? {
        connection.commit().await?;
        return Ok(true);
    }
    // Rows of the month that the default partition has already move along.
    let (from, to) = (month.first_id(), month.next().first_id());
    let script = format!(
        "SET LOCAL lock_timeout = 2000;
         LOCK TABLE results_default IN ACCESS EXCLUSIVE MODE;
         CREATE TABLE {table} (LIKE results INCLUDING ALL);
         WITH moved AS (DELETE FROM results_default WHERE id >= '{from}' AND id < '{to}' RETURNING *)
         INSERT INTO {table} SELECT * FROM moved;
         ALTER TABLE results ATTACH PARTITION {table} FOR VALUES FROM ('{from}') TO ('{to}');"
    );
    match client.batch_execute(&script).await {
        Ok(()) => {
            connection.commit().await?;
            Ok(true)
        }
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            client.batch_execute("ROLLBACK").await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
