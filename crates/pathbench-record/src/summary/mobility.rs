//! Handovers and largest delays over repetitions. docs/metrics.md, section Handover.

use crate::direction::Direction;
use crate::document::{LabelHandovers, MobilitySummary, RunRecord, Variant};
use crate::transport::Transport;
use std::collections::BTreeMap;

/// The mobility metrics of `runs`, one entry per variant in the order of first appearance; variants without a handover
/// and without messages on both multipath transports have none. Only valid runs count.
pub fn summarise_mobility(runs: &[RunRecord]) -> Vec<MobilitySummary> {
    let valid: Vec<&RunRecord> = runs.iter().filter(|run| run.valid).collect();
    let mut variants: Vec<&Variant> = Vec::new();
    for run in &valid {
        if !variants.contains(&&run.variant) {
            variants.push(&run.variant);
        }
    }
    let of_variant = |variant: &Variant| {
        let members: Vec<&RunRecord> = valid.iter().copied().filter(|run| run.variant == *variant).collect();
        let summary = MobilitySummary {
            variant: variant.clone(),
            handovers: handovers(&members),
            max_delay_ratios: max_delay_ratios(&members),
        };
        (!summary.handovers.is_empty() || !summary.max_delay_ratios.is_empty()).then_some(summary)
    };
    variants.into_iter().filter_map(of_variant).collect()
}

/// One entry per multipath label; none if no run had a handover.
fn handovers(runs: &[&RunRecord]) -> Vec<LabelHandovers> {
    let mut summaries: BTreeMap<&str, LabelHandovers> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.transport.is_multipath()) {
        let summary = summaries.entry(&run.label).or_default();
        summary.label.clone_from(&run.label);
        summary.runs += 1;
        if let Some(handover) = &run.handover {
            summary.handovers += 1;
            *summary.reasons.entry(handover.reason).or_insert(0) += 1;
            summary.abrupt += u32::from(handover.is_abrupt());
        }
    }
    if summaries.values().all(|summary| summary.handovers == 0) {
        return Vec::new();
    }
    summaries.into_values().collect()
}

/// Direction → largest delay of mptcp ÷ that of mpquic, for each repetition with messages of both in that direction.
fn max_delay_ratios(runs: &[&RunRecord]) -> BTreeMap<String, Vec<f64>> {
    let mut ratios = BTreeMap::new();
    for direction in Direction::BOTH {
        let of_direction: Vec<f64> =
            max_delay_pairs(runs, direction).iter().map(|[mptcp, mpquic]| mptcp / mpquic).collect();
        if !of_direction.is_empty() {
            ratios.insert(direction.name().to_owned(), of_direction);
        }
    }
    ratios
}

/// Largest delays of mptcp and mpquic, in milliseconds, for each repetition with both, in the order of variants,
/// labels' paths and repetitions. Only valid runs count; a delay of 0 has no ratio and is left out.
pub fn max_delay_pairs(runs: &[&RunRecord], direction: Direction) -> Vec<[f64; 2]> {
    let of_transport = |transport| runs.iter().filter(move |run| run.valid && run.transport == transport);
    let mut pairs: Vec<(u32, [f64; 2])> = of_transport(Transport::Mptcp)
        .filter_map(|mptcp| {
            let same = |mpquic: &&&RunRecord| {
                mpquic.variant == mptcp.variant
                    && mpquic.repetition == mptcp.repetition
                    && mpquic.pattern == mptcp.pattern
                    && bound_to(mpquic) == bound_to(mptcp)
            };
            let mpquic = of_transport(Transport::Mpquic).find(same)?;
            let pair = [mptcp.max_delay_ms(direction)?, mpquic.max_delay_ms(direction)?];
            pair.iter().all(|delay| *delay > 0.0).then_some((mptcp.repetition, pair))
        })
        .collect();
    pairs.sort_by_key(|(repetition, _)| *repetition);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// The path to which a label is bound: `wlan` of `mptcp@wlan`.
fn bound_to(run: &RunRecord) -> Option<&str> {
    run.label.split_once('@').map(|(_, path)| path)
}
