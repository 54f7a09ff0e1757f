//! Columns follow the change feed of the database.

use crate::columns::Columns;
use crate::store::{Database, StoreError};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Changes that are applied while readers wait.
const BATCH: usize = 2_000;

/// Interval of queries without changes, and after an error.
const INTERVAL: Duration = Duration::from_secs(1);

/// Applies all changes that the database has; returns their number.
pub fn load(database: &dyn Database, columns: &RwLock<Columns>) -> Result<usize, StoreError> {
    let mut applied = 0;
    loop {
        let last = columns.read().unwrap_or_else(PoisonError::into_inner).last_sequence();
        let changes = database.changes_after(last, BATCH)?;
        if changes.is_empty() {
            return Ok(applied);
        }
        applied += changes.len();
        columns.write().unwrap_or_else(PoisonError::into_inner).apply(&changes);
    }
}

/// Applies changes until `stop` is closed or gets a message; `report` gets the result of each query. It blocks: give it
/// a thread.
pub fn follow(
    database: &dyn Database,
    columns: &RwLock<Columns>,
    stop: &Receiver<()>,
    mut report: impl FnMut(Result<usize, StoreError>),
) {
    loop {
        report(load(database, columns));
        if stop.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
