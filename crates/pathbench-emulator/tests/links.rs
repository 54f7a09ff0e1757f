//! What links of one kind do to packets, in virtual time.

mod support;

use pathbench_emulator::model::{
    Condition, DelayModel, LossModel, ModelChange, PipeModel, QueueLimit, RateModel,
};
use pathbench_emulator::packet::DropCause;
use std::time::Duration;
use support::{Bench, delivered, ms, us};

fn wire() -> PipeModel {
    PipeModel::default()
}

fn rate(rate_bps: u64) -> PipeModel {
    PipeModel { rate: RateModel::Constant(rate_bps), ..wire() }
}

fn delay(base: Duration) -> DelayModel {
    DelayModel { base: pathbench_emulator::model::BaseDelay::Constant(base), jitter: None }
}

#[test]
fn a_wire_delivers_at_once_and_a_delay_is_exact() {
    for base in [Duration::ZERO, us(1), ms(20)] {
        let mut bench = Bench::new(PipeModel { delay: delay(base), ..wire() }, 1);
        for number in 0..100 {
            bench.offer(us(number * 10), 1_500);
        }
        let times: Vec<_> = delivered(&bench.finish()).map(|(number, at)| at - us(number * 10)).collect();
        assert_eq!(times, vec![base; 100]);
    }
}

#[test]
fn a_rate_is_kept_within_half_a_percent() {
    for (rate_bps, seconds) in [(10_000_000, 10.0), (1_000_000_000, 1.0), (7_777_777_777, 0.2)] {
        let mut bench = Bench::new(rate(rate_bps), 1);
        let wire_bits = 1_514.0 * 8.0;
        let gap_s = wire_bits / rate_bps as f64 / 1.5; // half as much again as fits
        let packets = (seconds / gap_s) as u64;
        for number in 0..packets {
            bench.offer(Duration::from_secs_f64(number as f64 * gap_s), 1_500);
        }
        let end = Duration::from_secs_f64(seconds);
        let delivered = delivered(&bench.finish()).filter(|(_, at)| *at <= end).count();
        let measured = delivered as f64 * wire_bits / seconds;
        assert!((measured / rate_bps as f64 - 1.0).abs() < 0.005, "{rate_bps}: {measured}");
    }
}

#[test]
fn a_full_queue_drops_the_arriving_packet() {
    let mut model = rate(12_112_000); // a millisecond each
    model.queue.limit = QueueLimit::Packets(10);
    let mut bench = Bench::new(model, 1);
    for _ in 0..20 {
        bench.offer(ms(0), 1_500);
    }
    let outcomes = bench.finish();
    let numbers: Vec<_> = delivered(&outcomes).collect();
    assert_eq!(numbers, (0..11).map(|n| (n, ms(n + 1))).collect::<Vec<_>>());
    assert_eq!(bench.pipe.statistics().dropped_packets.get(&DropCause::QueueFull), Some(&9));
}

#[test]
fn a_new_rate_holds_for_what_is_left_of_the_packet() {
    let mut bench = Bench::new(rate(12_112_000), 1);
    bench.offer(ms(0), 1_500);
    let change = ModelChange { rate: Some(RateModel::Constant(1_211_200)), ..ModelChange::default() };
    bench.change(us(500), &change);
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), [(0, us(5_500))]);
}

#[test]
fn an_outage_holds_and_a_black_hole_swallows() {
    let mut bench = Bench::new(rate(12_112_000), 1);
    bench.offer(ms(0), 1_500);
    bench.condition(us(500), Condition::Outage);
    bench.offer(ms(1), 1_500);
    bench.condition(ms(10), Condition::Carrying);
    bench.condition(us(11_000), Condition::Blackhole);
    bench.offer(us(11_001), 1_500);
    bench.condition(ms(12), Condition::Carrying);
    let outcomes = bench.finish();
    assert_eq!(delivered(&outcomes).collect::<Vec<_>>(), [(0, us(10_500)), (1, us(11_500))]);
    assert_eq!(bench.pipe.statistics().dropped_packets.get(&DropCause::Blackhole), Some(&1));
}

#[test]
fn independent_loss_lies_in_its_binomial_interval() {
    for seed in 0..5 {
        let mut bench = Bench::new(PipeModel { loss: LossModel::Independent(0.02), ..wire() }, seed);
        for number in 0..100_000 {
            bench.offer(us(number), 1_500);
        }
        let lost = 100_000 - delivered(&bench.finish()).count() as i64;
        // 2.576 standard deviations of 44.3.
        assert!((lost - 2_000).abs() <= 114, "seed {seed}: {lost}");
    }
}
