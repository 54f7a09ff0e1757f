//! Collectors that are killed under load lose no acknowledged result and store none twice; and, since a SIGKILL leaves
//! the page cache as it is, the syncs before each answer are counted.

use crate::support::clients::{Client, THREADS, raw_store, submission, verify};
use crate::support::results::{self, NOW_MS, id_at};
use crate::support::{random, within};
use pathbench_api::problem::LineStatus;
use pathbench_collector::ingest::{Writer, WriterOptions};
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_testkit::{STAGE, program};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

pathbench_testkit::tests!(
    [] => collectors_are_killed;
    ["strace"] => each_answer_comes_after_two_syncs
);

/// Stages of this program that the tests start.
const INGEST: &str = "ingest";
const INGEST_IN_SEQUENCE: &str = "ingest in sequence";

/// The directory of a stage.
const DIRECTORY: &str = "PATHBENCH_TEST_KILLED";

/// Number of kills; 20 unless this variable says otherwise.
const KILLS: &str = "PATHBENCH_KILLS";

/// The environment of a stage.
fn stage(name: &str, work: &Path) -> [(&'static str, OsString); 2] {
    [(STAGE, name.into()), (DIRECTORY, work.into())]
}

/// Runs a stage, a collector without HTTP in a process of its own.
pub(crate) fn main(stage: &str) -> ExitCode {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let work = PathBuf::from(std::env::var_os(DIRECTORY).expect("the directory of the stage"));
    match stage {
        INGEST => ingest(&work),
        INGEST_IN_SEQUENCE => ingest_in_sequence(&work),
        stage => panic!("unknown stage {stage}"),
    }
    ExitCode::SUCCESS
}

fn writer(work: &Path) -> Writer {
    let database = Arc::new(Sqlite::open(&work.join("db")).unwrap());
    Writer::start(database, raw_store(work), WriterOptions::default()).unwrap()
}

/// Runs until it is killed.
fn ingest(work: &Path) {
    let writer = writer(work);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (client, writer) = (Client::new(work, number), &writer);
            scope.spawn(move || client.run(writer, &|| false));
        }
    });
}

fn collectors_are_killed() {
    let kills: u32 = std::env::var(KILLS).map_or(20, |text| text.parse().unwrap());
    let work = tempfile::tempdir().unwrap();
    let bytes_acknowledged = || -> u64 {
        let path = |number| work.path().join(format!("acknowledged-{number}"));
        (0..THREADS).map(|number| std::fs::metadata(path(number)).map_or(0, |file| file.len())).sum()
    };
    for _ in 0..kills {
        let before = bytes_acknowledged();
        let mut collector = Command::new(std::env::current_exe().unwrap())
            .envs(stage(INGEST, work.path()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Under load, and sometimes earlier: in the start, the recovery, the repetition.
        if random::<1>()[0] >= 64 {
            let working = || {
                (bytes_acknowledged() > before + 16 || collector.try_wait().unwrap().is_some()).then_some(())
            };
            assert!(within(Duration::from_secs(60), working).is_some());
        }
        std::thread::sleep(Duration::from_micros(
            u64::from(random::<1>()[0]) * 1_000 + u64::from(random::<1>()[0]) * 4,
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

const GROUPS: usize = 20;
const MARK: &str = "acknowledged group";

fn ingest_in_sequence(work: &Path) {
    let writer = writer(work);
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
fn each_answer_comes_after_two_syncs() {
    let work = tempfile::tempdir().unwrap();
    let trace = work.path().join("trace");
    let traced = Command::new(program("strace"))
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .envs(stage(INGEST_IN_SEQUENCE, work.path()))
        .output()
        .unwrap();
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
