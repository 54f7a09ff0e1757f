//! What a model leads one to expect of a measurement. Pure.

use crate::scenario::Link;
use pathbench_link::{Distribution, GilbertElliott, LinkModel, LossModel, RateModel};
use std::time::Duration;

/// The rate that a direction can be held to: not one that changes, nor one that link-layer retransmissions share.
pub(super) fn rate_bps(model: &LinkModel) -> Option<u64> {
    if model.arq.is_some() && model.loses() { None } else { model.rate_bps() }
}

/// Whether the link may pass nothing for so long that measuring it fails.
pub(super) fn may_be_silent(link: &Link) -> bool {
    [&link.forward, &link.reverse].iter().any(|model| {
        !matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_))
            || matches!(model.loss, LossModel::Bursts { .. } | LossModel::Schedule(_))
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ExpectedLoss {
    /// 0 to 1.
    pub(super) probability: f64,
    /// By how much losses that come together widen what chance allows: that many packets count as one.
    pub(super) clustering: f64,
}

/// What packets are expected to be lost, damaged ones included, which the receiver's kernel drops; `None` where it
/// depends on the time, or on link-layer retransmission in a way that has no short formula.
pub(super) fn loss(model: &LinkModel) -> Option<ExpectedLoss> {
    let (of_link, clustering) = match (&model.loss, model.arq) {
        (LossModel::Independent(loss), arq) => {
            let attempts = arq.map_or(1, |arq| arq.retries + 1);
            (loss.powi(attempts.min(10_000) as i32), 1.0)
        }
        (LossModel::GilbertElliott(chain), None) => chain_loss(chain),
        _ => return None,
    };
    Some(ExpectedLoss { probability: 1.0 - (1.0 - of_link) * (1.0 - model.corrupt), clustering })
}

/// Stationary loss of the two-state channel, and by how much the variance of its mean exceeds that of independent
/// losses: (1 + λ) / (1 − λ), λ being the correlation from one packet to the next.
fn chain_loss(chain: &GilbertElliott) -> (f64, f64) {
    let moves = chain.to_bad + chain.to_good;
    if moves == 0.0 {
        return (chain.loss_good, 1.0);
    }
    let in_bad = chain.to_bad / moves;
    let correlation = (1.0 - moves).clamp(0.0, 0.9999);
    let mean = in_bad * chain.loss_bad + (1.0 - in_bad) * chain.loss_good;
    (mean, (1.0 + correlation) / (1.0 - correlation))
}

/// Median one-way delay of packets of `frame_bytes` on the idle link, and by how much jitter may move what is measured;
/// `None` where the delay changes with time.
pub(super) fn delay(model: &LinkModel, frame_bytes: u64) -> Option<(Duration, Duration)> {
    let constant_rate = matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_));
    let base = model.constant_delay().filter(|_| constant_rate)?;
    let sending = model.rate_bps().map_or(0.0, |bps| frame_bytes as f64 * 8.0 / bps as f64);
    // Medians above the base delay, in sizes; and how far the median of a few hundred packets may lie off, which
    // is most where no packet may overtake another and one that is late holds up those behind it.
    let (median, blur) = match model.jitter_distribution {
        Distribution::Uniform => (0.0, 1.0),
        Distribution::Normal => (0.0, 3.0),
        Distribution::Exponential => (std::f64::consts::LN_2, 4.0),
        Distribution::Pareto { shape } => (2_f64.powf(1.0 / shape) - 1.0, 5.0),
    };
    let expected = base + Duration::from_secs_f64(sending) + model.jitter.mul_f64(median);
    let retries =
        model.arq.map_or(Duration::ZERO, |arq| if model.loses() { arq.pause } else { Duration::ZERO });
    Some((expected, model.jitter.mul_f64(blur) + retries))
}

/// Probability of what chance allows beyond the interval, both sides together.
const IMPROBABLE: f64 = 0.001;

/// Whether `lost` of `sent` packets lie outside the interval that holds 99.9 % of what `expected` leads to.
pub(super) fn is_improbable(expected: ExpectedLoss, sent: u32, lost: u32) -> bool {
    let independent = |packets: u32| (f64::from(packets) / expected.clustering).round() as u32;
    let (sent, lost) = (independent(sent).max(1), independent(lost));
    let [below, above] = binomial_tails(sent, expected.probability, lost.min(sent));
    below.min(above) < IMPROBABLE / 2.0
}

/// Probabilities of at most and of at least `k` successes in `n` trials of probability `p`.
fn binomial_tails(n: u32, p: f64, k: u32) -> [f64; 2] {
    if p <= 0.0 || p >= 1.0 {
        let certain = if p >= 1.0 { n } else { 0 };
        return [f64::from(u8::from(k >= certain)), f64::from(u8::from(k <= certain))];
    }
    let odds = (p / (1.0 - p)).ln();
    let mut log_mass = f64::from(n) * (1.0 - p).ln();
    let (mut at_most, mut below) = (0.0, 0.0);
    for successes in 0..=k {
        if successes > 0 {
            log_mass += (f64::from(n - successes + 1) / f64::from(successes)).ln() + odds;
            below = at_most;
        }
        at_most += log_mass.exp();
    }
    [at_most, 1.0 - below]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_binomial_distribution() {
        // Against tables: n = 10, p = 0.2.
        for (k, at_most, at_least) in
            [(0, 0.107_374, 1.0), (2, 0.677_800, 0.624_190), (5, 0.993_631, 0.032_793)]
        {
            let [below, above] = binomial_tails(10, 0.2, k);
            assert!(
                (below - at_most).abs() < 1e-6 && (above - at_least).abs() < 1e-6,
                "{k}: {below} {above}"
            );
        }
    }

    #[test]
    fn chance_is_allowed_for_and_a_wrong_loss_is_not() {
        let two = ExpectedLoss { probability: 0.02, clustering: 1.0 };
        assert!(!is_improbable(two, 1_000, 20));
        assert!(!is_improbable(two, 1_000, 30));
        assert!(is_improbable(two, 1_000, 50));
        assert!(is_improbable(two, 1_000, 3));
        let none = ExpectedLoss { probability: 0.0, clustering: 1.0 };
        assert!(!is_improbable(none, 1_000, 0));
        assert!(is_improbable(none, 1_000, 1));
        // Losses in clusters of twenty say less.
        assert!(!is_improbable(ExpectedLoss { clustering: 20.0, ..two }, 1_000, 60));
    }

    #[test]
    fn a_radio_loses_what_all_its_attempts_lose() {
        let arq = pathbench_link::ArqModel { retries: 2, pause: Duration::ZERO };
        let model = LinkModel { loss: LossModel::Independent(0.1), arq: Some(arq), ..LinkModel::default() };
        assert!((loss(&model).unwrap().probability - 0.001).abs() < 1e-12);
        let corrupt = LinkModel { corrupt: 0.01, ..LinkModel::default() };
        assert!((loss(&corrupt).unwrap().probability - 0.01).abs() < 1e-12);
        let chain = GilbertElliott { to_bad: 0.01, to_good: 0.24, loss_good: 0.0, loss_bad: 1.0 };
        let bursty = LinkModel { loss: LossModel::GilbertElliott(chain), ..LinkModel::default() };
        let expected = loss(&bursty).unwrap();
        assert!((expected.probability - 0.04).abs() < 1e-12 && (expected.clustering - 7.0).abs() < 1e-9);
    }
}
