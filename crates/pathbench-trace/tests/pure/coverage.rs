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
    assert_eq!((coverage.covered(0, 10_260), coverage.contiguous_end()), (1026 * 4 + 6, 14));
    assert_eq!((coverage.covered(4, 10), coverage.covered(14, 20)), (6, 0));
}

proptest! {
    #[test]
    fn ranges_agree_with_a_set_of_bytes(steps in prop::collection::vec((0_u64..200, 0_u64..30), 1..60)) {
        let (mut coverage, mut model) = (Coverage::default(), BTreeSet::new());
        for (start, length) in steps {
            let before = model.len();
            model.extend(start..start + length);
            prop_assert_eq!(coverage.add(start, start + length), (model.len() - before) as u64);
            for (low, high) in [(0, 300), (start, start + 17), (40, 90)] {
                prop_assert_eq!(coverage.covered(low, high), model.range(low..high).count() as u64);
            }
            let covered: Vec<u64> = (0..300).filter(|&at| coverage.covered(at, at + 1) == 1).collect();
            prop_assert_eq!(covered, model.iter().copied().collect::<Vec<_>>());
            if let Some(first) = model.first() {
                let end = (*first..1000).find(|at| !model.contains(at));
                prop_assert_eq!(Some(coverage.contiguous_end()), end);
            }
        }
    }
}
