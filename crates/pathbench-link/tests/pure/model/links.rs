//! Rate, delay, MTU, queue limits and conditions.

use crate::model::bench::{
    Bench, PACKET_A_MS_BPS, constant, delay_change, delivered, dropped, ms, rate, us, wire,
};
use pathbench_link::packet::{DropCause, Ecn, Fate, PacketFlow, PipePacket};
use pathbench_link::pipe::PipeCondition;
use pathbench_link::{Discipline, JitterDistribution, LinkChange, LinkModel, RateModel};
use pathbench_record::units::QueueLimit;
use std::time::Duration;

#[test]
fn a_wire_delivers_at_once_and_a_delay_is_exact() {
    for base in [Duration::ZERO, us(1), ms(20), Duration::from_secs(3)] {
        let mut bench = Bench::new(LinkModel { delay: constant(base), ..wire() }, 1);
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
fn fractions_of_nanoseconds_are_not_lost_where_packets_are_small_and_the_rate_is_high() {
    // 78 bytes at 100 Gbit/s take 6.24 ns: whole nanoseconds would be 12 % off.
    let model = LinkModel { queue: QueueLimit::Packets(10_000), ..rate(100_000_000_000) };
    let mut bench = Bench::new(model, 1);
    for _ in 0..10_000 {
        bench.offer(ms(0), 64);
    }
    let last = delivered(&bench.finish()).last().unwrap().1;
    assert_eq!(last, Duration::from_nanos(62_400));
}

#[test]
fn a_full_queue_drops_the_arriving_or_the_oldest_packet() {
    let limits = [QueueLimit::Packets(10), QueueLimit::Bytes(15_140)];
    for limit in limits {
        for (discipline, kept) in [(Discipline::DropTail, 1..11), (Discipline::DropHead, 10..20)] {
            let model = LinkModel { queue: limit, queue_discipline: discipline, ..rate(PACKET_A_MS_BPS) };
            let mut bench = Bench::new(model, 1);
            for _ in 0..20 {
                bench.offer(ms(0), 1_500);
            }
            let expected: Vec<_> = std::iter::once(0).chain(kept).zip((1..).map(ms)).collect();
            let outcomes = bench.finish();
            assert_eq!(delivered(&outcomes).collect::<Vec<_>>(), expected, "{limit:?} {discipline:?}");
            assert_eq!(bench.dropped(DropCause::QueueFull), 9);
            let statistics = bench.pipe.statistics();
            assert_eq!((statistics.largest_queue_packets, statistics.largest_queue_bytes), (10, 15_140));
            assert_eq!((statistics.queue_packets, statistics.queue_bytes), (0, 0));
        }
    }
}

#[test]
fn an_empty_queue_takes_any_packet() {
    for limit in [QueueLimit::Packets(0), QueueLimit::Bytes(100)] {
        let queue = limit;
        let mut bench = Bench::new(LinkModel { queue, ..rate(PACKET_A_MS_BPS) }, 1);
        for _ in 0..3 {
            bench.offer(ms(0), 1_500);
        }
        assert_eq!(delivered(&bench.finish()).count(), 2, "one sent, one in the queue");
    }
}

#[test]
fn packets_larger_than_the_mtu_are_dropped() {
    let mut bench = Bench::new(LinkModel { mtu_bytes: 1_400, ..wire() }, 1);
    bench.offer(ms(0), 1_401);
    bench.offer(ms(0), 1_400);
    let two = PipePacket {
        ip_bytes: 2_801,
        segments: 2,
        ecn: Ecn::NotEct,
        flow: PacketFlow::default(),
        payload: (),
    };
    bench.pipe.offer(crate::model::bench::at(ms(1)), two);
    let outcomes = bench.finish();
    assert_eq!(dropped(&outcomes).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(bench.dropped(DropCause::Mtu), 3);
}

#[test]
fn a_packet_of_several_segments_counts_all_of_them() {
    let mut bench = Bench::new(rate(PACKET_A_MS_BPS), 1);
    bench.pipe.offer(
        crate::model::bench::at(ms(0)),
        PipePacket {
            ip_bytes: 15_000,
            segments: 10,
            ecn: Ecn::NotEct,
            flow: PacketFlow::default(),
            payload: (),
        },
    );
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), [(0, ms(10))]);
    let statistics = bench.pipe.statistics();
    assert_eq!((statistics.offered_packets, statistics.offered_bytes), (10, 15_140));
    assert_eq!((statistics.delivered_packets, statistics.delivered_bytes), (10, 15_140));
}

#[test]
fn a_new_rate_holds_for_what_is_left_of_the_packet() {
    let slower = RateModel::Constant(PACKET_A_MS_BPS / 10);
    for (new, end) in [(slower, us(5_500)), (RateModel::Unlimited, us(500))] {
        let mut bench = Bench::new(rate(PACKET_A_MS_BPS), 1);
        bench.offer(ms(0), 1_500);
        bench.change(us(500), &LinkChange { rate: Some(new), ..LinkChange::default() });
        assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), [(0, end)]);
    }
}

#[test]
fn a_smaller_queue_or_mtu_drops_no_packet_already_in_the_pipe() {
    let mut bench = Bench::new(rate(PACKET_A_MS_BPS), 1);
    for _ in 0..10 {
        bench.offer(ms(0), 1_500);
    }
    let queue = Some(QueueLimit::Packets(2));
    let change = LinkChange { queue, mtu_bytes: Some(1_000), ..LinkChange::default() };
    bench.change(us(1), &change);
    bench.offer(us(2), 1_000);
    assert_eq!(
        delivered(&bench.finish()).map(|(number, _)| number).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
    assert_eq!(bench.dropped(DropCause::QueueFull), 1);
}

#[test]
fn an_outage_holds_packets_and_a_black_hole_drops_them() {
    let mut bench = Bench::new(rate(PACKET_A_MS_BPS), 1);
    bench.offer(ms(0), 1_500);
    bench.condition(us(500), PipeCondition::Outage);
    bench.offer(ms(1), 1_500);
    bench.condition(ms(10), PipeCondition::Carrying);
    bench.condition(ms(11), PipeCondition::Blackhole);
    bench.offer(us(11_001), 1_500);
    bench.condition(ms(12), PipeCondition::Carrying);
    let outcomes = bench.finish();
    assert_eq!(delivered(&outcomes).collect::<Vec<_>>(), [(0, us(10_500)), (1, us(11_500))]);
    assert_eq!(bench.dropped(DropCause::Blackhole), 1);
}

#[test]
fn an_outage_of_an_unlimited_link_fills_the_queue_and_lets_it_go_at_once() {
    let queue = QueueLimit::Packets(5);
    let mut bench = Bench::new(LinkModel { queue, ..wire() }, 1);
    bench.condition(ms(1), PipeCondition::Outage);
    for _ in 0..8 {
        bench.offer(ms(2), 1_500);
    }
    // A new rate does not end an outage.
    let change = LinkChange { rate: Some(RateModel::Unlimited), ..LinkChange::default() };
    bench.change(ms(3), &change);
    assert_eq!(bench.pipe.statistics().queue_packets, 5);
    bench.condition(ms(9), PipeCondition::Carrying);
    let outcomes = bench.finish();
    assert_eq!(delivered(&outcomes).collect::<Vec<_>>(), (0..5).map(|n| (n, ms(9))).collect::<Vec<_>>());
}

fn jitter(jitter_distribution: JitterDistribution, reorder: bool) -> LinkModel {
    LinkModel { delay: constant(ms(50)), jitter: ms(2), jitter_distribution, reorder, ..wire() }
}

#[test]
fn jitter_has_its_distributions_mean_and_spread() {
    // Mean beyond the base and standard deviation, both in ms. Pareto (Lomax): size/(shape-1), and for shape 4
    // size/3·√2.
    let table = [
        (JitterDistribution::Uniform, 0.0, 2.0 / 3.0_f64.sqrt()),
        (JitterDistribution::Normal, 0.0, 2.0),
        (JitterDistribution::Exponential, 2.0, 2.0),
        (JitterDistribution::Pareto { shape: 4.0 }, 2.0 / 3.0, 2.0 / 3.0 * 2.0_f64.sqrt()),
    ];
    for (distribution, mean, deviation) in table {
        let mut bench = Bench::new(jitter(distribution, true), 7);
        for number in 0..50_000 {
            bench.offer(ms(number), 100);
        }
        let extra: Vec<f64> = delivered(&bench.finish())
            .map(|(number, at)| at.as_secs_f64() * 1e3 - number as f64 - 50.0)
            .collect();
        let measured = extra.iter().sum::<f64>() / extra.len() as f64;
        let variance = extra.iter().map(|x| (x - measured).powi(2)).sum::<f64>() / extra.len() as f64;
        assert!((measured - mean).abs() < 0.05, "{distribution:?}: mean {measured}");
        assert!(
            (variance.sqrt() / deviation - 1.0).abs() < 0.1,
            "{distribution:?}: deviation {}",
            variance.sqrt()
        );
        assert!(bench.pipe.statistics().reordered_packets > 0, "{distribution:?}");
    }
}

#[test]
fn without_reordering_packets_keep_their_order() {
    for reorder in [false, true] {
        let mut bench = Bench::new(jitter(JitterDistribution::Normal, reorder), 7);
        for number in 0..1_000 {
            bench.offer(us(number * 100), 100);
        }
        let outcomes = bench.finish();
        let in_order = outcomes.is_sorted_by_key(|outcome| outcome.number);
        assert_eq!(in_order, !reorder);
        assert_eq!(bench.pipe.statistics().reordered_packets > 0, reorder);
        assert!(outcomes.is_sorted_by_key(crate::model::bench::ended), "outcomes come in order of time");
    }
}

#[test]
fn a_shorter_delay_does_not_let_packets_overtake() {
    let mut bench = Bench::new(LinkModel { delay: constant(ms(50)), ..wire() }, 1);
    bench.offer(ms(0), 100);
    bench.change(ms(1), &delay_change(ms(5)));
    bench.offer(ms(2), 100);
    bench.offer(ms(60), 100);
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), [(0, ms(50)), (1, ms(50)), (2, ms(65))]);
}

#[test]
fn duplicates_and_turned_bits_are_as_frequent_as_asked() {
    let mut bench = Bench::new(LinkModel { duplicate: 0.1, corrupt: 0.05, ..wire() }, 3);
    for number in 0..10_000 {
        bench.offer(us(number), 100);
    }
    let (mut twice, mut corrupt, mut both) = (0_u32, 0_u32, 0_u32);
    for outcome in bench.finish() {
        let Fate::Delivered(delivery) = outcome.fate else { panic!("dropped") };
        twice += u32::from(delivery.twice);
        corrupt += u32::from(delivery.corrupt.is_some());
        both += u32::from(delivery.twice && delivery.corrupt.is_some());
    }
    // Four standard deviations: 30, 22, 7.
    assert!(twice.abs_diff(1_000) < 120 && corrupt.abs_diff(500) < 88 && both.abs_diff(50) < 28);
    let statistics = bench.pipe.statistics();
    assert_eq!(
        (statistics.duplicated_packets, statistics.corrupted_packets),
        (u64::from(twice), u64::from(corrupt))
    );
    assert_eq!(statistics.delivered_packets, 10_000);
}

#[test]
fn overhead_counts_for_rate_and_queue() {
    let model = LinkModel { overhead_bytes: 100, ..rate(PACKET_A_MS_BPS) };
    let mut bench = Bench::new(model, 1);
    bench.offer(ms(0), 1_414);
    bench.offer(ms(0), 1_414);
    assert_eq!(bench.pipe.statistics().queue_bytes, 1_514);
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), [(0, ms(1)), (1, ms(2))]);
}
