//! Raw parts in S3: the raw store, and collectors that share a bucket and a `PostgreSQL` database.

use crate::support::maintenance_suite::{self, belongs_to_one_database};
use crate::support::postgres::Server;
use crate::support::process::{Collector, DELETION_TOKEN, line, program, submission_with_raw_part};
use crate::support::raw_suite::{self, part};
use crate::support::results::{NOW_MS, checked, group, id_at};
use crate::support::s3::{Server as Bucket, credentials};
use crate::support::{MovedClock, contains, random, within};
use pathbench_api::problem::LineStatus::{Created, Known};
use pathbench_api::submission::Checked;
use pathbench_collector::ingest::{Writer, WriterOptions};
use pathbench_collector::maintenance::{check_pair, pair};
use pathbench_collector::raw::s3::{Location, S3};
use pathbench_collector::raw::{RawError, RawMaintenance, RawStore as _};
use pathbench_collector::store::postgres::{Postgres, PostgresOptions};
use pathbench_collector::store::{Database as _, DatabaseMaintenance};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pathbench_testkit::tests!(
    ["pathbench-s3-server"] =>
        a_bucket_behaves,
        an_erasure_in_a_bucket_brings_no_erased_part_back;
    ["postgres", "pathbench-s3-server"] =>
        postgres_with_a_bucket,
        a_bucket_belongs_to_one_database,
        collectors_share_a_database_and_a_bucket,
        several_collectors_share_a_database_a_bucket_and_a_secret
);

const PATIENCE: Duration = Duration::from_secs(60);

fn a_bucket_behaves() {
    let mut server = Bucket::start();
    let open = |prefix: &str| S3::new(server.location(prefix), Arc::new(MovedClock::default()), random);
    raw_suite::behaves(&|| Arc::new(open("some/prefix")), &|| server.stored());
    // More objects than a page of the list.
    let many = open("many");
    for number in 0..1_050_u32 {
        many.append(&[&number.to_be_bytes()]).unwrap();
    }
    assert_eq!(many.segments().unwrap().len(), 1_050);
    assert_eq!(open("some/prefix").segments().unwrap(), []);

    let wrong_secret =
        |name: &str| if name.contains("SECRET") { Some("x".to_owned()) } else { credentials(name) };
    let location = Location::parse(&server.url("results"), wrong_secret).unwrap();
    let refused = S3::new(location, Arc::new(MovedClock::default()), random).check().unwrap_err();
    assert!(refused.to_string().contains("the server answers 403"), "{refused}");
    let location = Location::parse(&server.url("no-such-bucket"), credentials).unwrap();
    let refused = S3::new(location, Arc::new(MovedClock::default()), random).append(&[b"x"]).unwrap_err();
    assert!(refused.to_string().contains("404 NoSuchBucket"), "{refused}");
    server.stop();
    let failed = many.append(&[b"x"]).unwrap_err();
    assert!(matches!(failed, RawError::Failed { .. }), "{failed}");
    assert!(!failed.to_string().contains("Signature"), "{failed}");
}

/// Forwards connections to `port`, and runs `task` before the first PUT.
fn before_a_put(port: u16, task: impl FnOnce() + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own_port = listener.local_addr().unwrap().port();
    let task = Arc::new(Mutex::new(Some(task)));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, task) = (client.unwrap(), task.clone());
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Some(read) = client.read(&mut buffer).ok().filter(|read| *read > 0) {
                    if buffer.starts_with(b"PUT ")
                        && let Some(task) = task.lock().unwrap().take()
                    {
                        task();
                    }
                    if server.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    own_port
}

fn an_erasure_in_a_bucket_brings_no_erased_part_back() {
    let server = Bucket::start();
    let open = |location| S3::new(location, Arc::new(MovedClock::default()), random);
    let parts = [part(1, 5_000), part(2, 5_000), part(3, 5_000)];
    let other = open(server.location("shared"));
    let ranges = other.append(&[&parts[0], &parts[1], &parts[2]]).unwrap();
    let of_other = ranges[1].clone();
    let port = before_a_put(server.port, move || other.erase(&[of_other]).unwrap());
    let url = format!("s3://results/shared?endpoint=http://127.0.0.1:{port}");
    let one = open(Location::parse(&url, credentials).unwrap());
    one.erase(&ranges[..1]).unwrap();
    let stored = server.stored();
    assert!(!contains(&stored, &parts[0][..64]) && !contains(&stored, &parts[1][..64]));
    assert_eq!(one.read(&ranges[2]).unwrap(), parts[2]);
}

fn postgres_with_a_bucket() {
    let (server, bucket) = (Server::start(), Bucket::start());
    let clock = Arc::new(MovedClock::default());
    let url = server.database("results");
    let database: Arc<dyn DatabaseMaintenance> =
        Arc::new(Postgres::connect(&url, PostgresOptions::default()).unwrap());
    let raw: Arc<dyn RawMaintenance> = Arc::new(S3::new(bucket.location("raw"), clock.clone(), random));
    maintenance_suite::behaves(&database, &raw, &clock, &|part| contains(&bucket.stored(), part));
}

fn a_bucket_belongs_to_one_database() {
    let (server, bucket) = (Server::start(), Bucket::start());
    let clock = Arc::new(MovedClock::default());
    let postgres =
        |name: &str| Arc::new(Postgres::connect(&server.database(name), PostgresOptions::default()).unwrap());
    let s3 = |prefix: &str| S3::new(bucket.location(prefix), clock.clone(), random);
    let database: Arc<dyn DatabaseMaintenance> = postgres("results");
    let raw: Arc<dyn RawMaintenance> = Arc::new(s3("raw"));
    belongs_to_one_database(&database, &*postgres("other"), &raw, &clock);
    let (new, new_raw) = (postgres("new"), s3("new"));
    pair(&*new, &new_raw, random, 1).unwrap();
    check_pair(&*new, &new_raw).unwrap();
}

/// Two collectors with `PostgreSQL` and S3 receive the same results at the same time.
fn collectors_share_a_database_and_a_bucket() {
    let server = Server::start();
    let bucket = Bucket::start();
    let url = server.database("shared");
    let open = || -> (Arc<Postgres>, Arc<S3>, Writer) {
        let database = Arc::new(Postgres::connect(&url, PostgresOptions::default()).unwrap());
        let raw = Arc::new(S3::new(bucket.location("raw"), Arc::new(MovedClock::default()), random));
        let writer = Writer::start(database.clone(), raw.clone(), WriterOptions::default()).unwrap();
        (database, raw, writer)
    };
    let collectors = [open(), open()];
    let submissions: Vec<Checked> =
        (0..60_u8).map(|number| checked(id_at(NOW_MS), &number.to_string(), vec![number; 2_000])).collect();
    let created = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (_, _, writer) in &collectors {
            for thread in 0..3 {
                let (submissions, created) = (&submissions, &created);
                scope.spawn(move || {
                    for at in 0..submissions.len() {
                        let one = submissions[(at + thread * 20) % submissions.len()].clone();
                        let answer =
                            writer.submit(group(vec![one], NOW_MS)).unwrap().blocking_recv().unwrap();
                        match answer.unwrap().statuses[0] {
                            Created => drop(created.fetch_add(1, Ordering::SeqCst)),
                            status => assert_eq!(status, Known),
                        }
                    }
                });
            }
        }
    });
    assert_eq!(created.load(Ordering::SeqCst), 60);
    let (database, raw, _) = &collectors[1];
    assert_eq!(database.changes_after(0, 1_000).unwrap().len(), 60);
    for (submission, number) in submissions.iter().zip(0..) {
        let stored = database.result(submission.submission.id).unwrap().unwrap();
        assert_eq!(raw.read(&stored.raw.unwrap()).unwrap(), vec![number; 2_000]);
    }
}

fn several_collectors_share_a_database_a_bucket_and_a_secret() {
    let mut database = Server::start();
    let bucket = Bucket::start();
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret.key");
    let url = database.database("shared");
    let raw = bucket.url("results/parts");
    let options = ["--open", "--database", &url, "--raw", &raw, "--secret", secret.to_str().unwrap()];
    let environment: Vec<(&str, String)> = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
        .into_iter()
        .filter_map(|name| Some((name, credentials(name)?)))
        .collect();
    let start = |name: &str| Collector::start_with(&place.path().join(name), &options, &environment);
    let (one, other) = (start("one"), start("other"));
    let submitted = submission_with_raw_part();
    assert_eq!(one.submit(&[line(&submitted)]).status, 201);
    assert_eq!(other.submit(&[line(&submitted)]).status, 200);
    let path = format!("/v1/results/{}", submitted.id);
    let shown = within(PATIENCE, || (other.get("/v1/results").json()["all"] == 1).then_some(()));
    assert!(shown.is_some(), "the other collector shows the result");
    assert_eq!(other.get(&path).status, 200);
    let mut token = vec!["token", "--admin"];
    token.extend(&options[1..]);
    let admin = String::from_utf8(
        Command::new(program()).args(&token).envs(environment.iter().cloned()).output().unwrap().stdout,
    )
    .unwrap();
    for collector in [&one, &other] {
        let raw = collector.request("GET", &format!("/admin{path}/raw")).bearer(&admin).send();
        assert_eq!(raw.status, 200, "{}", raw.text());
        assert_eq!(zstd::decode_all(raw.body.as_slice()).unwrap(), b"a result");
    }
    assert_eq!(other.request("DELETE", &path).bearer(DELETION_TOKEN).send().json()["deleted"], 1);
    let gone = within(PATIENCE, || (one.get("/v1/results").json()["all"] == 0).then_some(()));
    assert!(gone.is_some(), "the first collector forgets the result");
    assert_eq!(one.submit(&[line(&submitted)]).status, 410);

    // Without its database a collector keeps nothing, says when to come again, and names no place.
    database.stop();
    let submitted = submission_with_raw_part();
    for answer in [one.submit(&[line(&submitted)]), one.get("/ready"), one.get(&path)] {
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
        let text = answer.text();
        assert!(!text.contains("/tmp") && !text.contains("postgres"), "{text}");
    }
    assert_eq!(one.get("/health").status, 200);
}
