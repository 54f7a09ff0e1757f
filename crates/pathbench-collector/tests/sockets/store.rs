//! The behaviour of the `SQLite` database.

use crate::support::results::{NOW_MS, id_at, result};
use crate::support::store_suite::{BEHAVIOURS, fill_golden, golden_answers};
use pathbench_api::Uuid;
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Database as _, DatabaseMaintenance as _, Deletion, StoreError};
use pathbench_program::clock::RealClock;
use pathbench_record::time::Clock as _;
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn sqlite_behaves() {
    let work = tempfile::tempdir().unwrap();
    for (name, behaviour) in BEHAVIOURS {
        println!("{name}");
        let path = work.path().join(name);
        behaviour(&|| Arc::new(Sqlite::open(&path).unwrap()));
    }
}

#[test]
fn sqlite_has_a_log_and_keeps_others_out() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("results.sqlite");
    let _open = Sqlite::open(&path).unwrap();
    let plain = Connection::open(&path).unwrap();
    let get =
        |name: &str| plain.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
    assert_eq!(get("journal_mode").unwrap(), rusqlite::types::Value::Text("wal".to_owned()));
    for file in ["results.sqlite", "results.sqlite-wal"] {
        let mode = std::fs::metadata(work.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(get("page_size").unwrap(), rusqlite::types::Value::Integer(16_384));
}

#[test]
fn sqlite_keeps_nothing_of_a_deleted_result() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("results.sqlite");
    let database = Sqlite::open(&path).unwrap();
    let ids: Vec<Uuid> = (0..50).map(|_| id_at(NOW_MS)).collect();
    for (number, id) in ids.iter().enumerate() {
        let content = format!("secret-{number}-{}", "x".repeat(number * 200));
        database.insert(&[result(*id, &content)]).unwrap();
    }
    let kept = |text: &str| {
        let files = std::fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|path| std::fs::read(path).unwrap())
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    database.delete(&Deletion::One(ids[17]), NOW_MS).unwrap();
    database.delete(&Deletion::One(ids[42]), NOW_MS).unwrap();
    assert!(kept("secret-18-"));
    assert!(!kept("secret-17-"));
    assert!(!kept("secret-42-"));

    // A reader of an earlier state does not delay the writer, and the deletion is complete after it.
    let mut reader = Connection::open(&path).unwrap();
    let reading = reader.transaction().unwrap();
    reading.query_row("SELECT count(*) FROM results", [], |row| row.get::<_, i64>(0)).unwrap();
    let (clock, begun) = (RealClock, RealClock.now());
    database.insert(&[result(ids[17], "secret-17-"), result(id_at(NOW_MS), "secret-last-")]).unwrap();
    database.delete(&Deletion::ReceivedBefore(u64::MAX), NOW_MS).unwrap();
    let took = clock.now().duration_since(begun);
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(kept("secret-18-") && kept("secret-last-"));
    reading.commit().unwrap();
    database.erasures(1).unwrap();
    assert!(!kept("secret-"));
}

#[test]
fn sqlite_keeps_nothing_that_another_process_deleted() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("results.sqlite");
    let database = Sqlite::open(&path).unwrap();
    let id = id_at(NOW_MS);
    database.insert(&[result(id, "secret-one-")]).unwrap();
    database.erasures(1).unwrap();
    database.insert(&[result(id_at(NOW_MS), "secret-two-")]).unwrap();
    let mut reader = Connection::open(&path).unwrap();
    let reading = reader.transaction().unwrap();
    reading.query_row("SELECT count(*) FROM results", [], |row| row.get::<_, i64>(0)).unwrap();
    let other = Sqlite::open(&path).unwrap();
    other.delete(&Deletion::ReceivedBefore(u64::MAX), NOW_MS).unwrap();
    drop(other);
    reading.commit().unwrap();
    database.erasures(1).unwrap();
    for file in std::fs::read_dir(work.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"secret-"));
    }
}

#[test]
fn sqlite_refuses_other_schemas() {
    let work = tempfile::tempdir().unwrap();
    let newer = work.path().join("newer.sqlite");
    drop(Sqlite::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = Sqlite::open(&newer).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 99, .. }), "{refused}");
    let other = work.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE results (x)").unwrap();
    let refused = Sqlite::open(&other).unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
    let garbage = work.path().join("garbage");
    std::fs::write(&garbage, "no database ".repeat(1_000)).unwrap();
    assert!(Sqlite::open(&garbage).is_err());
}

/// Compressed databases of every released schema.
const GOLDEN: [&[u8]; 1] = [include_bytes!("../golden/schema-1.sqlite.zst")];

#[test]
fn sqlite_migrates_every_released_schema() {
    let work = tempfile::tempdir().unwrap();
    for (schema, golden) in (1..).zip(GOLDEN) {
        let path = work.path().join(format!("{schema}.sqlite"));
        std::fs::write(&path, zstd::decode_all(golden).unwrap()).unwrap();
        let database = Sqlite::open(&path).unwrap();
        golden_answers(&database);
    }
}

/// Makes the file of a schema that is about to be released.
#[test]
#[ignore = "writes a golden file"]
fn make_golden() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("results.sqlite");
    fill_golden(&Sqlite::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    drop(connection);
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/schema-{version}.sqlite.zst"));
    let bytes = zstd::encode_all(std::fs::File::open(&path).unwrap(), 19).unwrap();
    std::fs::write(golden, bytes).unwrap();
}
