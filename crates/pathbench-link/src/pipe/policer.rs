//! A policer: a token bucket that drops packets.

use super::bottleneck::WORK_PER_BYTE;
use crate::PolicerModel;
use pathbench_record::time::Timestamp;

#[derive(Debug)]
pub(crate) struct Policer {
    model: PolicerModel,
    /// Tokens at the time `at`, in units of the bottleneck's work: 10⁻⁹ bit.
    tokens: u64,
    at: Timestamp,
}

impl Policer {
    pub(crate) fn new(model: PolicerModel, now: Timestamp) -> Self {
        let tokens = model.burst_bytes.saturating_mul(WORK_PER_BYTE);
        Self { model, tokens, at: now }
    }

    /// Keeps the tokens, as far as they fit into the new bucket.
    pub(crate) fn change(&mut self, model: PolicerModel, now: Timestamp) {
        self.fill(now);
        self.model = model;
        self.fill(now);
    }

    /// Whether the packet passes, and then takes its tokens.
    pub(crate) fn passes(&mut self, wire_bytes: u64, now: Timestamp) -> bool {
        self.fill(now);
        let work = wire_bytes.saturating_mul(WORK_PER_BYTE);
        let passes = work <= self.tokens;
        if passes {
            self.tokens -= work;
        }
        passes
    }

    fn fill(&mut self, now: Timestamp) {
        let elapsed_ns = now.duration_since(self.at).as_nanos();
        let filled = elapsed_ns.saturating_mul(u128::from(self.model.rate_bps));
        let most = self.model.burst_bytes.saturating_mul(WORK_PER_BYTE);
        let tokens = u128::from(self.tokens).saturating_add(filled);
        self.tokens = u64::try_from(tokens).unwrap_or(u64::MAX).min(most);
        self.at = now;
    }
}
