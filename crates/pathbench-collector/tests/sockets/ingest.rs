//! The writer: statuses, batches, bounds, failures and panics.

use crate::support::results::{NOW_MS, checked, id_at};
use crate::support::{MovedClock, random, results, within};
use axum::body::Body;
use axum::http::Request;
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use pathbench_api::problem::LineStatus::{self, Conflict, Created, Deleted, Known};
use pathbench_api::submission::Checked;
use pathbench_collector::columns::Columns;
use pathbench_collector::http::access::{Gate, SubmitAccess};
use pathbench_collector::http::limits::{Quotas, RateLimit};
use pathbench_collector::http::ready::Readiness;
use pathbench_collector::http::{App, Metrics, router};
use pathbench_collector::ingest::{NotWritten, SubmissionGroup, Writer, WriterOptions, WrittenGroup};
use pathbench_collector::keys::Keys;
use pathbench_collector::log::Log;
use pathbench_collector::memory::MemoryBudget;
use pathbench_collector::raw::directory::Directory;
use pathbench_collector::raw::{RawError, RawStore};
use pathbench_collector::reader::ResultReader;
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{
    Database, Deletion, Document, DocumentKind, Inserted, NewResult, RawRange, ResultChange, StoreError,
    StoredResult,
};
use pathbench_collector::turn::Turns;
use pathbench_record::time::SharedClock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tempfile::TempDir;
use tower::ServiceExt as _;

/// A database that fails or waits when a test says so.
#[derive(Debug)]
struct Faulty {
    inner: Sqlite,
    full: AtomicBool,
    inserts: AtomicUsize,
    /// An insert waits for a message, if there is a gate.
    gate: Mutex<Option<Receiver<()>>>,
}

impl Database for Faulty {
    fn known(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, Option<Digest>)>, StoreError> {
        self.inner.known(ids)
    }

    fn insert(&self, batch: &[NewResult]) -> Result<Vec<Inserted>, StoreError> {
        self.inserts.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &*self.gate.lock().unwrap() {
            gate.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        if self.full.load(Ordering::SeqCst) {
            return Err(StoreError::Full { location: "test".to_owned() });
        }
        self.inner.insert(batch)
    }

    fn changes_after(&self, sequence: u64, limit: usize) -> Result<Vec<ResultChange>, StoreError> {
        self.inner.changes_after(sequence, limit)
    }

    fn results(&self, sequences: &[u64]) -> Result<Vec<StoredResult>, StoreError> {
        self.inner.results(sequences)
    }

    fn result(&self, id: Uuid) -> Result<Option<StoredResult>, StoreError> {
        self.inner.result(id)
    }

    fn delete(&self, which: &Deletion, now_ms: u64) -> Result<u64, StoreError> {
        self.inner.delete(which, now_ms)
    }

    fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<Document>, StoreError> {
        self.inner.document(kind, key)
    }

    fn documents_since(
        &self,
        kind: DocumentKind,
        since_ms: u64,
        (after, limit): (&str, usize),
    ) -> Result<Vec<Document>, StoreError> {
        self.inner.documents_since(kind, since_ms, (after, limit))
    }

    fn count_documents(&self, kind: DocumentKind, since_ms: u64) -> Result<u64, StoreError> {
        self.inner.count_documents(kind, since_ms)
    }

    fn put_document(&self, kind: DocumentKind, document: &Document) -> Result<(), StoreError> {
        self.inner.put_document(kind, document)
    }

    fn delete_document(&self, kind: DocumentKind, key: &str) -> Result<bool, StoreError> {
        self.inner.delete_document(kind, key)
    }

    fn delete_documents(&self, kind: DocumentKind, before_ms: u64) -> Result<u64, StoreError> {
        self.inner.delete_documents(kind, before_ms)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.inner.check()
    }
}

/// A raw store that panics at a part that begins so.
#[derive(Debug)]
struct Explosive(Directory);

const EXPLOSIVE: &[u8] = b"explosive";

impl RawStore for Explosive {
    fn append(&self, parts: &[&[u8]]) -> Result<Vec<RawRange>, RawError> {
        assert!(!parts.iter().any(|part| part.starts_with(EXPLOSIVE)), "the raw store explodes");
        self.0.append(parts)
    }

    fn read(&self, range: &RawRange) -> Result<Vec<u8>, RawError> {
        self.0.read(range)
    }

    fn erase(&self, ranges: &[RawRange]) -> Result<(), RawError> {
        self.0.erase(ranges)
    }

    fn check(&self) -> Result<(), RawError> {
        self.0.check()
    }
}

struct Bench {
    _work: TempDir,
    database: Arc<Faulty>,
    raw: Arc<Explosive>,
    log: Arc<Mutex<Vec<String>>>,
    writer: Writer,
}

impl Bench {
    fn new(change: impl Fn(&mut WriterOptions)) -> Self {
        let work = tempfile::tempdir().unwrap();
        let inner = Sqlite::open(&work.path().join("results.sqlite")).unwrap();
        let (full, inserts, gate) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(None));
        let database = Arc::new(Faulty { inner, full, inserts, gate });
        let raw = Directory::open(&work.path().join("raw"), Arc::new(MovedClock::default()), random);
        let raw = Arc::new(Explosive(raw.unwrap()));
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let of_writer = Arc::clone(&log);
        let log_line = move |line: &str| of_writer.lock().unwrap().push(line.to_owned());
        let mut options = WriterOptions { log: Arc::new(log_line), ..WriterOptions::default() };
        change(&mut options);
        let writer = Writer::start(database.clone(), raw.clone(), options).unwrap();
        Self { _work: work, database, raw, log, writer }
    }

    /// The next insert waits for a message.
    fn close_gate(&self) -> Sender<()> {
        let (sender, receiver) = channel();
        *self.database.gate.lock().unwrap() = Some(receiver);
        sender
    }

    fn submit(&self, submissions: Vec<Checked>) -> Result<WrittenGroup, NotWritten> {
        self.writer.submit(group(submissions))?.blocking_recv().unwrap()
    }
}

fn group(submissions: Vec<Checked>) -> SubmissionGroup {
    results::group(submissions, NOW_MS)
}

fn statuses(outcome: Result<WrittenGroup, NotWritten>) -> Vec<LineStatus> {
    outcome.unwrap().statuses
}

fn new_result() -> Checked {
    checked(id_at(NOW_MS), "content", b"raw".to_vec())
}

#[test]
fn each_submission_has_its_status() {
    let bench = Bench::new(|_| ());
    let (a, b) = (id_at(NOW_MS), id_at(NOW_MS));
    let of = |id, content: &str| checked(id, content, format!("raw of {content}").into_bytes());
    let found = bench.submit(vec![of(a, "1"), of(a, "1"), of(b, "2"), of(a, "3")]);
    assert_eq!(statuses(found), [Created, Known, Created, Conflict]);
    assert_eq!(statuses(bench.submit(vec![of(a, "1"), of(b, "4")])), [Known, Conflict]);
    bench.database.delete(&Deletion::One(b), NOW_MS).unwrap();
    let c = checked(id_at(NOW_MS), "5", Vec::new());
    let c_id = c.submission.id;
    assert_eq!(statuses(bench.submit(vec![of(b, "2"), of(a, "3"), c])), [Deleted, Conflict, Created]);
    assert_eq!(statuses(bench.submit(Vec::new())), []);
    let stored = bench.database.result(a).unwrap().unwrap();
    assert_eq!(bench.raw.read(&stored.raw.unwrap()).unwrap(), b"raw of 1");
    let summary: pathbench_api::summary::Summary = serde_json::from_slice(&stored.summary).unwrap();
    assert_eq!(summary, results::summary());
    assert_eq!(bench.database.result(c_id).unwrap().unwrap().raw, None);
    let figures = bench.writer.figures();
    assert_eq!((figures.groups, figures.created, figures.known), (4, 3, 2));
    assert_eq!((figures.conflicts, figures.deleted, figures.panics), (3, 1, 0));
    assert_eq!(figures.raw_bytes, 16);
    assert!(figures.summary_bytes > 9_000);
}

#[test]
fn groups_that_wait_are_committed_together() {
    let bench = Bench::new(|options| options.commit_submissions = 60);
    let gate = bench.close_gate();
    let contested = id_at(NOW_MS);
    let mut answers = vec![bench.writer.submit(group(vec![new_result()])).unwrap()];
    let waiting = || (bench.database.inserts.load(Ordering::SeqCst) == 1).then_some(());
    assert!(within(Duration::from_secs(10), waiting).is_some());
    for _ in 0..50 {
        let same = checked(contested, "same", b"raw".to_vec());
        answers.push(bench.writer.submit(group(vec![new_result(), same])).unwrap());
    }
    assert_eq!(bench.writer.figures().queue_groups, 50);
    for _ in 0..3 {
        gate.send(()).unwrap();
    }
    let mut created = 0;
    for answer in answers {
        let found = statuses(answer.blocking_recv().unwrap());
        assert_eq!(found[0], Created);
        created += found[1..].iter().filter(|status| **status == Created).count();
    }
    assert_eq!(created, 1);
    assert_eq!(bench.database.inserts.load(Ordering::SeqCst), 3);
    let figures = bench.writer.figures();
    assert_eq!((figures.commits, figures.groups, figures.queue_bytes), (3, 51, 0));
}

#[test]
fn a_full_queue_refuses_and_loses_nothing() {
    for by_bytes in [false, true] {
        let bench = Bench::new(|options| {
            if by_bytes {
                options.queue_bytes = 10 * 4_000;
            } else {
                options.queue_groups = 10;
            }
        });
        let gate = bench.close_gate();
        let mut answers = vec![bench.writer.submit(group(vec![new_result()])).unwrap()];
        let waiting = || (bench.database.inserts.load(Ordering::SeqCst) == 1).then_some(());
        assert!(within(Duration::from_secs(10), waiting).is_some());
        let mut refused = 0;
        for _ in 0..30 {
            match bench.writer.submit(group(vec![new_result()])) {
                Ok(answer) => answers.push(answer),
                Err(NotWritten::Busy { retry_after }) => {
                    assert!(retry_after > Duration::ZERO);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(refused >= 18, "{refused}");
        assert_eq!(bench.writer.figures().refused_groups, refused);
        for _ in 0..30 {
            gate.send(()).unwrap();
        }
        assert_eq!(answers.len() as u64, 31 - refused);
        for answer in answers {
            assert_eq!(statuses(answer.blocking_recv().unwrap()), [Created]);
        }
    }
}

#[test]
fn the_queue_counts_the_bytes_of_the_largest_summaries() {
    let large = || {
        let mut one = new_result();
        let groups = &mut one.submission.summary.groups;
        for figure in 0..32 {
            groups[0].figures.insert(results::name(&format!("figure {figure}")), 1234.5);
        }
        *groups = vec![groups[0].clone(); 64];
        one
    };
    let json_bytes = serde_json::to_vec(&large().submission.summary).unwrap().len() as u64;
    assert!(json_bytes > 50_000);
    let bench = Bench::new(|options| options.commit_submissions = 1);
    let gate = bench.close_gate();
    let mut answers = vec![bench.writer.submit(group(vec![new_result()])).unwrap()];
    let waiting = || (bench.database.inserts.load(Ordering::SeqCst) == 1).then_some(());
    assert!(within(Duration::from_secs(10), waiting).is_some());
    answers.extend((0..10).map(|_| bench.writer.submit(group(vec![large()])).unwrap()));
    let queue_bytes = bench.writer.figures().queue_bytes;
    assert!((10 * json_bytes..30 * json_bytes).contains(&queue_bytes), "{queue_bytes}");
    for answer in answers {
        gate.send(()).unwrap();
        assert_eq!(statuses(answer.blocking_recv().unwrap()), [Created]);
    }
}

#[test]
fn a_panic_harms_only_its_submission() {
    let bench = Bench::new(|_| ());
    let bad = || checked(id_at(NOW_MS), "bad", [EXPLOSIVE, b"!"].concat());
    let gate = bench.close_gate();
    let first = bench.writer.submit(group(vec![new_result()])).unwrap();
    let waiting = || (bench.database.inserts.load(Ordering::SeqCst) == 1).then_some(());
    assert!(within(Duration::from_secs(10), waiting).is_some());
    let neighbours = bench.writer.submit(group(vec![new_result(), bad(), new_result()])).unwrap();
    let other = bench.writer.submit(group(vec![new_result()])).unwrap();
    for _ in 0..10 {
        gate.send(()).unwrap();
    }
    assert_eq!(statuses(first.blocking_recv().unwrap()), [Created]);
    assert_eq!(statuses(neighbours.blocking_recv().unwrap()), [Created, LineStatus::Busy, Created]);
    assert_eq!(statuses(other.blocking_recv().unwrap()), [Created]);
    assert_eq!(bench.writer.figures().panics, 2);
    assert!(bench.log.lock().unwrap().iter().any(|line| line.contains("the raw store explodes")));
    assert_eq!(statuses(bench.submit(vec![new_result()])), [Created]);
    assert_eq!(bench.database.changes_after(0, 100).unwrap().len(), 5);
}

#[test]
fn a_failed_commit_stores_nothing_and_known_results_are_answered() {
    let bench = Bench::new(|_| ());
    let known = new_result();
    assert_eq!(statuses(bench.submit(vec![known.clone()])), [Created]);
    bench.database.full.store(true, Ordering::SeqCst);
    let new = new_result();
    let failed = bench.submit(vec![known.clone(), new.clone()]).unwrap_err();
    assert!(matches!(&failed, NotWritten::Failed { problem, .. } if problem.contains("full")), "{failed}");
    assert_eq!(statuses(bench.submit(vec![known])), [Known]);
    bench.database.full.store(false, Ordering::SeqCst);
    assert_eq!(statuses(bench.submit(vec![new])), [Created]);
    let figures = bench.writer.figures();
    assert_eq!((figures.failed_commits, figures.failed_groups), (1, 1));
    assert!(bench.log.lock().unwrap().iter().any(|line| line.contains("full")));
}

#[test]
fn a_stop_stores_what_waits() {
    let bench = Bench::new(|options| options.commit_submissions = 7);
    let answers: Vec<_> = (0..40).map(|_| bench.writer.submit(group(vec![new_result()])).unwrap()).collect();
    let Bench { writer, database, .. } = bench;
    drop(writer);
    for mut answer in answers {
        assert_eq!(statuses(answer.try_recv().unwrap()), [Created]);
    }
    assert_eq!(database.changes_after(0, 100).unwrap().len(), 40);
}

#[test]
fn async_code_awaits_the_answer() {
    let bench = Bench::new(|_| ());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(async {
        let answer = bench.writer.submit(group(vec![new_result()])).unwrap();
        answer.await.unwrap()
    });
    assert_eq!(statuses(outcome), [Created]);
}

/// A client that gave up its submission, and then deletes its results.
#[test]
fn a_deletion_includes_what_waits_for_the_writer() {
    let bench = Bench::new(|_| ());
    let gate = bench.close_gate();
    let token = "0123456789abcdef0123456789abcdef";
    let mut waiting = new_result();
    waiting.submission.deletion_sha256 = Digest::compute(token.as_bytes());
    let id = waiting.submission.id;
    let answers = [new_result(), waiting].map(|one| bench.writer.submit(group(vec![one])).unwrap());
    let Bench { database, raw, writer, .. } = bench;
    let clock: SharedClock = Arc::new(MovedClock::default());
    let shared: Arc<dyn Database> = database.clone();
    let columns = Arc::new(RwLock::new(Columns::default()));
    let bodies = Turns::new(4, 2, clock.clone());
    let app = Arc::new(App {
        reader: Arc::new(ResultReader::new(shared.clone(), raw.clone(), columns, clock.clone())),
        database: shared,
        raw,
        writer,
        log: Log::new(clock.clone(), std::io::sink()),
        metrics: Arc::new(Metrics::new(clock.as_ref())),
        clock,
        gate: Gate::new(Keys::new([7; 32]), SubmitAccess::Open),
        rate: RateLimit::new(0),
        quotas: Quotas::new(0, 0, 0),
        reserve: None,
        most_results: u64::MAX,
        memory: MemoryBudget::new(64 << 20),
        bodies,
        operator: None,
        retention: None,
        is_loaded: AtomicBool::new(true),
        readiness: Readiness::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let request = Request::delete(format!("/v1/results/{id}"))
        .header("Authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
    let deletion = runtime.spawn(router(app).oneshot(request));
    // The deletion reaches the writer, or the database if it does not wait.
    std::thread::sleep(Duration::from_millis(500));
    for _ in answers {
        gate.send(()).unwrap();
    }
    let answer = runtime.block_on(deletion).unwrap().unwrap();
    let body = runtime.block_on(axum::body::to_bytes(answer.into_body(), 1 << 10)).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["deleted"], 1);
    assert_eq!(database.known(&[id]).unwrap(), [(id, None)]);
}
