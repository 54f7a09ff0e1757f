//! The sizes that a search for a path MTU tries.

use pathbench_traffic::path_mtu::{DOUBT, Observations, ProbeLoss, SizeDistribution};
use std::collections::BTreeMap;

fn observations<'a>(
    low: u32,
    ceiling: u32,
    losses: &'a BTreeMap<u32, u32>,
    reported: &'a [u32],
) -> Observations<'a> {
    Observations { floor: 1280.min(low), low, ceiling, losses, loss: 0.05, reported }
}

#[test]
fn common_sizes_are_tried_first_and_answers_narrow_the_range() {
    let mut losses = BTreeMap::new();
    let first = SizeDistribution::from_observations(&observations(1280, 9000, &losses, &[])).divisions(12);
    assert!([1500, 1501, 9000].iter().all(|size| first.contains(size)), "{first:?}");
    losses.insert(1500, 1);
    let distribution = SizeDistribution::from_observations(&observations(1492, 9000, &losses, &[]));
    let next = distribution.divisions(12);
    assert!(next.iter().all(|size| *size > 1492) && next.contains(&1493), "{next:?}");
    assert!(distribution.is_low() > 0.3, "{}", distribution.is_low());
}

#[test]
fn a_reported_mtu_is_tried_with_one_byte_more_and_dropped_when_it_is_wrong() {
    let mut losses = BTreeMap::new();
    let sizes = SizeDistribution::from_observations(&observations(576, 9000, &losses, &[1337])).divisions(8);
    assert!(sizes.contains(&1337) && sizes.contains(&1338), "{sizes:?}");
    losses.insert(1300, 3);
    let sizes = SizeDistribution::from_observations(&observations(576, 9000, &losses, &[1337])).divisions(8);
    assert!(!sizes.contains(&1337), "{sizes:?}");
    for reported in [0, 300, 70_000, u32::MAX] {
        let sizes =
            SizeDistribution::from_observations(&observations(1400, 9000, &losses, &[reported])).divisions(8);
        assert!(sizes.iter().all(|size| (1401..=9000).contains(size)), "{sizes:?}");
    }
    // No size is left to try.
    assert!(
        SizeDistribution::from_observations(&observations(1400, 1400, &losses, &[])).divisions(8).is_empty()
    );
}

#[test]
fn every_size_is_found_by_dividing_in_few_rounds() {
    for (ceiling, mtu) in [(1500, 1281), (1500, 1499), (9000, 1501), (9000, 7777), (65_535, 33_333)] {
        let (mut low, mut rounds, mut losses) = (1280, 0, BTreeMap::new());
        loop {
            let distribution = SizeDistribution::from_observations(&observations(low, ceiling, &losses, &[]));
            if low == mtu && distribution.is_low() > 0.9 {
                break;
            }
            for size in distribution.divisions(12) {
                if size <= mtu {
                    low = low.max(size);
                } else {
                    *losses.entry(size).or_insert(0) += 1;
                }
            }
            rounds += 1;
        }
        assert!(rounds <= 7, "{mtu} below {ceiling}: {rounds} rounds");
    }
}

#[test]
fn confidence_rises_with_probes_and_falls_with_losses() {
    let loss = |answered, lost| ProbeLoss { answered, lost };
    assert!(loss(10, 0).bound() > loss(30, 0).bound());
    assert!(loss(20, 4).bound() > loss(24, 0).bound());
    assert!(loss(20, 4).bound() > loss(20, 4).share());
    assert!((4..=8).contains(&loss(12, 0).times_needed()), "{}", loss(12, 0).times_needed());
    assert!((9..=20).contains(&loss(16, 6).times_needed()), "{}", loss(16, 6).times_needed());
    for (answered, lost) in [(12, 0), (30, 3), (16, 6), (2, 8)] {
        let loss = loss(answered, lost);
        assert!(loss.chance_of_all(loss.times_needed()) <= DOUBT, "{loss:?}");
    }
    assert!(loss(0, 0).times_needed() > 1000, "nothing is known without a single answer");
}
