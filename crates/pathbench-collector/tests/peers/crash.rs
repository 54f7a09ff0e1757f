//! A `PostgreSQL` server that crashes under load loses no acknowledged result and stores none twice.

use crate::support::clients::{Client, THREADS, raw_store, verify};
use crate::support::postgres::Server;
use crate::support::within;
use pathbench_collector::ingest::{Writer, WriterOptions};
use pathbench_collector::store::DatabaseMaintenance;
use pathbench_collector::store::postgres::{Postgres, PostgresOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pathbench_testkit::tests!(["postgres"] => a_postgres_server_crashes);

fn a_postgres_server_crashes() {
    let mut server = Server::start();
    let work = tempfile::tempdir().unwrap();
    let url = server.database("crashes");
    let database: Arc<dyn DatabaseMaintenance> =
        Arc::new(Postgres::connect(&url, PostgresOptions::default()).unwrap());
    let raw = raw_store(work.path());
    let writer = Writer::start(database.clone(), raw.clone(), WriterOptions::default()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (client, writer, over) = (Client::new(work.path(), number), &writer, &over);
            scope.spawn(move || client.run(writer, &|| over.load(Ordering::SeqCst)));
        }
        for _ in 0..5 {
            let before = writer.figures().created;
            let working = || (writer.figures().created > before + 50).then_some(());
            assert!(within(Duration::from_secs(60), working).is_some());
            // Sessions end without a shutdown; the next start recovers.
            server.stop();
            server.run();
        }
        over.store(true, Ordering::SeqCst);
    });
    let figures = writer.figures();
    assert!(figures.failed_groups > 0);
    assert!(verify(&*database, &*raw, work.path()) > 250);
}
