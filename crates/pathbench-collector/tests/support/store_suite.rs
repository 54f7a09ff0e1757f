//! The behaviours of a database.

use super::random;
use super::results::{NOW_MS, id_at, raw_range, result};
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_collector::store::{
    Database, DatabaseMaintenance, Deletion, Document, DocumentKind, Inserted, NewResult, ResultChange,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Opens the same database once more.
pub(crate) type Open<'a> = &'a (dyn Fn() -> Arc<dyn DatabaseMaintenance> + Sync);

type Behaviour = fn(Open<'_>);

pub(crate) const BEHAVIOURS: &[(&str, Behaviour)] = &[
    ("inserts", inserts),
    ("deletions", deletions),
    ("feed", feed),
    ("documents", documents),
    ("maintenance", maintenance),
    ("model", model),
    ("writers", writers),
    ("many", many),
];

fn inserts(open: Open<'_>) {
    let database = open();
    let (a, b, c) = (id_at(NOW_MS), id_at(NOW_MS), id_at(NOW_MS));
    let mut with_raw = result(a, "a");
    with_raw.raw = Some(raw_range("segment", 5, 20));
    with_raw.consent = Consent::Private;
    assert_eq!(
        database.insert(&[with_raw.clone(), result(b, "b")]).unwrap(),
        [Inserted::Created, Inserted::Created]
    );
    let again = database.insert(&[result(b, "b"), result(a, "other"), result(c, "c")]).unwrap();
    assert_eq!(again, [Inserted::Known, Inserted::Conflict, Inserted::Created]);
    // Repetitions in one batch.
    let d = id_at(NOW_MS);
    let mut twice = database.insert(&[result(d, "d"), result(d, "d")]).unwrap();
    twice.sort_by_key(|inserted| *inserted != Inserted::Created);
    assert_eq!(twice, [Inserted::Created, Inserted::Known]);
    assert_eq!(database.insert(&[]).unwrap(), []);

    let stored = database.result(a).unwrap().unwrap();
    assert_eq!((stored.summary, stored.raw), (with_raw.summary, with_raw.raw));
    assert_eq!((stored.agent, stored.consent), (with_raw.agent, Consent::Private));
    assert_eq!(stored.received_ms, NOW_MS);
    assert_eq!(database.result(id_at(NOW_MS)).unwrap(), None);
    let sequence = |id| database.result(id).unwrap().unwrap().sequence;
    let wanted = [sequence(c), 1 << 40, sequence(a), u64::MAX, sequence(b)];
    let ids: Vec<Uuid> = database.results(&wanted).unwrap().into_iter().map(|found| found.id).collect();
    assert_eq!(ids, [c, a, b]);
    // Another process sees the same, also after a restart.
    assert_eq!(open().result(a).unwrap().unwrap().id, a);
    let mut known = open().known(&[a, id_at(NOW_MS), b]).unwrap();
    known.sort_by_key(|(id, _)| *id);
    let mut expected = vec![(a, Some(Digest::compute(b"a"))), (b, Some(Digest::compute(b"b")))];
    expected.sort_by_key(|(id, _)| *id);
    assert_eq!(known, expected);
    database.check().unwrap();
}

fn deletions(open: Open<'_>) {
    let database = open();
    let ids: Vec<Uuid> = (0..6).map(|_| id_at(NOW_MS)).collect();
    let (own, other) = (Digest::compute(b"own"), Digest::compute(b"other"));
    for (number, id) in (0..).zip(&ids) {
        let mut new = result(*id, "x");
        new.deletion = if number < 4 { own } else { other };
        new.received_ms = NOW_MS + number;
        new.raw = Some(raw_range("segment", number * 10, 10));
        database.insert(&[new]).unwrap();
    }
    let delete = |which: &Deletion| database.delete(which, NOW_MS).unwrap();
    assert_eq!(delete(&Deletion::OneWithToken(ids[0], other)), 0);
    assert_eq!(delete(&Deletion::OneWithToken(ids[0], own)), 1);
    assert_eq!(delete(&Deletion::OneWithToken(ids[0], own)), 0);
    assert_eq!(delete(&Deletion::ReceivedBefore(NOW_MS + 2)), 1);
    assert_eq!(delete(&Deletion::AllWithToken(own)), 2);
    assert_eq!(delete(&Deletion::One(ids[5])), 1);
    assert_eq!(delete(&Deletion::One(id_at(NOW_MS))), 0);
    for (id, left) in ids.iter().zip([false, false, false, false, true, false]) {
        assert_eq!(database.result(*id).unwrap().is_some(), left);
        let expected = if left { Inserted::Known } else { Inserted::Deleted };
        assert_eq!(database.insert(&[result(*id, "x")]).unwrap(), [expected]);
        let expected = left.then(|| Digest::compute(b"x"));
        assert_eq!(database.known(&[*id]).unwrap(), [(*id, expected)]);
    }
    let erasures = database.erasures(100).unwrap();
    let offsets: BTreeSet<u64> = erasures.iter().map(|erasure| erasure.range.offset).collect();
    assert_eq!(offsets, BTreeSet::from([0, 10, 20, 30, 50]));
    database.erased(&[erasures[0].number, erasures[1].number]).unwrap();
    assert_eq!(database.erasures(100).unwrap(), erasures[2..]);
    assert_eq!(database.erasures(1).unwrap(), erasures[2..3]);
}

fn sequence_of(change: &ResultChange) -> u64 {
    match change {
        ResultChange::Added { sequence, .. } | ResultChange::Deleted { sequence, .. } => *sequence,
    }
}

fn feed(open: Open<'_>) {
    let database = open();
    let ids: Vec<Uuid> = (0..10).map(|_| id_at(NOW_MS)).collect();
    for id in &ids {
        database.insert(&[result(*id, &id.to_string())]).unwrap();
    }
    let all = database.changes_after(0, 100).unwrap();
    let added: Vec<Uuid> = all
        .iter()
        .map(|change| match change {
            ResultChange::Added { id, facts, agent, consent, received_ms, .. } => {
                assert_eq!(facts, id.to_string().as_bytes());
                assert_eq!((*agent, *consent, *received_ms), (Uuid::from_u128(7), Consent::Public, NOW_MS));
                *id
            }
            ResultChange::Deleted { .. } => panic!("nothing is deleted"),
        })
        .collect();
    assert_eq!(added, ids);
    database.delete(&Deletion::One(ids[3]), NOW_MS).unwrap();
    database.insert(&[result(id_at(NOW_MS), "last")]).unwrap();
    // In pages, after the newest one seen.
    let (mut seen, mut cursor) = (Vec::new(), 0);
    loop {
        let page = database.changes_after(cursor, 3).unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        cursor = sequence_of(last);
        seen.extend(page);
    }
    assert!(seen.windows(2).all(|pair| sequence_of(&pair[0]) < sequence_of(&pair[1])));
    assert_eq!(seen.len(), 11);
    assert!(matches!(seen[9], ResultChange::Deleted { id, .. } if id == ids[3]));
    assert_eq!(seen, database.changes_after(0, usize::MAX).unwrap());
}

fn documents(open: Open<'_>) {
    let database = open();
    let document = |key: &str, body: &str, updated_ms| Document {
        key: key.to_owned(),
        body: body.to_owned(),
        updated_ms,
    };
    let hostile = "'; DROP TABLE documents; -- \u{202e}\u{1f30d} %s \\ \"";
    database.put_document(DocumentKind::Server, &document("b", "{}", 1)).unwrap();
    database.put_document(DocumentKind::Server, &document(hostile, hostile, 2)).unwrap();
    database.put_document(DocumentKind::Agent, &document("b", "{\"agent\":1}", 3)).unwrap();
    database.put_document(DocumentKind::Server, &document("b", "{\"new\":1}", 4)).unwrap();
    let counts = [0, 3, 5].map(|since_ms| database.count_documents(DocumentKind::Server, since_ms).unwrap());
    assert_eq!(counts, [2, 1, 0]);
    let keys = |since_ms, limit| -> Vec<String> {
        let found = database.documents_since(DocumentKind::Server, since_ms, ("", limit)).unwrap();
        found.into_iter().map(|document| document.key).collect()
    };
    assert_eq!((keys(3, 9), keys(0, 1)), (vec!["b".to_owned()], vec![hostile.to_owned()]));
    let after = |key: &str| database.documents_since(DocumentKind::Server, 0, (key, 1)).unwrap();
    assert_eq!((after(hostile)[0].key.as_str(), after("b").len(), after("").len()), ("b", 0, 1));
    assert_eq!(
        open().documents(DocumentKind::Server).unwrap(),
        [document(hostile, hostile, 2), document("b", "{\"new\":1}", 4)]
    );
    assert_eq!(database.document(DocumentKind::Agent, "b").unwrap(), Some(document("b", "{\"agent\":1}", 3)));
    assert_eq!(database.document(DocumentKind::Live, "b").unwrap(), None);
    assert!(database.delete_document(DocumentKind::Server, hostile).unwrap());
    assert!(!database.delete_document(DocumentKind::Server, hostile).unwrap());
    assert_eq!(database.documents(DocumentKind::Server).unwrap().len(), 1);
    assert_eq!(database.delete_documents(DocumentKind::Server, 4).unwrap(), 0);
    assert_eq!(database.delete_documents(DocumentKind::Server, 5).unwrap(), 1);
    assert_eq!(database.documents(DocumentKind::Agent).unwrap().len(), 1);
}

fn maintenance(open: Open<'_>) {
    let database = open();
    for (segment, offset) in [("b", 30), ("b", 10), ("a", 0), ("c", 5), ("b", 20)] {
        let mut new = result(id_at(NOW_MS), "x");
        new.raw = Some(raw_range(segment, offset, 10));
        database.insert(&[new, result(id_at(NOW_MS), "without")]).unwrap();
    }
    assert_eq!(database.segments_after("", 2).unwrap(), ["a", "b"]);
    assert_eq!(database.segments_after("b", 2).unwrap(), ["c"]);
    let offsets = |ranges: Vec<pathbench_collector::store::RawRange>| -> Vec<u64> {
        ranges.into_iter().map(|range| range.offset).collect()
    };
    assert_eq!(offsets(database.ranges("b").unwrap()), [10, 20, 30]);
    assert_eq!(offsets(database.ranges("d").unwrap()), [0; 0]);
    assert_eq!(database.verify().unwrap(), [""; 0]);
}

/// The state that a sequence of operations must lead to.
#[derive(Default)]
struct Model {
    /// `None`: deleted.
    results: BTreeMap<Uuid, Option<NewResult>>,
}

impl Model {
    fn insert(&mut self, new: &NewResult) -> Inserted {
        match self.results.get(&new.id) {
            Some(None) => Inserted::Deleted,
            Some(Some(stored)) if stored.digest == new.digest => Inserted::Known,
            Some(Some(_)) => Inserted::Conflict,
            None => {
                self.results.insert(new.id, Some(new.clone()));
                Inserted::Created
            }
        }
    }

    fn delete(&mut self, which: &Deletion) -> u64 {
        let mut deleted = 0;
        for (id, stored) in &mut self.results {
            let fits = |new: &mut NewResult| match which {
                Deletion::One(one) => id == one,
                Deletion::OneWithToken(one, token) => id == one && new.deletion == *token,
                Deletion::AllWithToken(token) => new.deletion == *token,
                Deletion::ReceivedBefore(limit_ms) => new.received_ms < *limit_ms,
            };
            if stored.as_mut().is_some_and(fits) {
                *stored = None;
                deleted += 1;
            }
        }
        deleted
    }
}

struct Random(u64);

impl Random {
    /// xorshift64 (Marsaglia, 2003).
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn model(open: Open<'_>) {
    let database = open();
    let seed = u64::from_be_bytes(random()) | 1;
    let mut random = Random(seed);
    let ids: Vec<Uuid> = (0..60).map(|_| id_at(NOW_MS)).collect();
    let mut model = Model::default();
    for _ in 0..250 {
        let id = ids[random.below(60) as usize];
        let token = |number: u64| Digest::compute(&[number as u8]);
        let deletion = match random.below(30) {
            0 => Some(Deletion::One(id)),
            1 => Some(Deletion::OneWithToken(id, token(random.below(20)))),
            2 => Some(Deletion::AllWithToken(token(random.below(20)))),
            3 => Some(Deletion::ReceivedBefore(NOW_MS + random.below(30))),
            _ => None,
        };
        if let Some(which) = deletion {
            assert_eq!(
                database.delete(&which, NOW_MS).unwrap(),
                model.delete(&which),
                "seed {seed}: {which:?}"
            );
            continue;
        }
        let mut batch: HashMap<Uuid, NewResult> = HashMap::new();
        for _ in 0..=random.below(8) {
            let mut new = result(ids[random.below(60) as usize], &format!("content {}", random.below(8) / 7));
            new.deletion = token(random.below(20));
            new.received_ms = NOW_MS + random.below(1_000);
            batch.insert(new.id, new);
        }
        let batch: Vec<NewResult> = batch.into_values().collect();
        let expected: Vec<Inserted> = batch.iter().map(|new| model.insert(new)).collect();
        assert_eq!(database.insert(&batch).unwrap(), expected, "seed {seed}");
    }
    for id in &ids {
        let stored = database.result(*id).unwrap().map(|stored| stored.summary);
        let expected = model.results.get(id).cloned().flatten().map(|new| new.summary);
        assert_eq!(stored, expected);
    }
    // The feed alone leads to the same set, and names no result twice.
    let mut from_feed = BTreeSet::new();
    for change in database.changes_after(0, usize::MAX).unwrap() {
        match change {
            ResultChange::Added { id, .. } => assert!(from_feed.insert(id)),
            ResultChange::Deleted { id, .. } => assert!(!from_feed.contains(&id)),
        }
    }
    let left: BTreeSet<Uuid> =
        model.results.iter().filter(|(_, stored)| stored.is_some()).map(|(id, _)| *id).collect();
    assert_eq!(from_feed, left);
    assert_eq!(database.verify().unwrap(), [""; 0]);
}

/// A reader that follows the feed misses nothing while four collectors write.
fn writers(open: Open<'_>) {
    let done = AtomicBool::new(false);
    let shared: Vec<Uuid> = (0..40).map(|_| id_at(NOW_MS)).collect();
    let created = std::sync::Mutex::new(BTreeMap::<Uuid, u32>::new());
    let followed = std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&*open(), &done));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (shared, created) = (&shared, &created);
                scope.spawn(move || {
                    let database = open();
                    for (round, contested) in shared.iter().enumerate() {
                        // Each collector submits the same ids among its own ones.
                        let batch: Vec<NewResult> = (0..3)
                            .map(|_| result(id_at(NOW_MS), "own"))
                            .chain([result(*contested, "contested")])
                            .collect();
                        for (new, inserted) in batch.iter().zip(database.insert(&batch).unwrap()) {
                            if inserted == Inserted::Created {
                                *created.lock().unwrap().entry(new.id).or_default() += 1;
                            }
                        }
                        if round % 10 == writer {
                            database.delete(&Deletion::One(batch[0].id), NOW_MS).unwrap();
                        }
                    }
                })
            })
            .collect();
        // The follower ends even if a writer has failed.
        let written: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        for writer in written {
            writer.unwrap();
        }
        follower.join().unwrap()
    });
    let created = created.into_inner().unwrap();
    assert_eq!(created.len(), 4 * 40 * 3 + 40);
    assert!(created.values().all(|times| *times == 1), "created twice");
    let database = open();
    let mut left = BTreeSet::new();
    for change in database.changes_after(0, usize::MAX).unwrap() {
        if let ResultChange::Added { id, .. } = change {
            left.insert(id);
        }
    }
    assert_eq!(left.len(), created.len() - 16);
    assert_eq!(followed, left);
    assert_eq!(database.verify().unwrap(), [""; 0]);
}

fn follow(database: &dyn DatabaseMaintenance, done: &AtomicBool) -> BTreeSet<Uuid> {
    let (mut present, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let last_round = done.load(Ordering::SeqCst);
        let page = database.changes_after(cursor, 7).unwrap();
        for change in &page {
            assert!(sequence_of(change) > cursor);
            cursor = sequence_of(change);
            match change {
                ResultChange::Added { id, .. } => assert!(present.insert(*id)),
                ResultChange::Deleted { id, .. } => drop(present.remove(id)),
            }
        }
        if page.is_empty() && last_round {
            return present;
        }
    }
}

/// More than one transaction deletes at once, and a large batch.
fn many(open: Open<'_>) {
    let database = open();
    for _ in 0..4 {
        let batch: Vec<NewResult> = (0..3_000).map(|_| result(id_at(NOW_MS), "x")).collect();
        let inserted = database.insert(&batch).unwrap();
        assert!(inserted.iter().all(|inserted| *inserted == Inserted::Created));
    }
    assert_eq!(database.delete(&Deletion::ReceivedBefore(u64::MAX), NOW_MS).unwrap(), 12_000);
    assert_eq!(database.delete(&Deletion::ReceivedBefore(u64::MAX), NOW_MS).unwrap(), 0);
    let changes = database.changes_after(0, usize::MAX).unwrap();
    assert_eq!(changes.len(), 12_000);
    assert!(changes.iter().all(|change| matches!(change, ResultChange::Deleted { .. })));
}

fn golden_id(number: u128) -> Uuid {
    Uuid::from_u128((u128::from(NOW_MS) << 80) | (7 << 76) | (2 << 62) | number)
}

pub(crate) fn fill_golden(database: &dyn Database) {
    for number in 1..=5_u8 {
        let mut new = result(golden_id(number.into()), &format!("golden {number}"));
        new.raw = (number % 2 == 1).then(|| raw_range("segment", u64::from(number), 10));
        new.consent = if number == 2 { Consent::Private } else { Consent::Public };
        database.insert(&[new]).unwrap();
    }
    database.delete(&Deletion::One(golden_id(3)), NOW_MS).unwrap();
    let document = Document { key: "k".to_owned(), body: "{}".to_owned(), updated_ms: NOW_MS };
    database.put_document(DocumentKind::Experiment, &document).unwrap();
}

/// Every released schema was filled with [`fill_golden`].
pub(crate) fn golden_answers(database: &dyn DatabaseMaintenance) {
    assert_eq!(database.verify().unwrap(), [""; 0]);
    let changes = database.changes_after(0, 10).unwrap();
    assert_eq!(changes.iter().map(sequence_of).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
    let second = database.result(golden_id(2)).unwrap().unwrap();
    assert_eq!((second.consent, second.sequence, second.raw), (Consent::Private, 2, None));
    assert_eq!(second.summary, b"{\"content\":\"golden 2\"}");
    let fifth = database.result(golden_id(5)).unwrap().unwrap();
    assert_eq!(fifth.raw, Some(raw_range("segment", 5, 10)));
    assert_eq!(database.insert(&[result(golden_id(3), "golden 3")]).unwrap(), [Inserted::Deleted]);
    assert_eq!(database.insert(&[result(golden_id(4), "golden 4")]).unwrap(), [Inserted::Known]);
    assert_eq!(database.erasures(10).unwrap().len(), 1);
    assert_eq!(database.document(DocumentKind::Experiment, "k").unwrap().unwrap().body, "{}");
}
