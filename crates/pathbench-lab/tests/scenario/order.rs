//! The order of a study's runs.

use pathbench_lab::study::schedule;
use pathbench_record::transport::TransportLabel;
use std::collections::BTreeSet;

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
