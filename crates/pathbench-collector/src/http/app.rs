//! The state that all requests share.

use super::access::Gate;
use super::blocking::blocking;
use super::limits::{Quotas, RateLimit};
use super::metrics::Metrics;
use super::ready::Readiness;
use crate::ingest::Writer;
use crate::log::Log;
use crate::memory::MemoryBudget;
use crate::raw::RawStore;
use crate::reader::ResultReader;
use crate::refusal::Refusal;
use crate::store::Database;
use crate::store::reserve::Reserve;
use crate::turn::Turns;
use pathbench_record::time::SharedClock;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub struct App {
    pub database: Arc<dyn Database>,
    pub raw: Arc<dyn RawStore>,
    pub reader: Arc<ResultReader>,
    pub writer: Writer,
    pub clock: SharedClock,
    pub gate: Gate,
    pub rate: RateLimit,
    pub quotas: Quotas,
    /// Disk for deletions; absent where the stores are elsewhere.
    pub reserve: Option<Reserve>,
    /// Results that the database may hold.
    pub most_results: u64,
    pub memory: MemoryBudget,
    /// Turns at decompressing and parsing bodies.
    pub bodies: Arc<Turns>,
    pub metrics: Arc<Metrics>,
    pub log: Log,
    /// The name in the text about privacy.
    pub operator: Option<String>,
    pub retention: Option<Duration>,
    /// Whether the columns have followed all changes that the database had at the start.
    pub is_loaded: AtomicBool,
    pub readiness: Readiness,
}

impl App {
    /// Runs `work` on the database, on a thread for blocking work.
    pub(super) async fn with_database<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Database) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let database = Arc::clone(&self.database);
        blocking(move || work(database.as_ref())).await
    }
}
