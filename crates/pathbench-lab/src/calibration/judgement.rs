//! Describes deviations of a measurement that exceed a link's tolerance and random variation. Pure.

use crate::scenario::{LinkEngine, LinkPlan};
use pathbench_link::packet::{Chance, DrawPurpose};
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

/// Smallest Ethernet frame of a train.
const SMALL_FRAME_BYTES: f64 = 242.0;
/// More data would take longer than the rest of the calibration.
const MOST_BUCKET_BYTES: u64 = 16_000_000;
/// Highest rate of probes.
const PROBES_PER_SECOND: f64 = 3_400.0;

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
        let asked = delivered_rate_bps(self.model)?;
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
        let (asked_ms, blur_ms) = expected_delay_ms(self.model, PROBE_FRAME_BYTES)?;
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

/// The rate to measure, of the link or of its policer; `None` if it changes, if link-layer retransmissions use a part of
/// it, if the limit of packets in flight may be lower, or if it takes too much data to empty the token bucket.
pub fn expected_rate_bps(model: &LinkModel) -> Option<u64> {
    let constant = matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_));
    let rates = [model.rate_bps(), model.policer.map(|policer| policer.rate_bps)];
    let rate_bps = rates.into_iter().flatten().min().filter(|_| constant)?;
    let retransmits = model.arq.is_some() && model.loses();
    let limited = flight_may_be_full(model, rate_bps as f64 / 8.0 / SMALL_FRAME_BYTES);
    (!retransmits && !limited && bucket_bytes(model) <= MOST_BUCKET_BYTES).then_some(rate_bps)
}

/// Bytes that may pass faster than the expected rate after a pause: the burst of the policer, or of the bottleneck.
pub(super) fn bucket_bytes(model: &LinkModel) -> u64 {
    let policer = model.policer.map_or(0, |policer| policer.burst_bytes);
    policer.max(model.burst_bytes)
}

/// Time that the data which empty the token buckets take at the bottleneck.
pub(super) fn emptying_time(model: &LinkModel) -> Duration {
    let bits = bucket_bytes(model).min(MOST_BUCKET_BYTES) as f64 * 8.0;
    model.rate_bps().map_or(Duration::ZERO, |rate_bps| Duration::from_secs_f64(bits / rate_bps as f64))
}

/// The rate at which data arrive. The meter for token buckets does not distinguish lost packets from a lower rate.
fn delivered_rate_bps(model: &LinkModel) -> Option<u64> {
    let rate_bps = expected_rate_bps(model)?;
    let lost = expected_loss(model).filter(|_| bucket_bytes(model) > 0);
    Some((rate_bps as f64 * (1.0 - lost.map_or(0.0, |loss| loss.probability))) as u64)
}

/// Whether `packets` per second may reach the limit of packets in flight.
fn flight_may_be_full(model: &LinkModel, packets: f64) -> bool {
    let delay = model.constant_delay().unwrap_or(Duration::from_secs(60)) + model.jitter * 4;
    model.in_flight_limit > 0 && f64::from(model.in_flight_limit) <= packets * delay.as_secs_f64() + 2.0
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
    if flight_may_be_full(model, PROBES_PER_SECOND) {
        return None;
    }
    let (of_link, clustering) = match (&model.loss, model.arq) {
        (LossModel::Independent(loss), None) if model.loss_correlation > 0.0 => {
            let correlation = model.loss_correlation.min(0.9999);
            (correlated_share(*loss, correlation), (1.0 + correlation) / (1.0 - correlation))
        }
        (LossModel::Independent(loss), arq) => {
            let attempts = arq.map_or(1, |arq| arq.retries + 1);
            (loss.powi(attempts.min(10_000) as i32), 1.0)
        }
        (LossModel::GilbertElliott(chain), None) => chain_loss(chain),
        _ => return None,
    };
    Some(ExpectedLoss { probability: 1.0 - (1.0 - of_link) * (1.0 - model.corrupt), clustering })
}

/// Share of packets that netem's correlated numbers choose with `probability`. It has no closed form and is therefore
/// that of many draws, and at least one packet in ten thousand.
fn correlated_share(probability: f64, correlation: f64) -> f64 {
    const DRAWS: u64 = 200_000;
    let chance = Chance::new(0);
    let mut level = 0.5;
    let chosen = (0..DRAWS).filter(|number| {
        let random = chance.unit(DrawPurpose::Correlation, *number, 0);
        level = (1.0 - correlation) * random + correlation * level;
        level < probability
    });
    (chosen.count() as f64 / DRAWS as f64).max(1e-4)
}

/// Stationary loss of the two-state channel, and the variance of its mean relative to the variance with independent
/// losses: (1 + λ) / (1 − λ), where λ is the correlation between consecutive packets.
fn chain_loss(chain: &GilbertElliott) -> (f64, f64) {
    let moves = chain.to_bad + chain.to_good;
    let correlation = if moves == 0.0 { 0.0 } else { (1.0 - moves).clamp(0.0, 0.9999) };
    (chain.mean_loss(), (1.0 + correlation) / (1.0 - correlation))
}

/// Median one-way delay of packets of `frame_bytes` on the idle link, and the tolerated deviation of the measured
/// median by jitter, in ms; `None` if the delay changes with time, or if so many packets skip it that the median may be
/// theirs.
pub fn expected_delay_ms(model: &LinkModel, frame_bytes: u64) -> Option<(f64, f64)> {
    let constant_rate = matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_));
    let base = model.constant_delay().filter(|_| constant_rate && model.reorder_share < 0.4)?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let delayed_bits = frame_bytes.saturating_sub(model.burst_bytes) as f64 * 8.0;
    let sending_ms = model.rate_bps().map_or(0.0, |bps| delayed_bits * 1e3 / bps as f64);
    // In units of the jitter: the median above the base delay, and the deviation of the median of a few hundred
    // packets. It is largest without reordering, because a delayed packet also delays the packets behind it.
    let (median, blur) = match model.jitter_distribution {
        JitterDistribution::Uniform => (0.0, 1.0),
        JitterDistribution::Normal => (0.0, 3.0),
        JitterDistribution::Exponential => (std::f64::consts::LN_2, 4.0),
        JitterDistribution::Pareto { shape } => (2_f64.powf(1.0 / shape) - 1.0, 5.0),
        JitterDistribution::NetemPareto => ((2_f64.cbrt() - 1.5) * 4.0 / 3.0, 5.0),
    };
    let expected_ms = (ms(base) + sending_ms + ms(model.jitter) * median).max(0.0);
    let retries_ms = model.arq.filter(|_| model.loses()).map_or(0.0, |arq| ms(arq.pause));
    // A share that skips the delay moves the median within the distribution.
    Some((expected_ms, ms(model.jitter) * blur + retries_ms))
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
