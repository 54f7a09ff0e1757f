//! Retention, erasure and checks, for both databases and both raw stores.

use super::results::{checked, group, id_at};
use super::{MovedClock, random};
use pathbench_api::Uuid;
use pathbench_collector::ingest::{Writer, WriterOptions};
use pathbench_collector::maintenance::{
    Depth, Erased, MaintenanceError, check, check_pair, erase_deleted, erase_unreferenced, pair, retain,
};
use pathbench_collector::raw::RawMaintenance;
use pathbench_collector::raw::directory::SEALED_AFTER;
use pathbench_collector::store::{DatabaseMaintenance, Deletion};
use pathbench_record::time::WallClock as _;
use std::sync::Arc;
use std::time::Duration;

/// Longer than a segment can be in use.
const SEALED: Duration = Duration::from_secs(3 * SEALED_AFTER.as_secs());

pub(crate) struct Stored {
    pub(crate) ids: Vec<Uuid>,
    received_ms: u64,
}

/// Stores results with raw parts of 5,000 bytes, each in a commit of its own.
pub(crate) fn store(
    database: &Arc<dyn DatabaseMaintenance>,
    raw: &Arc<dyn RawMaintenance>,
    clock: &MovedClock,
    count: u8,
) -> Stored {
    let writer = Writer::start(database.clone(), raw.clone(), WriterOptions::default()).unwrap();
    let received_ms = clock.unix_ms();
    let submissions = (0..count).map(|number| {
        let id = id_at(received_ms);
        let submission = checked(id, &id.to_string(), vec![number + 1; 5_000]);
        let answer = writer.submit(group(vec![submission], received_ms)).unwrap();
        assert!(answer.blocking_recv().unwrap().unwrap().statuses[0].is_stored());
        id
    });
    Stored { ids: submissions.collect(), received_ms }
}

fn delete(database: &dyn DatabaseMaintenance, ids: &[Uuid]) {
    for id in ids {
        assert_eq!(database.delete(&Deletion::One(*id), 1).unwrap(), 1);
    }
}

pub(crate) fn is_in_order(database: &dyn DatabaseMaintenance, raw: &dyn RawMaintenance) {
    assert_eq!(check(database, raw, Depth::Digests).unwrap(), [""; 0]);
}

pub(crate) fn behaves(
    database: &Arc<dyn DatabaseMaintenance>,
    raw: &Arc<dyn RawMaintenance>,
    clock: &MovedClock,
    holds: &dyn Fn(&[u8]) -> bool,
) {
    let old = store(database, raw, clock, 6);
    is_in_order(&**database, &**raw);
    assert!(holds(&[3; 4_000]));
    delete(&**database, &old.ids[2..3]);
    erase_deleted(&**database, &**raw).unwrap();
    assert!(!holds(&[3; 100]));
    assert!(holds(&[4; 5_000]));
    assert_eq!(erase_deleted(&**database, &**raw).unwrap(), Erased::default());
    is_in_order(&**database, &**raw);
    // A commit that failed after its raw parts were stored.
    raw.append(&[&[77; 3_000], &[78; 3_000]]).unwrap();
    assert_eq!(erase_unreferenced(&**database, &**raw).unwrap(), Erased::default());
    assert!(holds(&[77; 3_000]));
    clock.advance(SEALED);
    // A clock that is set forward between an append and its transaction erases nothing.
    erase_unreferenced(&**database, &**raw).unwrap();
    assert!(holds(&[77; 3_000]));
    raw.append(&[&[79; 3_000]]).unwrap();
    erase_unreferenced(&**database, &**raw).unwrap();
    assert!(!holds(&[77; 100]));
    assert!(!holds(&[78; 100]));
    assert!(holds(&[4; 5_000]));
    is_in_order(&**database, &**raw);

    let segments_of_old = database.segments_after("", 100).unwrap();
    let new = store(database, raw, clock, 3);
    assert!(new.received_ms > old.received_ms);
    // As if it were the next day.
    raw.append(&[&[80; 10]]).unwrap();
    assert_eq!(retain(&**database, &**raw, Duration::from_secs(3_600), new.received_ms).unwrap(), 5);
    assert!(!holds(&[5; 100]));
    assert!(holds(&[1; 5_000]));
    assert!(new.ids.iter().all(|id| database.result(*id).unwrap().is_some()));
    // Segments of deleted results only are gone.
    let used = database.segments_after("", 100).unwrap();
    erase_unreferenced(&**database, &**raw).unwrap();
    let held: Vec<String> = raw.segments().unwrap().into_iter().map(|segment| segment.name).collect();
    assert!(used.iter().all(|segment| held.contains(segment)));
    assert!(!segments_of_old.iter().any(|segment| held.contains(segment)));
    is_in_order(&**database, &**raw);

    // Damage is found.
    let range = database.ranges(&used[0]).unwrap().remove(0);
    raw.erase(std::slice::from_ref(&range)).unwrap();
    assert_eq!(check(&**database, &**raw, Depth::Ranges).unwrap(), [""; 0]);
    let problems = check(&**database, &**raw, Depth::Digests).unwrap();
    assert!(problems.len() == 1 && problems[0].contains(&range.segment), "{problems:?}");
    raw.remove(&range.segment).unwrap();
    let problems = check(&**database, &**raw, Depth::Ranges).unwrap();
    assert!(problems[0].contains("is missing"), "{problems:?}");
}

/// `raw` holds nothing; `other` is empty.
pub(crate) fn belongs_to_one_database(
    database: &Arc<dyn DatabaseMaintenance>,
    other: &dyn DatabaseMaintenance,
    raw: &Arc<dyn RawMaintenance>,
    clock: &MovedClock,
) {
    let refused = check_pair(&**database, &**raw).unwrap_err();
    assert!(matches!(refused, MaintenanceError::NoCollector), "{refused}");
    // Of a collector without identities.
    store(database, raw, clock, 2);
    let is_refused = || {
        for _ in 0..2 {
            let refused = pair(other, &**raw, random, 1).unwrap_err();
            assert!(matches!(refused, MaintenanceError::OtherDatabase { .. }), "{refused}");
            assert!(refused.to_string().contains(&raw.location()), "{refused}");
        }
    };
    is_refused();
    assert_eq!(raw.identity().unwrap(), None);
    for _ in 0..2 {
        pair(&**database, &**raw, random, 1).unwrap();
        check_pair(&**database, &**raw).unwrap();
    }
    is_refused();
}
