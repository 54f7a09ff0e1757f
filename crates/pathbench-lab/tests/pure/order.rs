//! The order of a study's runs.

use pathbench_lab::study::{RunOrder, ScheduledRun, interleave};
use pathbench_record::document::Shard;
use pathbench_record::transport::TransportLabel;
use std::collections::BTreeSet;

fn course(repeat: u32, seed: u64) -> RunOrder {
    RunOrder { repeat, warm_up: 0, seed, shard: None }
}

fn schedule(variants: &[(&[TransportLabel], usize)], repeat: u32, seed: u64) -> Vec<ScheduledRun> {
    pathbench_lab::study::schedule(variants, &course(repeat, seed))
}

fn labels() -> Vec<TransportLabel> {
    ["mptcp", "tcp@eth", "tcp@wlan"].iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn every_repetition_holds_each_variant_label_and_pattern_once() {
    let labels = labels();
    let runs = schedule(&[(&labels, 1), (&labels[..1], 5)], 5, 7);
    assert_eq!(runs.len(), 40);
    for (index, block) in runs.chunks(8).enumerate() {
        assert!(block.iter().all(|run| run.repetition == index as u32 + 1));
        let distinct: BTreeSet<_> =
            block.iter().map(|run| (run.variant, run.label.clone(), run.pattern)).collect();
        assert_eq!(distinct.len(), 8);
    }
}

#[test]
fn the_seed_decides_the_order_and_nothing_else_does() {
    let labels = labels();
    assert_eq!(schedule(&[(&labels, 1)], 6, 1), schedule(&[(&labels, 1)], 6, 1));
    assert_ne!(schedule(&[(&labels, 1)], 6, 1), schedule(&[(&labels, 1)], 6, 2));
    let first: BTreeSet<String> =
        (0..40).map(|seed| schedule(&[(&labels, 1)], 1, seed)[0].label.to_string()).collect();
    assert_eq!(first.len(), 3, "each label goes first under some seed");
}

fn ids(runs: &[ScheduledRun]) -> Vec<String> {
    runs.iter().map(|run| run.id(None, None)).collect()
}

#[test]
fn shards_are_disjoint_and_their_union_is_the_whole_study_in_its_order() {
    let labels = labels();
    for (repeat, of) in [(1, 1), (2, 2), (7, 3), (30, 8)] {
        let whole = schedule(&[(&labels, 2)], repeat, 3);
        let mut union: Vec<ScheduledRun> = Vec::new();
        for number in 1..=of {
            let shard = RunOrder { shard: Some(Shard { number, of }), ..course(repeat, 3) };
            let runs = pathbench_lab::study::schedule(&[(&labels, 2)], &shard);
            assert!(!runs.is_empty() && runs.is_sorted_by_key(|run| run.number));
            assert!(runs.iter().all(|run| !union.contains(run)));
            // A shard has whole repetitions.
            assert!(
                runs.chunks(6).all(|block| block.iter().all(|run| run.repetition == block[0].repetition))
            );
            union.extend(runs);
        }
        union.sort_by_key(|run| run.number);
        assert_eq!(union, whole, "{repeat} repetitions in {of} shards");
    }
}

#[test]
fn warm_up_runs_come_first_and_do_not_change_the_order_of_the_others() {
    let labels = labels();
    let with = RunOrder { warm_up: 2, ..course(4, 5) };
    let runs = pathbench_lab::study::schedule(&[(&labels, 1)], &with);
    let (warm_up, rest) = runs.split_at(6);
    assert!(warm_up.iter().all(|run| run.warm_up && run.id(None, None).starts_with('w')));
    assert_eq!(rest, schedule(&[(&labels, 1)], 4, 5));
    // Every shard makes them, under ids of its own.
    let shard = Shard { number: 2, of: 2 };
    let of_shard = pathbench_lab::study::schedule(&[(&labels, 1)], &RunOrder { shard: Some(shard), ..with });
    assert_eq!(of_shard[..6], *warm_up);
    assert!(of_shard[0].id(Some("ping"), Some(shard)).ends_with("-ping-r1-s2"));
    assert_eq!(of_shard[6].id(None, Some(shard)), of_shard[6].id(None, None));
}

#[test]
fn several_scenarios_alternate_within_each_repetition_and_keep_their_own_order() {
    let labels = labels();
    let orders = [schedule(&[(&labels, 2)], 3, 1), schedule(&[(&labels[..1], 1)], 5, 2), Vec::new()];
    let merged = interleave(&orders, 1);
    assert_eq!(merged, interleave(&orders, 1));
    assert_ne!(merged, interleave(&orders, 2));
    for (scenario, order) in orders.iter().enumerate() {
        let indices: Vec<usize> =
            merged.iter().filter(|(of, _)| *of == scenario).map(|(_, index)| *index).collect();
        assert_eq!(indices, (0..order.len()).collect::<Vec<_>>());
    }
    let repetitions: Vec<u32> =
        merged.iter().map(|&(scenario, index)| orders[scenario][index].repetition).collect();
    assert!(repetitions.is_sorted());
    let first: BTreeSet<usize> = (0..60).map(|seed| interleave(&orders, seed)[0].0).collect();
    assert_eq!(first, BTreeSet::from([0, 1]));
    assert_eq!(ids(&orders[0]).into_iter().collect::<BTreeSet<_>>().len(), 18);
}
