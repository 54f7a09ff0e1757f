//! Retention, erasure, checks and backup, over both databases and both raw stores.
use crate::support::postgres::Server;
use crate::support::results::{checked, group, id_at};
use crate::support::{MovedClock, random, s3};
use pathbench_collector::clock::Clock as _;
use pathbench_collector::ingest::{Options, Writer};
use pathbench_collector::maintenance::{
    DATABASE_FILE, Depth, Erased, MaintenanceError, RAW_DIRECTORY, Source, backup, check, check_pair,
    erase_deleted, erase_unreferenced, pair, restore, retain,
};
use pathbench_collector::raw::RawMaintenance;
use pathbench_collector::raw::directory::{Directory, SEALED_AFTER};
use pathbench_collector::raw::s3::S3;
use pathbench_collector::store::postgres::{self, Postgres};
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Database as _, DatabaseMaintenance, Deletion};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longer than a segment can be in use.
const SEALED: Duration = Duration::from_secs(3 * SEALED_AFTER.as_secs());

struct Stored {
    ids: Vec<pathbench_api::Uuid>,
    received_ms: u64,
}

/// Stores results with raw parts of 5,000 bytes, each in a commit of its own.
fn store(
    database: &Arc<dyn DatabaseMaintenance>,
    raw: &Arc<dyn RawMaintenance>,
    clock: &MovedClock,
    count: u8,
) -> Stored {
    let writer = Writer::start(database.clone(), raw.clone(), Options::default()).unwrap();
    let received_ms = clock.unix_ms();
    let submissions = (0..count).map(|number| {
        let id = id_at(received_ms);
        let submission = checked(id, &id.to_string(), vec![number + 1; 5_000]);
        let answer = writer.submit(group(vec![submission], received_ms)).unwrap();
        assert!(answer.blocking_recv().unwrap().unwrap().statuses[0].is_stored());
        id
    });
    Stored { ids: submissions.collect(), received_ms }
}

fn delete(database: &dyn DatabaseMaintenance, ids: &[pathbench_api::Uuid]) {
    for id in ids {
        assert_eq!(database.delete(&Deletion::One(*id), 1).unwrap(), 1);
    }
}

fn is_in_order(database: &dyn DatabaseMaintenance, raw: &dyn RawMaintenance) {
    assert_eq!(check(database, raw, Depth::Digests).unwrap(), [""; 0]);
}

fn behaves(
    database: &Arc<dyn DatabaseMaintenance>,
    raw: &Arc<dyn RawMaintenance>,
    clock: &MovedClock,
    holds: &dyn Fn(&[u8]) -> bool,
) {
    let old = store(database, raw, clock, 6);
    is_in_order(&**database, &**raw);
    assert!(holds(&[3; 4_000]));
    delete(&**database, &old.ids[2..3]);
    erase_deleted(&**database, &**raw).unwrap();
    assert!(!holds(&[3; 100]));
    assert!(holds(&[4; 5_000]));
    assert_eq!(erase_deleted(&**database, &**raw).unwrap(), Erased::default());
    is_in_order(&**database, &**raw);
    // A commit that failed after its raw parts were stored.
    raw.append(&[&[77; 3_000], &[78; 3_000]]).unwrap();
    assert_eq!(erase_unreferenced(&**database, &**raw).unwrap(), Erased::default());
    assert!(holds(&[77; 3_000]));
    clock.advance(SEALED);
    // A clock that is set forward between an append and its transaction erases nothing.
    erase_unreferenced(&**database, &**raw).unwrap();
    assert!(holds(&[77; 3_000]));
    raw.append(&[&[79; 3_000]]).unwrap();
    erase_unreferenced(&**database, &**raw).unwrap();
    assert!(!holds(&[77; 100]));
    assert!(!holds(&[78; 100]));
    assert!(holds(&[4; 5_000]));
    is_in_order(&**database, &**raw);

    let segments_of_old = database.segments_after("", 100).unwrap();
    let new = store(database, raw, clock, 3);
    assert!(new.received_ms > old.received_ms);
    // As if it were the next day.
    raw.append(&[&[80; 10]]).unwrap();
    assert_eq!(retain(&**database, &**raw, Duration::from_secs(3_600), new.received_ms).unwrap(), 5);
    assert!(!holds(&[5; 100]));
    assert!(holds(&[1; 5_000]));
    assert!(new.ids.iter().all(|id| database.result(*id).unwrap().is_some()));
    // Segments of deleted results only are gone.
    let used = database.segments_after("", 100).unwrap();
    erase_unreferenced(&**database, &**raw).unwrap();
    let held: Vec<String> = raw.segments().unwrap().into_iter().map(|segment| segment.name).collect();
    assert!(used.iter().all(|segment| held.contains(segment)));
    assert!(!segments_of_old.iter().any(|segment| held.contains(segment)));
    is_in_order(&**database, &**raw);

    // Damage is found.
    let place = database.places(&used[0]).unwrap().remove(0);
    raw.erase(std::slice::from_ref(&place)).unwrap();
    assert_eq!(check(&**database, &**raw, Depth::Places).unwrap(), [""; 0]);
    let problems = check(&**database, &**raw, Depth::Digests).unwrap();
    assert!(problems.len() == 1 && problems[0].contains(&place.segment), "{problems:?}");
    raw.remove(&place.segment).unwrap();
    let problems = check(&**database, &**raw, Depth::Places).unwrap();
    assert!(problems[0].contains("is missing"), "{problems:?}");
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn bytes_under(directory: &Path) -> Vec<u8> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn sqlite_with_a_directory() {
    let work = tempfile::tempdir().unwrap();
    let clock = Arc::new(MovedClock::default());
    let raw_path = work.path().join("raw");
    let database: Arc<dyn DatabaseMaintenance> = Arc::new(Sqlite::open(&work.path().join("db")).unwrap());
    let raw: Arc<dyn RawMaintenance> = Arc::new(Directory::open(&raw_path, clock.clone(), random).unwrap());
    behaves(&database, &raw, &clock, &|part| contains(&bytes_under(&raw_path), part));
}

#[test]
fn postgres_with_a_bucket() {
    let (server, bucket) = (Server::start(), s3::Server::start());
    let clock = Arc::new(MovedClock::default());
    let url = server.database("results");
    let database: Arc<dyn DatabaseMaintenance> =
        Arc::new(Postgres::connect(&url, postgres::Options::default()).unwrap());
    let raw: Arc<dyn RawMaintenance> = Arc::new(S3::new(bucket.location("raw"), clock.clone(), random));
    behaves(&database, &raw, &clock, &|part| contains(&bucket.stored(), part));
}

/// Collectors that start together with new stores.
fn agree(database: &dyn DatabaseMaintenance, raw: &dyn RawMaintenance) {
    std::thread::scope(|scope| {
        let starts = [(); 4].map(|()| scope.spawn(|| pair(database, raw, random, 1)));
        for start in starts {
            start.join().unwrap().unwrap();
        }
    });
    check_pair(database, raw).unwrap();
}

/// `raw` holds nothing; `other` is empty.
fn belongs_to_one_database(
    database: &Arc<dyn DatabaseMaintenance>,
    other: &dyn DatabaseMaintenance,
    raw: &Arc<dyn RawMaintenance>,
    clock: &MovedClock,
) {
    let refused = check_pair(&**database, &**raw).unwrap_err();
    assert!(matches!(refused, MaintenanceError::NoCollector), "{refused}");
    // Of a collector without identities.
    store(database, raw, clock, 2);
    let is_refused = || {
        for _ in 0..2 {
            let refused = pair(other, &**raw, random, 1).unwrap_err();
            assert!(matches!(refused, MaintenanceError::OtherDatabase { .. }), "{refused}");
            assert!(refused.to_string().contains(&raw.place()), "{refused}");
        }
    };
    is_refused();
    assert_eq!(raw.identity().unwrap(), None);
    for _ in 0..2 {
        pair(&**database, &**raw, random, 1).unwrap();
        check_pair(&**database, &**raw).unwrap();
    }
    is_refused();
}

#[test]
fn a_directory_belongs_to_one_database() {
    let work = tempfile::tempdir().unwrap();
    let clock = Arc::new(MovedClock::default());
    let sqlite = |name: &str| Arc::new(Sqlite::open(&work.path().join(name)).unwrap());
    let directory = |name: &str| Directory::open(&work.path().join(name), clock.clone(), random).unwrap();
    let database: Arc<dyn DatabaseMaintenance> = sqlite("db");
    let raw: Arc<dyn RawMaintenance> = Arc::new(directory("raw"));
    belongs_to_one_database(&database, &*sqlite("other"), &raw, &clock);
    agree(&*sqlite("new"), &directory("new raw"));
    // An empty raw store is not that of a database with raw parts either.
    let refused = pair(&*database, &directory("empty"), random, 1).unwrap_err();
    assert!(matches!(refused, MaintenanceError::OtherDatabase { .. }), "{refused}");
}

#[test]
fn a_bucket_belongs_to_one_database() {
    let (server, bucket) = (Server::start(), s3::Server::start());
    let clock = Arc::new(MovedClock::default());
    let postgres = |name: &str| {
        Arc::new(Postgres::connect(&server.database(name), postgres::Options::default()).unwrap())
    };
    let s3 = |prefix: &str| S3::new(bucket.location(prefix), clock.clone(), random);
    let database: Arc<dyn DatabaseMaintenance> = postgres("results");
    let raw: Arc<dyn RawMaintenance> = Arc::new(s3("raw"));
    belongs_to_one_database(&database, &*postgres("other"), &raw, &clock);
    let (new, new_raw) = (postgres("new"), s3("new"));
    pair(&*new, &new_raw, random, 1).unwrap();
    check_pair(&*new, &new_raw).unwrap();
}

#[test]
fn a_backup_of_a_running_collector_is_complete() {
    let work = tempfile::tempdir().unwrap();
    let clock = Arc::new(MovedClock::default());
    let original = Arc::new(Sqlite::open(&work.path().join("db")).unwrap());
    let database: Arc<dyn DatabaseMaintenance> = original.clone();
    let raw: Arc<dyn RawMaintenance> =
        Arc::new(Directory::open(&work.path().join("raw"), clock.clone(), random).unwrap());
    pair(&*database, &*raw, random, clock.unix_ms()).unwrap();
    let before = store(&database, &raw, &clock, 50);
    let target = work.path().join("backup");
    let during = std::thread::scope(|scope| {
        let storing = scope.spawn(|| store(&database, &raw, &clock, 200));
        let made = backup(Source::Sqlite(&original), &*raw, &target, clock.unix_ms()).unwrap();
        assert_eq!(made.segments, 1);
        storing.join().unwrap()
    });
    let again = backup(Source::Sqlite(&original), &*raw, &target, 0).unwrap_err();
    assert!(matches!(again, MaintenanceError::NotEmpty(_)), "{again}");

    let (file, directory) = (work.path().join("restored/db"), work.path().join("restored/raw"));
    restore(&target, &file, &directory).unwrap();
    let again = restore(&target, &file, &directory).unwrap_err();
    assert!(matches!(again, MaintenanceError::NotEmpty(_)), "{again}");
    let restored = Sqlite::open(&file).unwrap();
    let restored_raw = Directory::open(&directory, clock.clone(), random).unwrap();
    check_pair(&restored, &restored_raw).unwrap();
    is_in_order(&restored, &restored_raw);
    assert!(before.ids.iter().all(|id| restored.result(*id).unwrap().is_some()));
    // Those stored meanwhile are in it up to one moment.
    let there: Vec<bool> = during.ids.iter().map(|id| restored.result(*id).unwrap().is_some()).collect();
    assert!(there.is_sorted_by(|earlier, later| earlier >= later));
    let restored: Arc<dyn DatabaseMaintenance> = Arc::new(restored);
    let restored_raw: Arc<dyn RawMaintenance> = Arc::new(restored_raw);
    store(&restored, &restored_raw, &clock, 2);

    let segment = raw.segments().unwrap().remove(0).name;
    std::fs::write(target.join(RAW_DIRECTORY).join(segment + ".segment"), "short").unwrap();
    let (file, directory) = (work.path().join("r2/db"), work.path().join("r2/raw"));
    let incomplete = restore(&target, &file, &directory).unwrap_err();
    assert!(matches!(incomplete, MaintenanceError::Incomplete { found: 5, .. }), "{incomplete}");
    assert!(!file.exists());
    std::fs::remove_file(target.join("backup.json")).unwrap();
    assert!(target.join(DATABASE_FILE).exists());
    let refused = restore(&target, &file, &work.path().join("r3")).unwrap_err();
    assert!(matches!(refused, MaintenanceError::NoBackup(_)), "{refused}");
    let postgres = backup(Source::Postgres, &*raw, &work.path().join("b2"), 0).unwrap_err();
    assert!(postgres.to_string().contains("pg_dump"));
}
