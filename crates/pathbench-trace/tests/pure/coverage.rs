//! The set of ranges agrees with a naive model.

use pathbench_trace::coverage::Coverage;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn the_lowest_gap_is_closed_when_there_are_too_many() {
    assert!(size_of::<Coverage>() <= 64);
    let mut coverage = Coverage::default();
    for index in 0..1026 {
        assert_eq!(coverage.add(index * 10, index * 10 + 4), 4);
    }
    assert_eq!((coverage.missing(), coverage.gaps().count(), coverage.contiguous_end()), (6, 1024, 14));
}

proptest! {
    #[test]
    fn ranges_agree_with_a_set_of_bytes(steps in prop::collection::vec((0_u64..200, 0_u64..30, 0_u8..10), 1..60)) {
        let (mut coverage, mut model, mut floor) = (Coverage::default(), BTreeSet::new(), 0);
        for (start, length, action) in steps {
            if action == 0 {
                coverage.forget_before(start);
                floor = floor.max(start);
                model.extend(0..floor);
            }
            let before = model.len();
            model.extend(start..start + length);
            prop_assert_eq!(coverage.add(start, start + length), (model.len() - before) as u64);
            for (low, high) in [(0, 300), (start, start + 17), (40, 90)] {
                prop_assert_eq!(coverage.covered(low, high), model.range(low..high).count() as u64);
            }
            let gaps: Vec<u64> = coverage.gaps().flat_map(|gap| gap.0..gap.1).collect();
            let (first, last) = (model.first().copied().unwrap_or(0), model.last().copied().unwrap_or(0));
            let expected: Vec<u64> = (first..last).filter(|at| !model.contains(at)).collect();
            prop_assert_eq!(gaps, expected);
            if let Some(first) = model.first() {
                let end = (*first..1000).find(|at| !model.contains(at));
                prop_assert_eq!(Some(coverage.contiguous_end()), end);
            }
        }
    }
}
