//! A reader with synthetic results, live reports and servers, in memory.

use super::memory::{MemoryDatabase, MemoryRawStore, new_result};
use super::synthetic::{Campaign, FIRST_MS};
use pathbench_api::consent::Consent;
use pathbench_collector::columns::{Columns, Filter};
use pathbench_collector::raw::RawStore;
use pathbench_collector::reader::{ResultReader, load};
use pathbench_collector::store::{Database, Document, DocumentKind, StoredResult};
use pathbench_record::time::{Clock, SharedClock, Timestamp, WallClock};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// A clock that a test moves.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

/// 2026-11-20, 50 days after the first synthetic result.
pub const NOW_MS: u64 = FIRST_MS + 50 * 86_400_000;

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::default() + *self.0.lock().unwrap()
    }

    /// # Panics
    /// Always: only the test moves the clock.
    fn sleep_until(&self, deadline: Timestamp) {
        panic!("a sleep until {deadline:?}");
    }
}

impl WallClock for ManualClock {
    fn since_epoch(&self) -> Duration {
        Duration::from_millis(NOW_MS)
    }
}

/// A finished result of the tests of pathbench-record.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pathbench-record/tests/golden").join(name)
}

/// The files of a directory as a `.tar.zst` file, below `prefix`.
pub fn packed(directory: &Path, prefix: &str) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        archive.append_path_with_name(&path, name).unwrap();
    }
    zstd::encode_all(archive.into_inner().unwrap().as_slice(), 3).unwrap()
}

/// The newest results of a filter.
pub fn newest(reader: &ResultReader, filter: &Filter, most: usize) -> Vec<StoredResult> {
    let (_, sequences, _) = reader.newest(filter, (None, most));
    let mut results = Vec::new();
    reader.each(filter.viewer, &sequences, |one| results.push(one.clone())).unwrap();
    results
}

pub struct Demo {
    pub database: Arc<MemoryDatabase>,
    pub raw: Arc<MemoryRawStore>,
    pub reader: Arc<ResultReader>,
}

impl Default for Demo {
    fn default() -> Self {
        Self::new(Campaign::default(), 0)
    }
}

impl Demo {
    pub fn new(campaign: Campaign, results: u64) -> Self {
        Self::with_clock(campaign, results, Arc::new(ManualClock::default()))
    }

    pub fn with_clock(campaign: Campaign, results: u64, clock: SharedClock) -> Self {
        let (database, raw) = (Arc::new(MemoryDatabase::default()), Arc::new(MemoryRawStore::default()));
        let raw_part = packed(&golden("v1-messages"), "result/");
        let ranges = raw.append(&[&raw_part]).unwrap();
        let make = |index| new_result(&campaign.checked(index), (index % 2 == 0).then(|| ranges[0].clone()));
        let all: Vec<_> = (0..results).map(make).collect();
        database.insert(&all).unwrap();
        let columns = Arc::new(RwLock::new(Columns::default()));
        let reader = ResultReader::new(
            Arc::clone(&database) as Arc<dyn Database>,
            Arc::clone(&raw) as Arc<dyn RawStore>,
            columns,
            clock,
        );
        let demo = Self { database, raw, reader: Arc::new(reader) };
        demo.load();
        demo
    }

    pub fn load(&self) {
        load(self.database.as_ref(), &self.reader.columns).unwrap();
    }

    pub fn put(&self, kind: DocumentKind, key: &str, body: String) {
        let document = Document { key: key.to_owned(), body, updated_ms: NOW_MS };
        self.database.put_document(kind, &document).unwrap();
    }

    /// A running measurement of an agent with this consent.
    pub fn put_live(&self, key: &str, name: &str, consent: Consent) {
        let name = serde_json::json!(name);
        let report = serde_json::json!({
            "agent": name, "experiment": "hourly", "server": "europe.example", "transport": "mptcp",
            "pattern": "throughput-download", "runs_done": 3, "runs_planned": 12,
            "paths": [{ "name": "wlan0", "goodput_mbps": 48.2 }, { "name": "wwan0", "goodput_mbps": 0.61 }],
        });
        self.put(
            DocumentKind::Live,
            key,
            serde_json::json!({ "consent": consent, "report": report }).to_string(),
        );
    }

    pub fn put_server(&self, name: &str, address: &str, tests: u32) {
        let report = serde_json::json!({
            "address": address, "transports": ["tcp", "mptcp", "quic", "mpquic"], "tests": tests, "max_tests": 4,
            "draining": false, "version": "0.1.0",
        });
        let known = serde_json::json!({ "address": address, "report": report });
        self.put(DocumentKind::ServerReport, name, known.to_string());
    }
}
