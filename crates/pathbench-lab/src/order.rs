//! The order of the runs: every repetition runs each variant, label and pattern once, shuffled by the seed.
//!
//! Blocks of one repetition each keep the compared transports close in time, so that a slow drift of the
//! machine falls on all of them alike; the shuffle inside a block keeps one from always going first.

use pathbench_record::random::SplitMix64;
use pathbench_record::transport::TransportLabel;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledRun {
    pub variant: usize,
    pub label: TransportLabel,
    /// Index of the pattern in the variant's plan.
    pub pattern: usize,
    /// From 1.
    pub repetition: u32,
}

/// All runs of a study in the order in which they are made: for each variant its labels, and how many patterns
/// each of them runs. The same seed gives the same order.
pub fn schedule(variants: &[(&[TransportLabel], usize)], repeat: u32, seed: u64) -> Vec<ScheduledRun> {
    let mut random = SplitMix64::new(seed);
    let mut runs = Vec::new();
    for repetition in 1..=repeat {
        let mut block: Vec<ScheduledRun> = Vec::new();
        for (variant, (labels, patterns)) in variants.iter().enumerate() {
            for label in *labels {
                let run = |pattern| ScheduledRun { variant, label: label.clone(), pattern, repetition };
                block.extend((0..*patterns).map(run));
            }
        }
        for last in (1..block.len()).rev() {
            block.swap(last, random.below(last + 1));
        }
        runs.append(&mut block);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
