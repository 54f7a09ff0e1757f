//! Describes deviations of a measurement that exceed a link's tolerance and random variation. Pure.

use crate::scenario::{LinkEngine, LinkPlan};
use pathbench_link::{GilbertElliott, JitterDistribution, LinkModel, LossModel, RateModel};
use pathbench_record::document::{LinkMeasurement, OneWayDelay};
use pathbench_record::network::{AddressFamily, ETHERNET_HEADER_BYTES};
use pathbench_record::text::duration_ms;
use pathbench_traffic::calibration::{LinkCalibration, ProbedDirection};
use std::time::Duration;

/// Deviation of a delay caused by the machine, not the link: scheduling on a busy host.
const SLACK_MS: f64 = 1.0;

/// Size of a probe's Ethernet frame over IPv6.
const PROBE_FRAME_BYTES: u64 = (AddressFamily::Ipv6
    .udp_packet_bytes(pathbench_traffic::datagram::HEADER_BYTES)
    + ETHERNET_HEADER_BYTES) as u64;

struct Judged<'a> {
    link: &'a LinkPlan,
    context: String,
    model: &'a LinkModel,
    rate_bps: Option<u64>,
    mtu_bytes: u32,
    delay: Option<OneWayDelay>,
    probes: Option<ProbedDirection>,
}

pub fn judge(link: &LinkPlan, calibration: &LinkCalibration, measured: &LinkMeasurement) -> Vec<String> {
    let [first, second] = [&link.ends[0].node, &link.ends[1].node];
    let directions = [
        Judged {
            link,
            context: format!("link {} ({first} to {second})", link.name),
            model: &link.forward,
            rate_bps: measured.forward_bps,
            mtu_bytes: measured.forward_mtu_bytes,
            delay: measured.forward_delay,
            probes: calibration.forward.probes,
        },
        Judged {
            link,
            context: format!("link {} ({second} to {first})", link.name),
            model: &link.reverse,
            rate_bps: measured.reverse_bps,
            mtu_bytes: measured.reverse_mtu_bytes,
            delay: measured.reverse_delay,
            probes: calibration.reverse.probes,
        },
    ];
    let mut deviations: Vec<String> = directions
        .iter()
        .flat_map(|direction| [direction.rate(), direction.mtu(), direction.delay(), direction.loss()])
        .flatten()
        .collect();
    if link.engine == LinkEngine::Kernel {
        deviations.extend(round_trip(link, measured));
    }
    deviations
}

impl Judged<'_> {
    fn rate(&self) -> Option<String> {
        let asked = expected_rate_bps(self.model)?;
        let Some(got) = self.rate_bps else {
            return Some(format!("{}: its rate could not be measured", self.context));
        };
        let deviation = got as f64 / asked as f64 - 1.0;
        (deviation.abs() > self.link.tolerance).then(|| {
            format!(
                "{}: {} Mbit/s asked for, {:.2} measured: {:+.1} %, tolerance is {:.3} %",
                self.context,
                asked as f64 / 1e6,
                got as f64 / 1e6,
                deviation * 100.0,
                self.link.tolerance * 100.0
            )
        })
    }

    fn mtu(&self) -> Option<String> {
        let (asked, got) = (self.link.mtu_bytes(), self.mtu_bytes);
        // With high loss, possibly no packet of full size has arrived.
        let lost = self.model.independent_loss().is_none_or(|loss| loss > 0.5);
        (got != asked && !lost).then(|| format!("{}: MTU {asked} asked for, {got} measured", self.context))
    }

    fn delay(&self) -> Option<String> {
        if self.link.engine == LinkEngine::Kernel {
            return None;
        }
        let (expected, blur) = expected_delay(self.model, PROBE_FRAME_BYTES)?;
        let (asked_ms, blur_ms) = (expected.as_secs_f64() * 1e3, blur.as_secs_f64() * 1e3);
        let got = self.delay?.p50_ms;
        let slack_ms = asked_ms * self.link.tolerance + SLACK_MS + blur_ms;
        ((got - asked_ms).abs() > slack_ms).then(|| {
            format!(
                "{}: delay {} asked for, {} measured (median)",
                self.context,
                duration_ms(asked_ms),
                duration_ms(got)
            )
        })
    }

    fn loss(&self) -> Option<String> {
        if self.link.engine == LinkEngine::Kernel {
            return None;
        }
        let (expected, probes) = (expected_loss(self.model)?, self.probes?);
        let lost = probes.sent.saturating_sub(probes.received);
        is_improbable(expected, probes.sent, lost).then(|| {
            format!(
                "{}: loss {:.3} % asked for, {lost} of {} packets lost: less probable than one in a thousand",
                self.context,
                expected.probability * 100.0,
                probes.sent
            )
        })
    }
}

/// Compares the round-trip time of a link of the kernel's engine, which one end can measure, with netem's delay.
fn round_trip(link: &LinkPlan, measured: &LinkMeasurement) -> Option<String> {
    let asked = link.forward.constant_delay()? + link.reverse.constant_delay()?;
    let asked_ms = asked.as_secs_f64() * 1e3;
    let jitter_ms = (link.forward.jitter + link.reverse.jitter).as_secs_f64() * 1e3;
    let slack_ms = (asked_ms * link.tolerance).max(SLACK_MS) + jitter_ms;
    ((measured.min_rtt_ms - asked_ms).abs() > slack_ms).then(|| {
        format!(
            "link {}: round-trip time {} asked for, at least {} measured",
            link.name,
            duration_ms(asked_ms),
            duration_ms(measured.min_rtt_ms)
        )
    })
}

/// The rate to measure; `None` if it changes, or if link-layer retransmissions use a part of it.
pub(super) fn expected_rate_bps(model: &LinkModel) -> Option<u64> {
    if model.arq.is_some() && model.loses() { None } else { model.rate_bps() }
}

/// Whether the link may pass no packets for so long that calibration fails.
pub(super) fn may_be_silent(link: &LinkPlan) -> bool {
    [&link.forward, &link.reverse].iter().any(|model| {
        !matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_))
            || matches!(model.loss, LossModel::Bursts { .. } | LossModel::Schedule(_))
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedLoss {
    /// 0 to 1.
    pub probability: f64,
    /// Number of packets that count as one independent sample because losses occur in bursts; 1 for independent losses.
    pub clustering: f64,
}

/// The expected fraction of lost packets, including corrupted packets, which the receiver's kernel drops; `None` if it
/// depends on time, or on link-layer retransmission without a closed formula.
pub fn expected_loss(model: &LinkModel) -> Option<ExpectedLoss> {
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

/// Stationary loss of the two-state channel, and the variance of its mean relative to the variance with independent
/// losses: (1 + λ) / (1 − λ), where λ is the correlation between consecutive packets.
fn chain_loss(chain: &GilbertElliott) -> (f64, f64) {
    let moves = chain.to_bad + chain.to_good;
    let correlation = if moves == 0.0 { 0.0 } else { (1.0 - moves).clamp(0.0, 0.9999) };
    (chain.mean_loss(), (1.0 + correlation) / (1.0 - correlation))
}

/// Median one-way delay of packets of `frame_bytes` on the idle link, and the tolerated deviation of the measured
/// median by jitter; `None` if the delay changes with time.
fn expected_delay(model: &LinkModel, frame_bytes: u64) -> Option<(Duration, Duration)> {
    let constant_rate = matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_));
    let base = model.constant_delay().filter(|_| constant_rate)?;
    let sending = model.rate_bps().map_or(0.0, |bps| frame_bytes as f64 * 8.0 / bps as f64);
    // In units of the jitter: the median above the base delay, and the deviation of the median of a few hundred
    // packets. It is largest without reordering, because a delayed packet also delays the packets behind it.
    let (median, blur) = match model.jitter_distribution {
        JitterDistribution::Uniform => (0.0, 1.0),
        JitterDistribution::Normal => (0.0, 3.0),
        JitterDistribution::Exponential => (std::f64::consts::LN_2, 4.0),
        JitterDistribution::Pareto { shape } => (2_f64.powf(1.0 / shape) - 1.0, 5.0),
    };
    let expected = base + Duration::from_secs_f64(sending) + model.jitter.mul_f64(median);
    let retries =
        model.arq.map_or(Duration::ZERO, |arq| if model.loses() { arq.pause } else { Duration::ZERO });
    Some((expected, model.jitter.mul_f64(blur) + retries))
}

/// Probability of a result outside the interval, sum of both sides.
const IMPROBABLE: f64 = 0.001;

/// Whether `lost` of `sent` packets is outside the interval that has a probability of 99.9 % under `expected`.
pub fn is_improbable(expected: ExpectedLoss, sent: u32, lost: u32) -> bool {
    let independent = |packets: u32| (f64::from(packets) / expected.clustering).round() as u32;
    let (sent, lost) = (independent(sent).max(1), independent(lost));
    let [below, above] = binomial_tails(sent, expected.probability, lost.min(sent));
    below.min(above) < IMPROBABLE / 2.0
}

/// Probabilities of at most and of at least `k` successes in `n` trials of probability `p`.
pub fn binomial_tails(n: u32, p: f64, k: u32) -> [f64; 2] {
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
