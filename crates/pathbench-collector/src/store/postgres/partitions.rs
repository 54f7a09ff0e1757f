//! Partitions of results by month.

use super::connection::Connection;
use pathbench_api::Uuid;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

const DAY_MS: u64 = 86_400_000;

/// Time between two attempts to make a partition that another program's lock prevents.
const PAUSE_MS: u64 = 600_000;

/// Months since January of year 0, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Month(u64);

impl Month {
    /// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
    pub(super) fn from_unix_ms(unix_ms: u64) -> Self {
        let days = unix_ms / DAY_MS + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Years begin in March there.
        let month = (5 * day_of_year + 2) / 153;
        Self((era * 400 + year_of_era) * 12 + month + 2)
    }

    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Unix time of its first millisecond.
    pub(super) fn begin_ms(self) -> u64 {
        let from_march = self.0 - 2;
        let (year, month) = (from_march / 12, from_march % 12);
        let (era, year_of_era) = (year / 400, year % 400);
        let day_of_year = (153 * month + 2) / 5;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        (era * 146_097 + day_of_era - 719_468) * DAY_MS
    }

    /// No `UUIDv7` of this month or a later one is smaller.
    fn first_id(self) -> Uuid {
        Uuid::from_u128(u128::from(self.begin_ms()) << 80)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        // date -u -d 2024-03-01 +%s
        for (begin_s, table) in [
            (1_577_836_800, "results_2020_01"),
            (1_583_020_800, "results_2020_03"),
            (1_709_251_200, "results_2024_03"),
            (1_730_419_200, "results_2024_11"),
            (4_107_542_400, "results_2100_03"),
        ] {
            let begin_ms = begin_s * 1_000;
            let month = Month::from_unix_ms(begin_ms);
            assert_eq!(month.table(), table);
            assert_eq!(month.begin_ms(), begin_ms);
            assert_eq!(Month::from_unix_ms(begin_ms - 1).next(), month);
            assert_eq!(Month::from_unix_ms(month.next().begin_ms() - 1), month);
        }
    }
}
