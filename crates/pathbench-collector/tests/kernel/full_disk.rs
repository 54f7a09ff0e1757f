//! A full disk: nothing acknowledged is lost, and the collector goes on when space is freed.

use crate::support::results::{NOW_MS, checked, group, id_at};
use crate::support::{MovedClock, random};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use pathbench_api::problem::LineStatus::{Created, Known};
use pathbench_collector::ingest::{NotWritten, Writer, WriterOptions};
use pathbench_collector::maintenance::{Depth, check};
use pathbench_collector::raw::directory::Directory;
use pathbench_collector::raw::{RawError, RawStore as _};
use pathbench_collector::store::reserve::Reserve;
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Database as _, DatabaseMaintenance as _, Deletion, StoreError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const DIRECTORY: &str = "PATHBENCH_TEST_FULL_DISK";
/// Bytes of the file system, and of the file whose removal frees space.
const SIZE: usize = 40 << 20;
const BALLAST: usize = 12 << 20;

/// Runs one of the tests below in a mount namespace with a small file system.
fn on_a_small_file_system(test: &str) {
    let work = tempfile::tempdir().unwrap();
    let script =
        format!("mount -t tmpfs -o size={SIZE} tmpfs \"$1\" && exec \"$2\" --ignored --exact {test}");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(work.path())
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, work.path())
        .output()
        .unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[test]
fn raw_parts_fill_the_disk() {
    on_a_small_file_system("full_disk::filled_by_raw_parts");
}

#[test]
fn summaries_fill_the_disk() {
    on_a_small_file_system("full_disk::filled_by_summaries");
}

#[test]
fn a_full_disk_takes_deletions() {
    on_a_small_file_system("full_disk::deleted_on_a_full_disk");
}

fn directory() -> PathBuf {
    PathBuf::from(std::env::var_os(DIRECTORY).expect("started by another test"))
}

#[test]
#[ignore = "started by raw_parts_fill_the_disk"]
fn filled_by_raw_parts() {
    fill(&directory(), 50_000, "raw store");
}

#[test]
#[ignore = "started by summaries_fill_the_disk"]
fn filled_by_summaries() {
    fill(&directory(), 0, "database");
}

fn fill(directory: &Path, raw_bytes: usize, culprit: &str) {
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; BALLAST]).unwrap();
    let file = directory.join("db");
    let database = Arc::new(Sqlite::open(&file).unwrap());
    let open = || Directory::open(&directory.join("raw"), Arc::new(MovedClock::default()), random).unwrap();
    let raw = Arc::new(open());
    let writer = Writer::start(database.clone(), raw.clone(), WriterOptions::default()).unwrap();
    let submit = |id: Uuid| {
        let submissions = vec![checked(id, &id.to_string(), vec![7; raw_bytes])];
        writer.submit(group(submissions, NOW_MS)).unwrap().blocking_recv().unwrap()
    };
    let (mut acknowledged, mut failed) = (Vec::new(), Vec::new());
    // Several failures, so that those after the first one are tested as well.
    while failed.len() < 30 {
        let id = id_at(NOW_MS);
        match submit(id) {
            Ok(written) => {
                assert_eq!(written.statuses, [Created]);
                acknowledged.push(id);
            }
            Err(NotWritten::Failed { problem, .. }) => {
                assert!(problem.contains("is full") && problem.contains(culprit), "{problem}");
                failed.push(id);
            }
            Err(other) => panic!("{other}"),
        }
        assert!(acknowledged.len() < 50_000, "the disk is not full");
    }
    assert!(acknowledged.len() > 100);
    // Results are still read, also by a collector that starts now.
    for database in [&database, &Arc::new(Sqlite::open(&file).unwrap())] {
        assert!(acknowledged.iter().all(|id| database.result(*id).unwrap().is_some()));
    }
    let space = database.check().is_err() || raw.check().is_err();
    assert!(space, "the checks notice nothing");
    assert!(matches!(database.check(), Ok(()) | Err(StoreError::Full { .. })));
    assert!(matches!(raw.check(), Ok(()) | Err(RawError::Full { .. })));
    assert_eq!(check(&*database, &open(), Depth::Digests).unwrap(), [""; 0]);

    std::fs::remove_file(&ballast).unwrap();
    for id in &failed {
        assert_eq!(submit(*id).unwrap().statuses, [Created]);
    }
    for id in acknowledged.iter().rev().take(50) {
        assert_eq!(submit(*id).unwrap().statuses, [Known]);
    }
    database.check().unwrap();
    assert_eq!(database.changes_after(0, usize::MAX).unwrap().len(), acknowledged.len() + failed.len());
    assert_eq!(check(&*database, &open(), Depth::Digests).unwrap(), [""; 0]);
}

#[test]
#[ignore = "started by a_full_disk_takes_deletions"]
fn deleted_on_a_full_disk() {
    const RESERVE_BYTES: u64 = 8 << 20;
    let directory = directory();
    let reserve = Reserve::new(directory.join(Reserve::FILE), RESERVE_BYTES);
    reserve.fill().unwrap();
    let database = Arc::new(Sqlite::open(&directory.join("db")).unwrap());
    let raw =
        Arc::new(Directory::open(&directory.join("raw"), Arc::new(MovedClock::default()), random).unwrap());
    let of_writer = reserve.clone();
    let options =
        WriterOptions { has_space: Arc::new(move || of_writer.has_space()), ..WriterOptions::default() };
    let writer = Writer::start(database.clone(), raw, options).unwrap();
    let submit = |id: Uuid| {
        let submissions = vec![checked(id, &id.to_string(), vec![7; 50_000])];
        writer.submit(group(submissions, NOW_MS)).unwrap().blocking_recv().unwrap()
    };
    let mut stored = Vec::new();
    let problem = loop {
        let id = id_at(NOW_MS);
        match submit(id) {
            Ok(_) => stored.push(id),
            Err(NotWritten::Failed { problem, .. }) => break problem,
            Err(other) => panic!("{other}"),
        }
        assert!(stored.len() < 10_000, "the disk is not full");
    };
    assert!(problem.contains("reserve for deletions"), "{problem}");
    assert!(stored.len() > 100);
    // The log takes no space that a deletion could use, and another program takes the rest.
    database.erasures(1).unwrap();
    let mut block = 1 << 20;
    let mut file = std::fs::File::create(directory.join("another")).unwrap();
    while block > 0 {
        if file.write_all(&vec![1; block]).is_err() {
            block /= 2;
        }
    }
    let all = Deletion::AllWithToken(Digest::compute(b"token"));
    let [here, away] = [Reserve::FILE, "away"].map(|name| directory.join(name));
    std::fs::rename(&here, &away).unwrap();
    let without = database.delete(&all, NOW_MS);
    assert!(matches!(without, Err(StoreError::Full { .. })), "{without:?}");
    std::fs::rename(&away, &here).unwrap();
    let deleted = database.delete(&all, NOW_MS).unwrap();
    assert_eq!(deleted, stored.len() as u64);
    assert!(stored.iter().all(|id| database.result(*id).unwrap().is_none()));
}
