//! The results that a viewer may see, as charts and pages.

use super::cache::Cache;
use crate::chart::{Chart, Scene};
use crate::columns::{Columns, Dimension, Filter};
use crate::memory::MemoryBudget;
use crate::raw::RawStore;
use crate::refusal::Refusal;
use crate::store::{Database, StoreError, StoredResult};
use crate::turn::Turns;
use crate::viewer::Viewer;
use bytes::Bytes;
use pathbench_api::Uuid;
use pathbench_record::time::{SharedClock, Timestamp};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// Turns at reading columns or the database at the same time, and of one client; more wait.
const MOST_READS: usize = 16;
const MOST_READS_OF_CLIENT: usize = 4;

/// Reports and raw parts that are unpacked at the same time, and of one client; and those that take long, each alone.
const MOST_UNPACKED: usize = 2;
const MOST_UNPACKED_OF_CLIENT: usize = 1;
const MOST_HEAVY: usize = 1;

/// Charts are computed again after this time if there are changes.
const CHART_AGE: Duration = Duration::from_secs(5);

/// Choices of filters are collected again after this time.
const OPTIONS_AGE: Duration = Duration::from_secs(30);

/// Choices of a dimension.
const MOST_OPTIONS: usize = 100;

/// Charts and reports in memory.
const MOST_CHARTS: usize = 64;
const MOST_REPORTS: usize = 8;
const MOST_ANONYMOUS: usize = 16;

/// Results in memory at a time, of at most 64 KiB each.
pub(super) const RESULTS_AT_ONCE: usize = 4;

/// Memory of all answers together, unless the operator sets another.
const ANSWER_BYTES: usize = 256 << 20;

/// The sources of all answers.
#[derive(Debug)]
pub struct ResultReader {
    pub database: Arc<dyn Database>,
    pub raw: Arc<dyn RawStore>,
    pub columns: Arc<RwLock<Columns>>,
    pub clock: SharedClock,
    /// For answers that their clients have not read yet, and for reports that are kept.
    pub answers: MemoryBudget,
    /// Answers with status 500 since the start.
    pub failures: AtomicU64,
    pub(super) reads: Arc<Turns>,
    pub(super) unpacking: Arc<Turns>,
    /// For raw parts that take more than the light effort.
    pub(super) heavy: Arc<Turns>,
    charts: Cache<(Filter, String), Drawn>,
    /// By the state of the public names.
    pub(super) reports: Cache<(Uuid, Viewer, u64), Result<Bytes, Refusal>>,
    /// Raw parts in the anonymous form, or why they have none; by the state of the public names.
    pub(super) anonymous: Cache<(Uuid, u64), Result<Bytes, Refusal>>,
    /// By the state of the public names.
    options: Cache<(Viewer, u64), FilterChoices>,
}

/// Values of dimensions that a viewer can choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterChoices {
    pub server: Vec<String>,
    pub operator: Vec<String>,
    pub experiment: Vec<String>,
    pub scenario: Vec<String>,
}

/// A chart, and the state of the columns and the time at which it was computed.
#[derive(Debug)]
struct Drawn {
    chart: Arc<Chart>,
    sequence: u64,
    /// State of the public names.
    disclosure: u64,
    at: Timestamp,
}

impl ResultReader {
    pub fn new(
        database: Arc<dyn Database>,
        raw: Arc<dyn RawStore>,
        columns: Arc<RwLock<Columns>>,
        clock: SharedClock,
    ) -> Self {
        Self {
            database,
            raw,
            columns,
            reads: Turns::new(MOST_READS, MOST_READS_OF_CLIENT, Arc::clone(&clock)),
            unpacking: Turns::new(MOST_UNPACKED, MOST_UNPACKED_OF_CLIENT, Arc::clone(&clock)),
            heavy: Turns::new(MOST_HEAVY, MOST_HEAVY, Arc::clone(&clock)),
            clock,
            answers: MemoryBudget::new(ANSWER_BYTES),
            failures: AtomicU64::new(0),
            charts: Cache::new(MOST_CHARTS),
            reports: Cache::new(MOST_REPORTS),
            anonymous: Cache::new(MOST_ANONYMOUS),
            options: Cache::new(2),
        }
    }

    pub fn columns(&self) -> RwLockReadGuard<'_, Columns> {
        self.columns.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The charts of these names; all from one scan of the filter. Unknown names are left out.
    pub fn charts(&self, filter: &Filter, names: &[&str]) -> Vec<Arc<Chart>> {
        let now = self.clock.now();
        let key = |name: &str| (filter.clone(), name.to_owned());
        let columns = self.columns();
        let sequence = columns.last_sequence();
        let disclosure = columns.disclosure_version();
        let is_valid = |drawn: &Arc<Drawn>| {
            drawn.disclosure == disclosure
                && (drawn.sequence == sequence || now.duration_since(drawn.at) < CHART_AGE)
        };
        let known = |name: &&str| self.charts.get(&key(name), now, Duration::MAX).filter(is_valid);
        let known: Vec<Option<Arc<Drawn>>> = names.iter().map(known).collect();
        if known.iter().all(Option::is_some) {
            return known.into_iter().flatten().map(|drawn| Arc::clone(&drawn.chart)).collect();
        }
        let scene = Scene::new(&columns, filter);
        let made = names.iter().zip(known).filter_map(|(name, known)| {
            if let Some(known) = known {
                return Some(Arc::clone(&known.chart));
            }
            let chart = Arc::new(scene.chart(name)?);
            let drawn = Drawn { chart: Arc::clone(&chart), sequence, disclosure, at: now };
            self.charts.put(key(name), now, Arc::new(drawn));
            Some(chart)
        });
        made.collect()
    }

    pub fn options(&self, viewer: Viewer) -> Arc<FilterChoices> {
        let now = self.clock.now();
        let columns = self.columns();
        let key = (viewer, columns.disclosure_version());
        if let Some(known) = self.options.get(&key, now, OPTIONS_AGE) {
            return known;
        }
        let scene = Scene::new(&columns, &Filter::new(viewer));
        let names = |dimension| scene.members(dimension, MOST_OPTIONS);
        let options = Arc::new(FilterChoices {
            server: names(Dimension::Server),
            operator: names(Dimension::Operator),
            experiment: names(Dimension::Experiment),
            scenario: names(Dimension::Scenario),
        });
        self.options.put(key, now, Arc::clone(&options));
        options
    }

    pub fn chart(&self, filter: &Filter, name: &str) -> Option<Arc<Chart>> {
        self.charts(filter, &[name]).into_iter().next()
    }

    /// The number of results that pass the filter, the sequence numbers of a page of them from the newest, and the cursor
    /// of the next page if there is one.
    pub fn newest(
        &self,
        filter: &Filter,
        (before, limit): (Option<u64>, usize),
    ) -> (u64, Vec<u64>, Option<u64>) {
        let columns = self.columns();
        let selection = columns.select(filter);
        let mut sequences = columns.newest(&selection, before, limit.saturating_add(1));
        let has_next = sequences.len() > limit;
        sequences.truncate(limit);
        let next = sequences.last().copied().filter(|_| has_next);
        (selection.len() as u64, sequences, next)
    }

    /// Calls `visit` with the results of these sequence numbers that the viewer may see; a few are in memory at a time.
    pub fn each(
        &self,
        viewer: Viewer,
        sequences: &[u64],
        mut visit: impl FnMut(&StoredResult),
    ) -> Result<(), StoreError> {
        for some in sequences.chunks(RESULTS_AT_ONCE) {
            self.database
                .results(some)?
                .iter()
                .filter(|one| viewer.may_see(one.consent))
                .for_each(&mut visit);
        }
        Ok(())
    }

    /// Frees memory for answers.
    pub(super) fn forget_answers(&self) {
        self.reports.clear();
        self.anonymous.clear();
    }

    /// A result that the viewer may see.
    pub fn result(&self, viewer: Viewer, id: Uuid) -> Result<StoredResult, Refusal> {
        let found = self.database.result(id)?.filter(|one| viewer.may_see(one.consent));
        found.ok_or_else(|| Refusal::not_found("no such result"))
    }

    /// The raw part of a result, as it was submitted.
    pub(super) fn raw_part(&self, result: &StoredResult) -> Result<Vec<u8>, Refusal> {
        let no_raw = || Refusal::not_found("the result was submitted without its raw part");
        Ok(self.raw.read(result.raw.as_ref().ok_or_else(no_raw)?)?)
    }
}
