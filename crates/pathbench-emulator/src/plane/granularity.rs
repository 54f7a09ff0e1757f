//! Which directions treat wire packets one by one.

use pathbench_link::{Discipline, LinkModel, LossModel, RateModel};
use pathbench_record::units::QueueLimit;

/// Above this rate, what a host hands over at once (64 KiB) takes less than a quarter of a millisecond.
const FAST_BPS: u64 = 2_000_000_000;

/// Whether nothing is lost by it if what hosts hand over passes whole, as one packet that counts all its wire
/// packets: nothing is decided by chance, and the rate is unlimited or so high that a lump is short. Its queue must
/// not count packets or measure their stay then.
pub(super) fn passes_whole(model: &LinkModel) -> bool {
    let coarse_queue = !matches!(model.queue, QueueLimit::Packets(_))
        && matches!(model.queue_discipline, Discipline::DropTail | Discipline::DropHead);
    let fast = match model.rate {
        RateModel::Unlimited => true,
        RateModel::Constant(bps) => bps > FAST_BPS && coarse_queue,
        RateModel::Steps(_) | RateModel::Opportunities(_) | RateModel::Trains(_) => false,
    };
    fast && model.loss == LossModel::Independent(0.0)
        && model.jitter.is_zero()
        && model.duplicate == 0.0
        && model.corrupt == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn whatever_concerns_single_packets_has_them_cut() {
        let wire = LinkModel::default;
        let bytes = QueueLimit::Bytes(1_000_000);
        let packets = QueueLimit::Packets(1_000);
        let cases = [
            (true, wire()),
            (true, LinkModel { rate: RateModel::Constant(10_000_000_000), queue: bytes, ..wire() }),
            (true, LinkModel { rate: RateModel::Constant(10_000_000_000), ..wire() }),
            (false, LinkModel { rate: RateModel::Constant(10_000_000_000), queue: packets, ..wire() }),
            (false, LinkModel { rate: RateModel::Constant(1_000_000_000), queue: bytes, ..wire() }),
            (false, LinkModel { loss: LossModel::Independent(0.001), ..wire() }),
            (false, LinkModel { duplicate: 0.001, ..wire() }),
            (false, LinkModel { corrupt: 0.001, ..wire() }),
            (false, LinkModel { jitter: Duration::from_millis(1), ..wire() }),
        ];
        for (whole, model) in cases {
            assert_eq!(passes_whole(&model), whole, "{model:?}");
        }
    }
}
