//! Clients that note what they send and what a collector acknowledges, and the comparison with what it stores.

use super::results::{self, NOW_MS, checked, id_at};
use super::{MovedClock, random};
use pathbench_api::Uuid;
use pathbench_api::problem::LineStatus;
use pathbench_api::submission::Checked;
use pathbench_collector::ingest::Writer;
use pathbench_collector::maintenance::{Depth, check};
use pathbench_collector::raw::RawMaintenance;
use pathbench_collector::raw::directory::Directory;
use pathbench_collector::store::{DatabaseMaintenance, ResultChange};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const THREADS: usize = 8;

pub(crate) fn raw_store(work: &Path) -> Arc<dyn RawMaintenance> {
    Arc::new(Directory::open(&work.join("raw"), Arc::new(MovedClock::default()), random).unwrap())
}

/// The content of a submission follows from its id, so that a repetition is the same.
pub(crate) fn submission(id: Uuid) -> Checked {
    let raw = id.as_bytes().repeat(50 + usize::from(id.as_bytes()[15]));
    checked(id, &id.to_string(), raw)
}

/// Lines of a file; the last one can be torn.
fn ids_in(path: &Path) -> Vec<Uuid> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
}

/// A client: it notes what it sends and what is acknowledged, and repeats at its start what is not.
pub(crate) struct Client {
    work: PathBuf,
    number: usize,
    sent: File,
    acknowledged: File,
}

impl Client {
    pub(crate) fn new(work: &Path, number: usize) -> Self {
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
    pub(crate) fn run(mut self, writer: &Writer, over: &dyn Fn() -> bool) {
        // What a kill tore stays on a line of its own.
        self.sent.write_all(b"\n").unwrap();
        self.acknowledged.write_all(b"\n").unwrap();
        let acknowledged: BTreeSet<Uuid> = self.ids("acknowledged").into_iter().collect();
        let mut group: Vec<Uuid> =
            self.ids("sent").into_iter().filter(|id| !acknowledged.contains(id)).collect();
        let mut is_new = false;
        while !over() {
            if group.is_empty() {
                group = (0..=random::<1>()[0] % 3).map(|_| id_at(NOW_MS)).collect();
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
pub(crate) fn verify(database: &dyn DatabaseMaintenance, raw: &dyn RawMaintenance, work: &Path) -> usize {
    let (mut acknowledged, mut sent) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..THREADS {
        for id in ids_in(&work.join(format!("acknowledged-{number}"))) {
            assert!(acknowledged.insert(id), "acknowledged twice: {id}");
        }
        sent.extend(ids_in(&work.join(format!("sent-{number}"))));
    }
    let mut stored = BTreeSet::new();
    for change in database.changes_after(0, usize::MAX).unwrap() {
        let ResultChange::Added { id, .. } = change else { panic!("nothing is deleted") };
        assert!(stored.insert(id), "stored twice: {id}");
    }
    assert!(acknowledged.is_subset(&stored), "lost: {:?}", acknowledged.difference(&stored));
    assert!(stored.is_subset(&sent), "never sent: {:?}", stored.difference(&sent));
    for id in &acknowledged {
        let range = database.result(*id).unwrap().unwrap().raw.unwrap();
        assert_eq!(raw.read(&range).unwrap(), submission(*id).raw);
    }
    assert_eq!(check(database, raw, Depth::Digests).unwrap(), [""; 0]);
    acknowledged.len()
}
