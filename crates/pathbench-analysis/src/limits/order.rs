//! The order of limits, and those that explain the rate.

use pathbench_record::document::{LimitKind, LimitRecord};
use std::collections::BTreeSet;

/// Fraction of the measured time from which a limit explains the rate.
pub const NAMED_SHARE: f64 = 0.3;
/// Smaller fractions are not recorded.
const LEAST_SHARE: f64 = 0.05;

/// The limits of all directions of a run in their order, each kind of an end and path once.
pub fn in_order(mut found: Vec<LimitRecord>) -> Vec<LimitRecord> {
    found.retain(|one| one.share >= LEAST_SHARE || one.kind == LimitKind::SharedBottleneck);
    for one in &mut found {
        one.named = one.kind != LimitKind::CongestionWindow && one.share >= NAMED_SHARE;
    }
    let rank = |one: &LimitRecord| match (one.named, one.kind) {
        (true, _) => 0,
        (false, LimitKind::CongestionWindow) => 1,
        (false, _) => 2,
    };
    found.sort_by(|a, b| rank(a).cmp(&rank(b)).then(b.share.total_cmp(&a.share)).then(a.kind.cmp(&b.kind)));
    let mut known = BTreeSet::new();
    found.retain(|one| known.insert((one.kind, one.side, one.path.clone(), one.direction)));
    found
}
