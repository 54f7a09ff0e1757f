//! Which directions treat wire packets one by one.

use crate::model::{LossModel, PipeModel, QueueDiscipline, QueueLimit, RateModel};

/// Above this rate, what a host hands over at once (64 KiB) takes less than a quarter of a millisecond.
const FAST_BPS: u64 = 2_000_000_000;

/// Whether nothing is lost by it if what hosts hand over passes whole, as one packet that counts all its wire
/// packets: nothing is decided by chance, and the rate is unlimited or so high that a lump is short. Its queue must
/// not count packets or measure their stay then.
pub(super) fn passes_whole(model: &PipeModel) -> bool {
    let queue = &model.queue;
    let coarse_queue = matches!(queue.limit, QueueLimit::Bytes(_))
        && matches!(queue.discipline, QueueDiscipline::DropTail | QueueDiscipline::DropHead);
    let fast = match model.rate {
        RateModel::Unlimited => true,
        RateModel::Constant(bps) => bps > FAST_BPS && coarse_queue,
        RateModel::Steps(_) | RateModel::Opportunities(_) | RateModel::Trains(_) => false,
    };
    fast && model.loss == LossModel::Independent(0.0)
        && model.delay.jitter.is_none()
        && model.duplicate == 0.0
        && model.corrupt == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DelayModel, Distribution, JitterModel, QueueModel};
    use std::time::Duration;

    #[test]
    fn whatever_concerns_single_packets_has_them_cut() {
        let wire = PipeModel::default;
        let bytes = QueueModel { limit: QueueLimit::Bytes(1_000_000), ..QueueModel::default() };
        let jitter = JitterModel {
            distribution: Distribution::Uniform,
            size: Duration::from_millis(1),
            reorder: false,
        };
        let delay = DelayModel { jitter: Some(jitter), ..DelayModel::default() };
        let cases = [
            (true, wire()),
            (true, PipeModel { rate: RateModel::Constant(10_000_000_000), queue: bytes, ..wire() }),
            (false, PipeModel { rate: RateModel::Constant(10_000_000_000), ..wire() }),
            (false, PipeModel { rate: RateModel::Constant(1_000_000_000), queue: bytes, ..wire() }),
            (false, PipeModel { loss: LossModel::Independent(0.001), ..wire() }),
            (false, PipeModel { duplicate: 0.001, ..wire() }),
            (false, PipeModel { corrupt: 0.001, ..wire() }),
            (false, PipeModel { delay, ..wire() }),
        ];
        for (whole, model) in cases {
            assert_eq!(passes_whole(&model), whole, "{model:?}");
        }
    }
}
