//! The behaviour of the database in `PostgreSQL`.

use crate::support::postgres::Server;
use crate::support::results::{NOW_MS, id_at, result};
use crate::support::store_suite::{BEHAVIOURS, golden_answers};
use crate::support::within;
use pathbench_api::Uuid;
use pathbench_collector::store::postgres::{Postgres, PostgresOptions};
use pathbench_collector::store::{Database as _, Inserted, NewResult, StoreError};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::Duration;

pathbench_testkit::tests!(
    ["postgres"] =>
        postgres_behaves,
        postgres_reconnects,
        postgres_gives_up_a_server_that_does_not_answer,
        postgres_reports_a_full_disk_and_a_lock,
        postgres_migrates_every_released_schema,
        postgres_by_tls_verifies_the_server,
        postgres_elsewhere_needs_a_decision_on_tls,
        postgres_partitions_by_month,
        postgres_partitions_begin_where_the_calendar_says,
        postgres_stores_results_while_a_dump_holds_the_table,
        postgres_migrates_once_for_collectors_that_start_together
);

fn postgres_behaves() {
    let server = Server::start();
    for (name, behaviour) in BEHAVIOURS {
        println!("{name}");
        let url = server.database(name);
        behaviour(&|| Arc::new(Postgres::connect(&url, PostgresOptions::default()).unwrap()));
    }
}

fn postgres_reconnects() {
    let mut server = Server::start();
    let database = Postgres::connect(&server.database("restart"), PostgresOptions::default()).unwrap();
    let (first, second) = (id_at(NOW_MS), id_at(NOW_MS));
    database.insert(&[result(first, "1")]).unwrap();
    server.stop();
    let failed = database.insert(&[result(second, "2")]).unwrap_err();
    assert!(matches!(failed, StoreError::Failed { .. }), "{failed}");
    server.run();
    assert_eq!(database.insert(&[result(second, "2")]).unwrap(), [Inserted::Created]);
    assert_eq!(database.known(&[first, second]).unwrap().len(), 2);
}

fn postgres_gives_up_a_server_that_does_not_answer() {
    let server = Server::start();
    let url = server.database("frozen");
    let short = Duration::from_secs(1);
    let options = PostgresOptions { connect_timeout: short, deadline: short, ..PostgresOptions::default() };
    let database = Postgres::connect(&url, options).unwrap();
    // The session's process stops; the kernel still acknowledges what is sent to it.
    let session = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pathbench-collector'";
    let session = Pid::from_raw(server.sql("postgres", session).parse().unwrap()).unwrap();
    kill_process(session, Signal::STOP).unwrap();
    let refused = within_20_s(move || (database.known(&[id_at(NOW_MS)]).map(|_| ()), database.check()));
    kill_process(session, Signal::CONT).unwrap();
    assert!(refused.0.unwrap_err().to_string().contains("no answer within 1 s"));
    // By another session.
    refused.1.unwrap();

    // New connections are accepted by the kernel, and never answered.
    server.signal(Signal::STOP);
    let refused = within_20_s(move || Postgres::connect(&url, options).map(|_| ())).unwrap_err().to_string();
    assert!(refused.contains("no answer within 1 s") || refused.contains("timed out"), "{refused}");
}

fn within_20_s<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(sender.send(task())));
    receiver.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn postgres_reports_a_full_disk_and_a_lock() {
    let server = Server::start();
    let url = server.database("errors");
    let options = PostgresOptions { statement_timeout: Duration::from_secs(1), ..PostgresOptions::default() };
    let database = Postgres::connect(&url, options).unwrap();
    let new = || [result(id_at(NOW_MS), "x")];
    database.insert(&new()).unwrap();
    server.sql(
        "errors",
        "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
         CREATE TRIGGER no_space BEFORE INSERT ON results FOR EACH ROW EXECUTE FUNCTION no_space()",
    );
    let refused = database.insert(&new()).unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    server.sql("errors", "DROP TRIGGER no_space ON results");
    database.insert(&new()).unwrap();

    let mut other =
        server.session("errors", "BEGIN; LOCK TABLE results IN EXCLUSIVE MODE; SELECT pg_sleep(60)");
    let locked =
        "SELECT count(*) FROM pg_locks WHERE relation = 'results'::regclass AND mode = 'ExclusiveLock'";
    let held = within(Duration::from_secs(20), || (server.sql("errors", locked) == "1").then_some(()));
    let refused = database.insert(&new());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(held.is_some());
    assert!(refused.unwrap_err().to_string().contains("timeout"));
    // Without its client the other session would go on.
    let other = "SELECT pg_terminate_backend(pid) FROM pg_locks
                 WHERE relation = 'results'::regclass AND mode = 'ExclusiveLock'";
    server.sql("errors", other);
    let inserted = || database.insert(&new()).ok();
    assert!(within(Duration::from_secs(20), inserted).is_some());
    assert_eq!(database.changes_after(0, 10).unwrap().len(), 3);
}

/// Dumps of every released schema.
const GOLDEN: [&str; 1] = [include_str!("../golden/schema-1.postgres.sql")];

fn postgres_migrates_every_released_schema() {
    let server = Server::start();
    for (schema, golden) in (1..).zip(GOLDEN) {
        let name = format!("schema{schema}");
        let url = server.database(&name);
        server.script(&name, golden);
        golden_answers(&Postgres::connect(&url, PostgresOptions::default()).unwrap());
    }
}

fn postgres_by_tls_verifies_the_server() {
    let signed = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (certified, other) = (signed("127.0.0.1"), signed("127.0.0.1"));
    let server = Server::encrypted(&certified.cert.pem(), &certified.signing_key.serialize_pem());
    server.database("encrypted");
    let work = tempfile::tempdir().unwrap();
    let connect = |host: &str, options: &str| {
        let port = if host.is_empty() { String::new() } else { format!(":{}", server.port()) };
        let url = format!("postgres://t@{host}{port}/encrypted?{options}");
        Postgres::connect(&url, PostgresOptions::default())
    };
    let roots = |certified: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        let path = work.path().join("roots.pem");
        std::fs::write(&path, certified.cert.pem()).unwrap();
        format!("sslrootcert={}", path.display())
    };
    for mode in ["require", "verify-full"] {
        let database = connect("127.0.0.1", &format!("{}&sslmode={mode}", roots(&certified))).unwrap();
        database.insert(&[result(id_at(NOW_MS), "x")]).unwrap();
        let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                         WHERE application_name = 'pathbench-collector'";
        assert_eq!(server.sql("encrypted", encrypted), "t");
    }
    let refused = |host: &str, options: &str| connect(host, options).unwrap_err().to_string();
    let unknown = refused("127.0.0.1", &format!("sslmode=require&{}", roots(&other)));
    assert!(unknown.contains("certificate"), "{unknown}");
    let public = refused("127.0.0.1", "sslmode=require");
    assert!(public.contains("certificate"), "{public}");
    let name = refused("localhost", &format!("sslmode=require&{}", roots(&certified)));
    assert!(name.contains("certificate"), "{name}");
    let missing = refused("127.0.0.1", "sslmode=require&sslrootcert=/nonexistent");
    assert!(missing.contains("sslrootcert /nonexistent"), "{missing}");
    // There is no name that the certificate could have.
    let nameless = refused("", &format!("hostaddr=127.0.0.1&port={}&sslmode=require", server.port()));
    assert!(nameless.contains("invalid dns name"), "{nameless}");
    connect("127.0.0.1", "sslmode=disable").unwrap();
}

fn postgres_elsewhere_needs_a_decision_on_tls() {
    let refused = |url: &str| Postgres::connect(url, PostgresOptions::default()).unwrap_err().to_string();
    for url in [
        "postgres://u:secret@192.0.2.1/d",
        "postgres://u:secret@192.0.2.1/d?sslmode=prefer",
        "postgres://u:secret@localhost/d?hostaddr=192.0.2.1",
        "postgres://u:secret@/d?hostaddr=192.0.2.1",
    ] {
        let undecided = refused(url);
        assert!(undecided.contains("add sslmode=require"), "{undecided}");
        assert!(!undecided.contains("secret"), "{undecided}");
    }
    let unknown = refused("postgres://u:secret@192.0.2.1/d?sslmode=perhaps");
    assert!(unknown.contains("not a valid URL") && !unknown.contains("secret"), "{unknown}");
    let server = Server::start();
    let url = server.database("plain");
    // As with libpq, no TLS on a Unix socket.
    Postgres::connect(&format!("{url}&sslmode=require"), PostgresOptions::default()).unwrap();
}

fn postgres_partitions_by_month() {
    let server = Server::start();
    let url = server.database("months");
    let database = Postgres::connect(&url, PostgresOptions::default()).unwrap();
    // 2026-11-25; partitions of November and December.
    let (old, current) = (id_at(NOW_MS - 70 * 86_400_000), id_at(NOW_MS));
    database.insert(&[result(current, "1"), result(old, "2")]).unwrap();
    let count = |table: &str| server.sql("months", &format!("SELECT count(*) FROM {table}"));
    assert_eq!((count("results_2026_11"), count("results_2026_12")), ("1".to_owned(), "0".to_owned()));
    assert_eq!(count("results_default"), "1");
    // A result of January that arrived early: its partition takes it along.
    let early = id_at(NOW_MS + 40 * 86_400_000);
    database.insert(&[result(early, "3")]).unwrap();
    assert_eq!(count("results_default"), "2");
    let mut later = result(id_at(NOW_MS + 41 * 86_400_000), "4");
    later.received_ms = NOW_MS + 41 * 86_400_000;
    database.insert(&[later]).unwrap();
    assert_eq!((count("results_default"), count("results_2027_01")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(database.result(early).unwrap().unwrap().summary, result(early, "3").summary);
    assert_eq!(database.insert(&[result(early, "3")]).unwrap(), [Inserted::Known]);
    assert_eq!(database.changes_after(0, 10).unwrap().len(), 4);
}

/// The first and the last millisecond of a month belong to its partition, the one before the first to the previous month.
fn postgres_partitions_begin_where_the_calendar_says() {
    let server = Server::start();
    let first_id = |unix_ms: u64| Uuid::from_u128(u128::from(unix_ms) << 80);
    // date -u -d 2024-03-01 +%s
    for (begin_s, end_s, table) in [
        (1_577_836_800, 1_580_515_200, "results_2020_01"),
        (1_583_020_800, 1_585_699_200, "results_2020_03"),
        (1_709_251_200, 1_711_929_600, "results_2024_03"),
        (1_730_419_200, 1_733_011_200, "results_2024_11"),
        (4_107_542_400, 4_110_220_800, "results_2100_03"),
    ] {
        let (begin_ms, end_ms) = (begin_s * 1_000, end_s * 1_000);
        let bounds = format!("FOR VALUES FROM ('{}') TO ('{}')", first_id(begin_ms), first_id(end_ms));
        // The partition of the next month is made as well.
        for (received_ms, index) in [(begin_ms - 1, 1), (begin_ms, 0), (end_ms - 1, 0)] {
            let name = format!("received_{received_ms}");
            let database = Postgres::connect(&server.database(&name), PostgresOptions::default()).unwrap();
            database.insert(&[NewResult { received_ms, ..result(id_at(received_ms), "1") }]).unwrap();
            let made =
                "SELECT relname FROM pg_class WHERE relname ~ '^results_[0-9]{4}_[0-9]{2}$' ORDER BY relname";
            assert_eq!(server.sql(&name, made).lines().nth(index), Some(table), "{received_ms}");
            let found =
                format!("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = '{table}'");
            assert_eq!(server.sql(&name, &found), bounds);
        }
    }
}

fn postgres_stores_results_while_a_dump_holds_the_table() {
    let server = Server::start();
    let url = server.database("dump");
    let database = Postgres::connect(&url, PostgresOptions::default()).unwrap();
    let mut dump =
        server.session("dump", "BEGIN; LOCK TABLE results IN ACCESS SHARE MODE; SELECT pg_sleep(60)");
    let held = || {
        (server.sql("dump", "SELECT count(*) FROM pg_locks WHERE relation = 'results_default'::regclass AND mode = 'AccessShareLock'") == "1").then_some(())
    };
    let held = within(Duration::from_secs(20), held);
    let inserted = database.insert(&[result(id_at(NOW_MS), "1")]);
    dump.kill().unwrap();
    dump.wait().unwrap();
    assert!(held.is_some());
    assert_eq!(inserted.unwrap(), [Inserted::Created]);
    assert_eq!(server.sql("dump", "SELECT count(*) FROM results_default"), "1");
}

fn postgres_migrates_once_for_collectors_that_start_together() {
    let server = Server::start();
    let url = server.database("together");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| Postgres::connect(&url, PostgresOptions::default()).unwrap());
        }
    });
    assert_eq!(server.sql("together", "SELECT count(*) FROM pathbench_schema"), "1");
    server.sql("together", "INSERT INTO pathbench_schema VALUES (99)");
    let refused = Postgres::connect(&url, PostgresOptions::default()).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 99, .. }), "{refused}");
}

/// Writes the dump of a schema that is about to be released; an ignored test.
pub(crate) mod golden {
    use super::{Postgres, PostgresOptions, Server};
    use crate::support::store_suite::fill_golden;
    use std::path::Path;

    pathbench_testkit::tests!(["postgres"] => make_postgres_golden);

    fn make_postgres_golden() {
        let server = Server::start();
        let url = server.database("golden");
        fill_golden(&Postgres::connect(&url, PostgresOptions::default()).unwrap());
        let version = server.sql("golden", "SELECT max(version) FROM pathbench_schema");
        let golden = format!("tests/golden/schema-{version}.postgres.sql");
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(golden), server.dump("golden")).unwrap();
    }
}
