//! Losses and link-layer retransmission (ARQ).

use crate::model::bench::{Bench, PACKET_A_MS_BPS, delivered, dropped, ms, rate, us, wire};
use pathbench_link::packet::DropCause;
use pathbench_link::{ArqModel, GilbertElliott, LinkChange, LinkModel, LossModel};
use pathbench_link::{LossSchedule, ScheduleEnd};
use std::sync::Arc;

fn lossy(loss: LossModel) -> LinkModel {
    LinkModel { loss, ..wire() }
}

#[test]
fn independent_loss_lies_in_its_binomial_interval() {
    for seed in 0..8 {
        let mut bench = Bench::new(lossy(LossModel::Independent(0.02)), seed);
        for number in 0..100_000 {
            bench.offer(us(number), 1_500);
        }
        let lost = dropped(&bench.finish()).count() as i64;
        // 99 %: 2.576 standard deviations of 44.3.
        assert!((lost - 2_000).abs() <= 114, "seed {seed}: {lost}");
        assert_eq!(bench.dropped(DropCause::Loss), lost as u64);
    }
}

#[test]
fn the_two_state_channel_has_its_mean_loss_and_burst_length() {
    let channel = GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
    for seed in 0..4 {
        let mut bench = Bench::new(lossy(LossModel::GilbertElliott(channel)), seed);
        for number in 0..200_000 {
            bench.offer(us(number), 100);
        }
        let lost: Vec<u64> = dropped(&bench.finish()).collect();
        let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let (mean, length) = (lost.len() as f64 / 200_000.0, lost.len() as f64 / bursts as f64);
        // In theory 0.01/0.26 and 1/0.25; about 1,900 bursts, so 3 % are more than a standard deviation.
        assert!((mean / (0.01 / 0.26) - 1.0).abs() < 0.1, "seed {seed}: {mean}");
        assert!((length / 4.0 - 1.0).abs() < 0.1, "seed {seed}: {length}");
    }
}

#[test]
fn losses_in_both_states_add_up() {
    let channel = GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_good: 0.02, loss_bad: 0.5 };
    let mut bench = Bench::new(lossy(LossModel::GilbertElliott(channel)), 5);
    for number in 0..100_000 {
        bench.offer(us(number), 100);
    }
    let loss = dropped(&bench.finish()).count() as f64 / 100_000.0;
    assert!((loss - (0.25 * 0.5 + 0.75 * 0.02)).abs() < 0.008, "{loss}");
}

#[test]
fn bursts_come_by_the_clock() {
    let loss = LossModel::Bursts { period: ms(1_000), length: ms(100), loss: 1.0 };
    let mut bench = Bench::new(lossy(loss), 1);
    for number in 0..3_000 {
        bench.offer(ms(number), 100);
    }
    let expected: Vec<u64> = (0..3_000).filter(|ms| ms % 1_000 >= 900).collect();
    assert_eq!(dropped(&bench.finish()).collect::<Vec<_>>(), expected);
}

#[test]
fn a_trace_of_loss_repeats() {
    let steps = vec![(ms(0), 0.0), (ms(10), 1.0), (ms(15), 0.0)];
    let schedule = LossSchedule { steps, end: ScheduleEnd::Repeat(ms(20)) };
    let mut bench = Bench::new(lossy(LossModel::Schedule(Arc::new(schedule))), 1);
    for number in 0..100 {
        bench.offer(ms(number), 100);
    }
    let expected: Vec<u64> = (0..100).filter(|ms| (10..15).contains(&(ms % 20))).collect();
    assert_eq!(dropped(&bench.finish()).collect::<Vec<_>>(), expected);
    assert_eq!(bench.pipe.loss(crate::model::bench::at(ms(111))), Some(1.0));
}

#[test]
fn another_probability_does_not_shift_decisions() {
    let lost = |model: LinkModel| {
        let mut bench = Bench::new(model, 11);
        for number in 0..5_000 {
            bench.offer(us(number), 100);
        }
        dropped(&bench.finish()).collect::<Vec<_>>()
    };
    let alone = lost(lossy(LossModel::Independent(0.05)));
    assert_eq!(
        lost(LinkModel { duplicate: 0.3, corrupt: 0.2, ..lossy(LossModel::Independent(0.05)) }),
        alone
    );
    let more = lost(lossy(LossModel::Independent(0.1)));
    assert!(alone.iter().all(|number| more.contains(number)), "more loss loses the same packets, and others");
}

#[test]
fn lost_packets_have_used_the_rate() {
    let mut bench = Bench::new(LinkModel { loss: LossModel::Independent(0.5), ..rate(PACKET_A_MS_BPS) }, 1);
    for _ in 0..100 {
        bench.offer(ms(0), 1_500);
    }
    for (number, at) in delivered(&bench.finish()) {
        assert_eq!(at, ms(number + 1));
    }
}

fn with_arq(loss: f64) -> LinkModel {
    let arq = ArqModel { retries: 7, pause: us(500) };
    LinkModel { arq: Some(arq), loss: LossModel::Independent(loss), ..rate(PACKET_A_MS_BPS) }
}

#[test]
fn arq_turns_loss_into_delay_first() {
    // Mean time on the air in ms with k attempts: k + (k-1)/2, k geometric, cut off at 8.
    for (loss, least_ms, most_ms, most_lost) in
        [(0.0, 1.0, 1.0, 0), (0.3, 1.55, 1.75, 3), (0.7, 3.7, 4.6, 80)]
    {
        let mut bench = Bench::new(with_arq(loss), 2);
        for number in 0..1_000 {
            bench.offer(ms(number * 20), 1_500);
        }
        let outcomes = bench.finish();
        let delays: Vec<f64> =
            delivered(&outcomes).map(|(number, at)| (at - ms(number * 20)).as_secs_f64() * 1e3).collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((least_ms..=most_ms).contains(&mean), "{loss}: {mean} ms");
        assert!(bench.dropped(DropCause::Arq) <= most_lost, "{loss}: {}", bench.dropped(DropCause::Arq));
        assert_eq!(bench.dropped(DropCause::Loss), 0);
    }
}

#[test]
fn arq_gives_up_after_its_last_attempt() {
    let mut bench = Bench::new(with_arq(1.0), 1);
    bench.offer(ms(0), 1_500);
    let outcomes = bench.finish();
    assert_eq!(bench.dropped(DropCause::Arq), 1);
    assert_eq!(bench.pipe.statistics().arq_retransmissions, 7);
    assert_eq!(crate::model::bench::ended(&outcomes[0]), crate::model::bench::at(us(8 * 1_000 + 7 * 500)));
}

#[test]
fn the_loss_in_force_is_that_of_the_moment_of_sending() {
    let mut bench = Bench::new(LinkModel { loss: LossModel::Independent(1.0), ..rate(PACKET_A_MS_BPS) }, 1);
    for _ in 0..4 {
        bench.offer(ms(0), 1_500);
    }
    let change = LinkChange { loss: Some(LossModel::Independent(0.0)), ..LinkChange::default() };
    bench.change(us(2_500), &change);
    assert_eq!(delivered(&bench.finish()).map(|(number, _)| number).collect::<Vec<_>>(), [2, 3]);
}
