//! The database in one `SQLite` file: the default, for one collector.

mod database;
mod failure;
mod maintenance;
mod migrations;
mod row;
mod write;

use super::StoreError;
use super::pool::Pool;
use super::reserve::Reserve;
use failure::{failed, failure};
use pathbench_record::file;
use rusqlite::{Connection, OpenFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Another process holds the write lock for the time of its transaction only.
const BUSY: Duration = Duration::from_secs(10);
const READERS: usize = 4;

/// Settings of every connection. FULL: a commit is on disk before it returns. `secure_delete`: deleted summaries
/// are overwritten. 16 KiB pages hold three summaries each.
const SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA secure_delete = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA journal_size_limit = 67108864;
";

#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Pool<Connection>,
    /// Beside the database.
    reserve: Reserve,
}

impl Sqlite {
    /// Opens the database, or creates it, and brings it to the newest schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let at = |error| failure(path, &error);
        // Private results are in it: only its owner reads it, and the log beside it, which has the same mode.
        match file::create_new(path, 0o600) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(path, error.to_string()));
            }
            _ => {}
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut writer = Connection::open_with_flags(path, flags).map_err(at)?;
        writer.busy_timeout(BUSY).map_err(at)?;
        // The page size applies to a new file only. A newer schema is refused before anything is written.
        writer.pragma_update(None, "page_size", 16_384).map_err(at)?;
        migrations::refuse_newer(path, &writer)?;
        let mode: String =
            writer.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(at)?;
        if mode != "wal" {
            return Err(failed(path, "the file system supports no write-ahead log (WAL)"));
        }
        writer.execute_batch(SETTINGS).map_err(at)?;
        writer.pragma_update(None, "cache_size", -65_536).map_err(at)?;
        migrations::migrate(path, &mut writer)?;
        let reserve = Reserve::new(path.with_file_name(Reserve::FILE), 0);
        let (path, writer, readers) = (path.to_owned(), Mutex::new(writer), Pool::new(READERS));
        Ok(Self { path, writer, readers, reserve })
    }

    /// Takes deleted summaries out of the log as well. A reader of an earlier state prevents it, and then nothing waits:
    /// the next round of maintenance tries again, of whichever process.
    fn empty_log(&self) {
        let _ = self.write(|connection| {
            connection.busy_timeout(Duration::ZERO)?;
            let query = "PRAGMA wal_checkpoint(TRUNCATE)";
            let outcome = connection.query_row(query, [], |_| Ok(()));
            connection.busy_timeout(BUSY)?;
            outcome
        });
    }

    fn failure(&self, error: &rusqlite::Error) -> StoreError {
        failure(&self.path, error)
    }

    /// Runs `task` on a connection for reading.
    fn read<T>(&self, task: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let taken = self.readers.take(BUSY);
        let mut permit = taken.ok_or_else(|| failed(&self.path, "all connections for reading are in use"))?;
        let connection = match permit.idle.take() {
            Some(connection) => connection,
            None => self.reader().map_err(|error| self.failure(&error))?,
        };
        let outcome = task(&connection).map_err(|error| self.failure(&error));
        if outcome.is_ok() {
            permit.keep(connection);
        }
        outcome
    }

    fn reader(&self) -> rusqlite::Result<Connection> {
        // Not read-only: the last connection to a WAL must be able to write.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.execute_batch(SETTINGS)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// Runs a `task` that deletes on the connection for writing; on a full disk with the space of the reserve.
    fn write_deletion<T>(
        &self,
        task: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match self.write(&task) {
            Err(StoreError::Full { .. }) if self.reserve.release() => self.write(&task),
            outcome => outcome,
        }
    }

    /// Runs `task` on the connection for writing.
    fn write<T>(&self, task: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        // A panic in an earlier task has rolled its transaction back.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        task(&mut writer).map_err(|error| self.failure(&error))
    }
}
