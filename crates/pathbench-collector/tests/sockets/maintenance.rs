//! Retention, erasure, checks and backup, with SQLite and a directory.

use crate::support::maintenance_suite::{behaves, belongs_to_one_database, is_in_order, store};
use crate::support::{MovedClock, contains, random};
use pathbench_collector::maintenance::{
    DATABASE_FILE, MaintenanceError, RAW_DIRECTORY, backup, check_pair, pair, restore,
};
use pathbench_collector::raw::RawMaintenance;
use pathbench_collector::raw::directory::Directory;
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Database as _, DatabaseMaintenance};
use pathbench_record::time::WallClock as _;
use std::path::Path;
use std::sync::Arc;

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
        let made = backup(Some(&original), &*raw, &target, clock.unix_ms()).unwrap();
        assert_eq!(made.segments, 1);
        storing.join().unwrap()
    });
    let again = backup(Some(&original), &*raw, &target, 0).unwrap_err();
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
    let postgres = backup(None, &*raw, &work.path().join("b2"), 0).unwrap_err();
    assert!(postgres.to_string().contains("pg_dump"));
}
