//! Collectors and servers that are killed under load lose no acknowledged result and store none twice; and, since a
//! SIGKILL leaves the page cache as it is, the syncs before each answer are counted.
use crate::support::postgres::Server;
use crate::support::results::{self, NOW_MS, checked, id_at};
use crate::support::{MovedClock, random, within};
use pathbench_api::Uuid;
use pathbench_api::problem::LineStatus;
use pathbench_api::submission::Checked;
use pathbench_collector::ingest::{Options, Writer};
use pathbench_collector::maintenance::{Depth, check};
use pathbench_collector::raw::RawMaintenance;
use pathbench_collector::raw::directory::Directory;
use pathbench_collector::store::postgres::{self, Postgres};
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Change, DatabaseMaintenance};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DIRECTORY: &str = "PATHBENCH_TEST_KILLED";
/// Number of kills; 20 unless this variable says otherwise.
const KILLS: &str = "PATHBENCH_KILLS";
const THREADS: usize = 8;

fn raw_store(work: &Path) -> Arc<dyn RawMaintenance> {
    Arc::new(Directory::open(&work.join("raw"), Arc::new(MovedClock::default()), random).unwrap())
}

/// The content of a submission follows from its id, so that a repetition is the same.
fn submission(id: Uuid) -> Checked {
    let raw = id.as_bytes().repeat(50 + usize::from(id.as_bytes()[15]));
    checked(id, &id.to_string(), raw)
}

/// Lines of a file; the last one can be torn.
fn ids_in(path: &Path) -> Vec<Uuid> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
}

/// A client: it notes what it sends and what is acknowledged, and repeats at its start what is not.
struct Client {
    work: PathBuf,
    number: usize,
    sent: File,
    acknowledged: File,
}

impl Client {
    fn new(work: &Path, number: usize) -> Self {
        let open = |name: &str| {
            let path = work.join(format!("{name}-{number}"));
            OpenOptions::new().create(true).append(true).open(path).unwrap()
        };
        let (sent, acknowledged) = (open("sent"), open("acknowledged"));
        Self { work: work.to_owned(), number, sent, acknowledged }
    }

    fn ids(&self, name: &str) -> Vec<Uuid> {
        ids_in(&self.work.join(format!("{name}-{}", self.number)))
    }

    /// Sends until `over`, or until the process is killed.
    fn run(mut self, writer: &Writer, over: &dyn Fn() -> bool) {
        // What a kill tore stays on a line of its own.
        self.sent.write_all(b"\n").unwrap();
        self.acknowledged.write_all(b"\n").unwrap();
        let acknowledged: BTreeSet<Uuid> = self.ids("acknowledged").into_iter().collect();
        let mut group: Vec<Uuid> =
            self.ids("sent").into_iter().filter(|id| !acknowledged.contains(id)).collect();
        let mut is_new = false;
        while !over() {
            if group.is_empty() {
                group = (0..=random()[0] % 3).map(|_| id_at(NOW_MS)).collect();
                is_new = true;
                let lines: Vec<String> = group.iter().map(|id| format!("{id}\n")).collect();
                self.sent.write_all(lines.concat().as_bytes()).unwrap();
            }
            let submissions = group.iter().copied().map(submission).collect();
            let answer = writer.submit(results::group(submissions, NOW_MS)).unwrap();
            let Ok(written) = answer.blocking_recv().unwrap() else {
                // The server is down.
                std::thread::sleep(Duration::from_millis(20));
                is_new = false;
                continue;
            };
            for (id, status) in group.drain(..).zip(written.statuses) {
                assert!(
                    status == LineStatus::Created || (status == LineStatus::Known && !is_new),
                    "{status:?}"
                );
                self.acknowledged.write_all(format!("{id}\n").as_bytes()).unwrap();
            }
        }
    }
}

/// Every acknowledged result is there once, with its raw part; returns their number.
fn verify(database: &dyn DatabaseMaintenance, raw: &dyn RawMaintenance, work: &Path) -> usize {
    let (mut acknowledged, mut sent) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..THREADS {
        for id in ids_in(&work.join(format!("acknowledged-{number}"))) {
            assert!(acknowledged.insert(id), "acknowledged twice: {id}");
        }
        sent.extend(ids_in(&work.join(format!("sent-{number}"))));
    }
    let mut stored = BTreeSet::new();
    for change in database.changes_after(0, usize::MAX).unwrap() {
        let Change::Added { id, .. } = change else { panic!("nothing is deleted") };
        assert!(stored.insert(id), "stored twice: {id}");
    }
    assert!(acknowledged.is_subset(&stored), "lost: {:?}", acknowledged.difference(&stored));
    assert!(stored.is_subset(&sent), "never sent: {:?}", stored.difference(&sent));
    for id in &acknowledged {
        let place = database.result(*id).unwrap().unwrap().raw.unwrap();
        assert_eq!(raw.read(&place).unwrap(), submission(*id).raw);
    }
    assert_eq!(check(database, raw, Depth::Digests).unwrap(), [""; 0]);
    acknowledged.len()
}

#[test]
#[ignore = "started and killed by collectors_are_killed"]
fn ingesting() {
    let work = PathBuf::from(std::env::var_os(DIRECTORY).expect("started by another test"));
    let database = Arc::new(Sqlite::open(&work.join("db")).unwrap());
    let writer = Writer::start(database, raw_store(&work), Options::default()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (client, writer) = (Client::new(&work, number), &writer);
            scope.spawn(move || client.run(writer, &|| false));
        }
    });
}

#[test]
fn collectors_are_killed() {
    let kills: u32 = std::env::var(KILLS).map_or(20, |text| text.parse().unwrap());
    let work = tempfile::tempdir().unwrap();
    let bytes_acknowledged = || -> u64 {
        let path = |number| work.path().join(format!("acknowledged-{number}"));
        (0..THREADS).map(|number| std::fs::metadata(path(number)).map_or(0, |file| file.len())).sum()
    };
    for _ in 0..kills {
        let before = bytes_acknowledged();
        let mut collector = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "ingesting"])
            .env(DIRECTORY, work.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Under load, and sometimes earlier: in the start, the recovery, the repetition.
        if random()[0] >= 64 {
            let working = || {
                (bytes_acknowledged() > before + 16 || collector.try_wait().unwrap().is_some()).then_some(())
            };
            assert!(within(Duration::from_secs(60), working).is_some());
        }
        std::thread::sleep(Duration::from_micros(
            u64::from(random()[1]) * 1_000 + u64::from(random()[2]) * 4,
        ));
        let ended = collector.try_wait().unwrap();
        collector.kill().unwrap();
        let output = collector.wait_with_output().unwrap();
        assert!(ended.is_none(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let database = Sqlite::open(&work.path().join("db")).unwrap();
    let acknowledged = verify(&database, &*raw_store(work.path()), work.path());
    assert!(acknowledged > kills as usize * 10, "{acknowledged} results in {kills} rounds are no load");
    println!("{kills} kills, {acknowledged} results acknowledged");
}

#[test]
fn a_postgres_server_crashes() {
    let mut server = Server::start();
    let work = tempfile::tempdir().unwrap();
    let url = server.database("crashes");
    let database: Arc<dyn DatabaseMaintenance> =
        Arc::new(Postgres::connect(&url, postgres::Options::default()).unwrap());
    let raw = raw_store(work.path());
    let writer = Writer::start(database.clone(), raw.clone(), Options::default()).unwrap();
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

const GROUPS: usize = 20;
const MARK: &str = "acknowledged group";

#[test]
#[ignore = "started by each_answer_comes_after_two_syncs"]
fn ingesting_one_by_one() {
    let work = PathBuf::from(std::env::var_os(DIRECTORY).expect("started by another test"));
    let database = Arc::new(Sqlite::open(&work.join("db")).unwrap());
    let writer = Writer::start(database, raw_store(&work), Options::default()).unwrap();
    let mut marks = File::create(work.join("marks")).unwrap();
    writeln!(marks, "{MARK}").unwrap();
    for _ in 0..GROUPS {
        let submissions = (0..5).map(|_| submission(id_at(NOW_MS))).collect();
        let answer = writer.submit(results::group(submissions, NOW_MS)).unwrap();
        assert_eq!(answer.blocking_recv().unwrap().unwrap().statuses, [LineStatus::Created; 5]);
        writeln!(marks, "{MARK}").unwrap();
    }
}

/// One sync of the segment, one of the database's log; and no more for any number of results in a group.
#[test]
fn each_answer_comes_after_two_syncs() {
    let work = tempfile::tempdir().unwrap();
    let trace = work.path().join("trace");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "ingesting_one_by_one"])
        .env(DIRECTORY, work.path())
        .output()
        .expect("install strace");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let trace = std::fs::read_to_string(trace).unwrap();
    let mut syncs_of_groups = Vec::new();
    let mut syncs = 0;
    for line in trace.lines() {
        if line.contains(MARK) && line.contains("write(") {
            syncs_of_groups.push(syncs);
            syncs = 0;
        }
        syncs += u32::from(line.contains("sync") && line.ends_with("= 0"));
    }
    // Before the first mark: the start. With the first group: the segment's name in its directory.
    let groups = &syncs_of_groups[1..];
    assert_eq!(groups.len(), GROUPS, "{trace}");
    assert!(groups.iter().all(|syncs| *syncs >= 2), "{groups:?}");
    assert_eq!(groups[1..].iter().copied().max(), Some(2), "{groups:?}");
}
