//! The behaviour of both raw stores.

use super::contains;
use pathbench_collector::raw::{RawError, RawMaintenance};
use pathbench_collector::store::RawRange;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Incompressible, and different for every number.
pub(crate) fn part(number: u8, bytes: usize) -> Vec<u8> {
    let mut state = u32::from(number) + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 | 1
    };
    (0..bytes).map(|_| next()).collect()
}

/// `stored` reads all that the store has written.
pub(crate) fn behaves(open: &dyn Fn() -> Arc<dyn RawMaintenance>, stored: &dyn Fn() -> Vec<u8>) {
    let store = open();
    assert_eq!(store.append(&[]).unwrap(), []);
    assert_eq!(store.segments().unwrap(), []);
    store.check().unwrap();
    let parts: Vec<Vec<u8>> = [20_000, 1, 0, 300_000, 4_096, 7]
        .into_iter()
        .zip(0..)
        .map(|(bytes, number)| part(number, bytes))
        .collect();
    let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let first = store.append(&slices).unwrap();
    let second = store.append(&slices[..2]).unwrap();
    for (range, part) in first.iter().chain(&second).zip(parts.iter().chain(&parts)) {
        assert_eq!(&store.read(range).unwrap(), part);
        assert_eq!(&open().read(range).unwrap(), part);
    }
    // Places that a damaged database could name.
    let wrong = |change: &dyn Fn(&mut RawRange)| {
        let mut range = first[3].clone();
        change(&mut range);
        store.read(&range).unwrap_err()
    };
    assert!(matches!(wrong(&|range| "../passwd".clone_into(&mut range.segment)), RawError::Missing { .. }));
    let other = "019abcdef0007000800000000000000a";
    assert!(matches!(wrong(&|range| other.clone_into(&mut range.segment)), RawError::Missing { .. }));
    assert!(matches!(wrong(&|range| range.offset += 1), RawError::Damaged { .. }));
    wrong(&|range| range.offset = u64::MAX - 5);
    wrong(&|range| range.bytes = 1 << 20);

    let segments = store.segments().unwrap();
    let names: BTreeSet<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
    let used: BTreeSet<&str> = first.iter().chain(&second).map(|range| range.segment.as_str()).collect();
    assert_eq!(names, used);
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    assert_eq!(bytes, parts.iter().chain(&parts[..2]).map(|part| part.len() as u64).sum::<u64>());
    assert!(segments.iter().all(|segment| segment.made_ms > store.sealed_before_ms()));
    let mut copy = Vec::new();
    store.copy(&first[0].segment, &mut copy).unwrap();
    assert!(copy.starts_with(&parts.concat()));

    assert!(contains(&stored(), &parts[3]));
    store.erase(&[first[3].clone(), first[0].clone(), second[0].clone()]).unwrap();
    assert!(!contains(&stored(), &parts[3][..64]));
    assert!(!contains(&stored(), &parts[0][..64]));
    assert!(matches!(store.read(&first[3]).unwrap_err(), RawError::Damaged { .. }));
    for number in [1, 2, 4, 5] {
        assert_eq!(store.read(&first[number]).unwrap(), parts[number]);
    }
    // Erased twice, and after the removal of the segment.
    store.erase(&first[3..4]).unwrap();
    for segment in &segments {
        store.remove(&segment.name).unwrap();
        store.remove(&segment.name).unwrap();
    }
    store.erase(&first).unwrap();
    assert_eq!(store.segments().unwrap(), []);
    assert!(!contains(&stored(), &parts[4]));
}
