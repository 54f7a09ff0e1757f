//! netem's correlated numbers: x = (1 - ρ) × random + ρ × last x (`get_crandom` of `net/sched/sch_netem.c`).

use crate::LinkModel;
use crate::packet::{Chance, DrawPurpose};

#[derive(Debug, Default)]
pub(crate) struct Correlated {
    last: Option<f64>,
}

impl Correlated {
    /// The next number. The first one follows a number that is as random as `first`.
    fn next(&mut self, correlation: f64, random: f64, first: impl FnOnce() -> f64) -> f64 {
        let last = self.last.unwrap_or_else(first);
        let next = (1.0 - correlation) * random + correlation * last;
        self.last = Some(next);
        next
    }
}

/// Correlated decisions about packets in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Correlations {
    loss: Correlated,
    jitter: Correlated,
    reorder: Correlated,
    /// Packets since the last one that skipped the delay.
    in_order: u32,
}

impl Correlations {
    pub(crate) fn loss_level(&mut self, model: &LinkModel, number: u64, chance: Chance) -> Option<f64> {
        (model.loss_correlation > 0.0).then(|| {
            let random = chance.unit(DrawPurpose::Loss, number, 0);
            let first = || chance.unit(DrawPurpose::Correlation, 0, 0);
            self.loss.next(model.loss_correlation, random, first)
        })
    }

    pub(crate) fn jitter_level(&mut self, model: &LinkModel, number: u64, chance: Chance) -> Option<f64> {
        (model.jitter_correlation > 0.0 && !model.jitter.is_zero()).then(|| {
            let random = model.jitter_distribution.draw(number, chance);
            self.jitter.next(model.jitter_correlation, random, || random)
        })
    }

    /// Whether the packet skips the delay (`netem_enqueue`).
    pub(crate) fn is_early(&mut self, model: &LinkModel, number: u64, chance: Chance) -> bool {
        if model.reorder_share <= 0.0 {
            return false;
        }
        if self.in_order < model.reorder_gap.saturating_sub(1) {
            // The kernel draws no number within a gap.
            self.in_order += 1;
            return false;
        }
        let random = chance.unit(DrawPurpose::Reorder, number, 0);
        let level = if model.reorder_correlation > 0.0 {
            let first = || chance.unit(DrawPurpose::Correlation, 1, 0);
            self.reorder.next(model.reorder_correlation, random, first)
        } else {
            random
        };
        let early = level < model.reorder_share;
        self.in_order = if early { 0 } else { self.in_order.saturating_add(1) };
        early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: numbers that no decision used wore the correlation off. Of two that follow each other with ρ = 0.9,
    /// both are on the same side of the median in about 86 of 100 cases; of two that are four apart, in 73.
    #[test]
    fn the_correlation_of_reordering_is_that_of_the_decisions() {
        let model = LinkModel {
            reorder_share: 0.5,
            reorder_correlation: 0.9,
            reorder_gap: 4,
            ..LinkModel::default()
        };
        let (mut correlations, chance) = (Correlations::default(), Chance::new(5));
        let early: Vec<bool> =
            (0..200_000).map(|number| correlations.is_early(&model, number, chance)).collect();
        let (mut pairs, mut again) = (0, 0);
        for window in early.windows(5).filter(|window| window[0]) {
            assert!(!window[1] && !window[2] && !window[3]);
            pairs += 1;
            again += u32::from(window[4]);
        }
        let share = f64::from(again) / f64::from(pairs);
        assert!((0.82..0.9).contains(&share), "{share} of {pairs}");
    }
}
