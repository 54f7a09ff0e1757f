//! The effects of netem that depend on other packets: correlation, a fixed share of reordering, a limit of packets in
//! the delay; and netem's Pareto distribution.

use crate::model::bench::{Bench, PACKET_A_MS_BPS, at, constant, delivered, dropped, ms, rate, us, wire};
use pathbench_link::packet::{Chance, DrawPurpose, DropCause};
use pathbench_link::{JitterDistribution, LinkChange, LinkModel, LossModel};
use std::time::Duration;

const PACKETS: u64 = 200_000;

fn correlated_loss(loss: f64, loss_correlation: f64) -> LinkModel {
    LinkModel { loss: LossModel::Independent(loss), loss_correlation, ..wire() }
}

fn lost(model: LinkModel, seed: u64) -> Vec<u64> {
    let mut bench = Bench::new(model, seed);
    for number in 0..PACKETS {
        bench.offer(us(number), 100);
    }
    dropped(&bench.finish()).collect()
}

#[test]
fn losses_follow_the_recurrence_of_netem() {
    for seed in 0..4 {
        let chance = Chance::new(seed);
        let mut last = chance.unit(DrawPurpose::Correlation, 0, 0);
        let expected: Vec<u64> = (0..PACKETS)
            .filter(|number| {
                last = 0.75 * chance.unit(DrawPurpose::Loss, *number, 0) + 0.25 * last;
                last < 0.2
            })
            .collect();
        assert_eq!(lost(correlated_loss(0.2, 0.25), seed), expected);
    }
    assert_eq!(
        lost(correlated_loss(0.05, 0.0), 3),
        lost(correlated_loss(0.05, 1e-12), 3),
        "none is independent"
    );
}

#[test]
fn correlation_changes_the_mean_loss_as_documented() {
    for (loss, correlation, least, most) in [
        (0.01, 0.25, 0.0, 0.000_05),
        (0.1, 0.25, 0.0165, 0.0185),
        (0.3, 0.25, 0.229, 0.237),
        (0.5, 0.5, 0.49, 0.51),
    ] {
        let mean = lost(correlated_loss(loss, correlation), 9).len() as f64 / PACKETS as f64;
        assert!((least..most).contains(&mean), "{loss} with {correlation}: {mean}");
    }
}

#[test]
fn a_lost_packet_makes_the_next_loss_more_likely() {
    let lost = lost(correlated_loss(0.3, 0.5), 2);
    let mean = lost.len() as f64 / PACKETS as f64;
    let pairs = lost.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(pairs as f64 / lost.len() as f64 > 1.5 * mean, "{pairs} of {}", lost.len());
}

/// Deviations from a delay of 50 ms, in ms.
fn deviations(model: LinkModel) -> Vec<f64> {
    let mut bench = Bench::new(LinkModel { delay: constant(ms(50)), reorder: true, ..model }, 4);
    for number in 0..PACKETS {
        bench.offer(us(number), 100);
    }
    let mut all: Vec<(u64, Duration)> = delivered(&bench.finish()).collect();
    all.sort_unstable();
    all.iter().map(|(number, at)| (*at - us(*number)).as_secs_f64() * 1e3 - 50.0).collect()
}

/// Mean, standard deviation, and correlation of consecutive values.
fn moments(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let covariance = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / count;
    (mean, variance.sqrt(), covariance / variance)
}

#[test]
fn correlated_jitter_keeps_its_mean_and_has_its_correlation() {
    for (distribution, mean, deviation) in [
        (JitterDistribution::Uniform, 0.0, 10.0 / 3_f64.sqrt()),
        (JitterDistribution::Normal, 0.0, 10.0),
        (JitterDistribution::Exponential, 10.0, 10.0),
    ] {
        for correlation in [0.0, 0.25, 0.8] {
            let model = LinkModel {
                jitter: ms(10),
                jitter_distribution: distribution,
                jitter_correlation: correlation,
                ..wire()
            };
            let found = moments(&deviations(model));
            let expected = deviation * ((1.0 - correlation) / (1.0 + correlation)).sqrt();
            let context = format!("{distribution:?} {correlation}: {found:?}");
            assert!((found.0 - mean).abs() < 0.2, "{context}");
            assert!((found.1 / expected - 1.0).abs() < 0.02, "{context}");
            assert!((found.2 - correlation).abs() < 0.02, "{context}");
        }
    }
}

#[test]
fn netem_pareto_lies_around_the_delay_and_ends() {
    let model = LinkModel { jitter: ms(10), jitter_distribution: JitterDistribution::NetemPareto, ..wire() };
    let deviations = deviations(model);
    let (mean, ..) = moments(&deviations);
    // Cut off at 4: the mean is E[(X - 4.5)⁺]·4/3 = 0.033 below.
    assert!((mean + 0.33).abs() < 0.1, "{mean}");
    let least = deviations.iter().copied().fold(f64::MAX, f64::min);
    let most = deviations.iter().copied().fold(f64::MIN, f64::max);
    assert!((-6.67..-6.6).contains(&least) && (most - 40.0).abs() < 0.01, "{least} {most}");
    let at_end = deviations.iter().filter(|value| **value > 39.9).count() as f64 / PACKETS as f64;
    assert!((at_end - 4.5_f64.powi(-3)).abs() < 0.001, "{at_end}");
}

fn reordering(reorder_share: f64, reorder_gap: u32) -> LinkModel {
    LinkModel { delay: constant(ms(20)), reorder_share, reorder_gap, ..wire() }
}

/// Numbers of the packets that skipped the delay; all others must have it.
fn early(model: LinkModel) -> Vec<u64> {
    let mut bench = Bench::new(model, 6);
    for number in 0..PACKETS {
        bench.offer(us(number * 10), 100);
    }
    let mut early = Vec::new();
    for (number, at) in delivered(&bench.finish()) {
        match at - us(number * 10) {
            Duration::ZERO => early.push(number),
            delay => assert_eq!(delay, ms(20), "{number}"),
        }
    }
    // The first packet has none to overtake; where all are early, none is overtaken.
    let overtaking = early.iter().filter(|number| **number > 0).count() as u64;
    let expected = if early.len() as u64 == PACKETS { 0 } else { overtaking };
    assert_eq!(bench.pipe.statistics().reordered_packets, expected);
    early
}

#[test]
fn a_fixed_share_skips_the_delay() {
    let count = early(reordering(0.25, 1)).len() as f64;
    // Five standard deviations of the binomial distribution.
    assert!((count - 50_000.0).abs() < 970.0, "{count}");
    assert!(early(reordering(0.0, 1)).is_empty());
    assert_eq!(early(reordering(1.0, 1)).len() as u64, PACKETS);
}

#[test]
fn a_gap_leaves_packets_in_order_between_two_that_skip_the_delay() {
    let every_fifth: Vec<u64> = (4..PACKETS).step_by(5).collect();
    assert_eq!(early(reordering(1.0, 5)), every_fifth);
    let some = early(reordering(0.25, 5));
    assert!(some.windows(2).all(|pair| pair[1] - pair[0] >= 5));
    // After four packets, the wait for one of a quarter takes four on average: one of eight.
    assert!((some.len() as f64 / PACKETS as f64 - 0.125).abs() < 0.003, "{}", some.len());
}

#[test]
fn correlated_reordering_follows_the_recurrence() {
    let chance = Chance::new(6);
    let mut last = chance.unit(DrawPurpose::Correlation, 1, 0);
    let expected: Vec<u64> = (0..PACKETS)
        .filter(|number| {
            last = 0.5 * chance.unit(DrawPurpose::Reorder, *number, 0) + 0.5 * last;
            last < 0.25
        })
        .collect();
    assert_eq!(early(LinkModel { reorder_correlation: 0.5, ..reordering(0.25, 1) }), expected);
}

#[test]
fn a_limit_of_packets_in_flight_caps_the_rate() {
    // Ten packets in each 100 ms of a link that could carry a hundred.
    let model = LinkModel { delay: constant(ms(100)), in_flight_limit: 10, ..rate(PACKET_A_MS_BPS) };
    let mut bench = Bench::new(model, 1);
    for number in 0..10_000 {
        bench.offer(ms(number), 1_500);
    }
    let outcomes = bench.finish();
    let arrivals: Vec<Duration> = delivered(&outcomes).map(|(_, at)| at).collect();
    assert_eq!(arrivals.len(), 1_000);
    assert_eq!(bench.dropped(DropCause::InFlight), 9_000);
    for window in arrivals.windows(11) {
        assert!(window[10] - window[0] >= ms(100), "{window:?}");
    }
    let change = LinkChange { in_flight_limit: Some(0), ..LinkChange::default() };
    let mut bench = Bench::new(LinkModel { delay: constant(ms(100)), in_flight_limit: 1, ..wire() }, 1);
    bench.offer(ms(0), 100);
    bench.offer(ms(1), 100);
    bench.change(ms(2), &change);
    bench.offer(ms(2), 100);
    assert_eq!(bench.pipe.poll(at(ms(50))).map(|outcome| outcome.number), Some(1), "dropped at once");
    assert_eq!(delivered(&bench.finish()).map(|(number, _)| number).collect::<Vec<_>>(), [0, 2]);
}
