//! Rates and delays that change with time.

use crate::model::bench::{Bench, PACKET_A_MS_BPS, at, delivered, ms, rate, us, wire};
use pathbench_link::{BaseDelay, LinkChange, LinkModel, RateModel};
use pathbench_link::{
    ChangeSchedule, DelaySchedule, OpportunitySchedule, RateSchedule, ScheduleEnd, Train, TrainSchedule,
};
use pathbench_record::units::QueueLimit;
use std::sync::Arc;
use std::time::Duration;

fn with_rate(rate: RateModel) -> LinkModel {
    let queue = QueueLimit::Packets(1_000_000);
    LinkModel { rate, queue, ..wire() }
}

fn opportunities(at_ms: &[u64]) -> LinkModel {
    with_rate(RateModel::Opportunities(Arc::new(OpportunitySchedule { at_ms: at_ms.to_vec() })))
}

#[test]
fn a_lone_1_is_12_mbit_a_second() {
    let mut bench = Bench::new(opportunities(&[1]), 1);
    for _ in 0..2_000 {
        bench.offer(ms(0), 1_500);
    }
    let times: Vec<_> = delivered(&bench.finish()).collect();
    assert_eq!(times, (0..2_000).map(|n| (n, ms(n + 1))).collect::<Vec<_>>());
}

#[test]
fn a_trace_delivers_its_own_bytes_if_there_are_enough() {
    // Irregular, several in a millisecond, with gaps: 0, and about 40 % of the milliseconds.
    let mut at_ms: Vec<u64> = (0..5_000_u64).filter(|n| n * n % 7 < 3).collect();
    at_ms.extend((0..1_000).map(|n| 2_000 + n / 10));
    at_ms.sort_unstable();
    let period = *at_ms.last().unwrap();
    for ip_bytes in [1_500, 576, 40, 9_000] {
        let mut bench = Bench::new(opportunities(&at_ms), 1);
        let trace_bytes = at_ms.len() as u64 * 1_500;
        for _ in 0..2 * trace_bytes / u64::from(ip_bytes) {
            bench.offer(ms(0), ip_bytes);
        }
        let outcomes = bench.finish();
        let bytes =
            delivered(&outcomes).filter(|(_, at)| *at < ms(period)).count() as u64 * u64::from(ip_bytes);
        let off = bytes as f64 / trace_bytes as f64 - 1.0;
        assert!(off.abs() < 0.01, "{ip_bytes}: {off}");
    }
}

#[test]
fn small_packets_share_an_opportunity_large_ones_span_several_and_unused_ones_are_lost() {
    let mut bench = Bench::new(opportunities(&[10, 20, 30, 40]), 1);
    bench.offer(ms(0), 500);
    bench.offer(ms(0), 600);
    bench.offer(ms(0), 900); // 400 left for the second opportunity
    bench.offer(ms(25), 2_000); // the rest of the second was lost
    bench.offer(ms(100), 100); // the cycle repeats every 40 ms: the one at 100 ms itself is over
    let expected = [(0, ms(10)), (1, ms(10)), (2, ms(20)), (3, ms(40)), (4, ms(110))];
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), expected);
}

#[test]
fn a_rate_in_steps_holds_within_a_packet_and_may_be_zero() {
    let slow = PACKET_A_MS_BPS / 10;
    let steps = vec![(ms(0), PACKET_A_MS_BPS), (us(2_500), slow), (us(3_500), 0), (ms(10), PACKET_A_MS_BPS)];
    let schedule = RateSchedule { steps, end: ScheduleEnd::Hold };
    let mut bench = Bench::new(with_rate(RateModel::Steps(Arc::new(schedule))), 1);
    for _ in 0..4 {
        bench.offer(ms(0), 1_500);
    }
    // Of the third: half at full rate, a tenth at a tenth of it, the rest from 10 ms on.
    let expected = [(0, ms(1)), (1, ms(2)), (2, us(10_400)), (3, us(11_400))];
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), expected);
    assert_eq!(bench.pipe.rate_bps(at(ms(3))), Some(slow));
    assert_eq!(bench.pipe.rate_bps(at(ms(5))), Some(0));
}

#[test]
fn repeated_steps_carry_their_mean() {
    let schedule = RateSchedule {
        steps: vec![(ms(0), 20_000_000), (ms(30), 4_000_000)],
        end: ScheduleEnd::Repeat(ms(80)),
    };
    let mut bench = Bench::new(with_rate(RateModel::Steps(Arc::new(schedule))), 1);
    for _ in 0..20_000 {
        bench.offer(ms(0), 1_486);
    }
    let seconds = Duration::from_secs(8);
    let bits = delivered(&bench.finish()).filter(|(_, at)| *at <= seconds).count() as f64 * 12_000.0;
    assert!((bits / 8.0 / 10_000_000.0 - 1.0).abs() < 0.001, "{bits}");
}

#[test]
fn a_trace_of_delays_holds_at_the_moment_of_departure() {
    let schedule =
        DelaySchedule { steps: vec![(ms(0), ms(10)), (ms(5), ms(40))], end: ScheduleEnd::Repeat(ms(10)) };
    let delay = BaseDelay::Schedule(Arc::new(schedule));
    let mut bench = Bench::new(LinkModel { delay, ..wire() }, 1);
    for number in [0, 4, 5, 60, 64] {
        bench.offer(ms(number), 100);
    }
    let times: Vec<_> = delivered(&bench.finish()).map(|(_, at)| at).collect();
    assert_eq!(times, [ms(10), ms(14), ms(45), ms(70), ms(74)]);
    assert_eq!(bench.pipe.base_delay(at(ms(66))), ms(40));
}

fn trains() -> LinkModel {
    let train = |at_ms: u64, delay_ms: u64, gaps: &[u64]| Train {
        at: ms(at_ms),
        base_delay: ms(delay_ms),
        opportunities: gaps.iter().copied().map(ms).collect(),
    };
    let trains = vec![train(0, 20, &[0, 1, 2, 6]), train(100, 40, &[0, 10]), train(200, 20, &[0])];
    with_rate(RateModel::Trains(Arc::new(TrainSchedule { trains })))
}

#[test]
fn a_train_begins_with_the_first_packet_and_its_delay_lies_between_those_of_the_trace() {
    let mut bench = Bench::new(trains(), 1);
    bench.offer(ms(50), 1_500); // between 20 and 40 ms of delay
    bench.offer(ms(50), 700);
    bench.offer(ms(50), 800);
    bench.offer(ms(50), 1_500);
    let expected = [(0, ms(80)), (1, ms(81)), (2, ms(81)), (3, ms(82))];
    assert_eq!(delivered(&bench.finish()).collect::<Vec<_>>(), expected);
    // The trace repeats when its last line's time is reached.
    assert_eq!(bench.pipe.base_delay(at(ms(250))), ms(30));
}

#[test]
fn after_a_train_comes_the_next_at_its_pace() {
    let mut bench = Bench::new(trains(), 1);
    for _ in 0..6 {
        bench.offer(ms(98), 1_500);
    }
    let departures: Vec<_> = delivered(&bench.finish()).map(|(_, at)| at).collect();
    // The train of line 1 from 98 ms to 104 ms, then 2 ms on that of line 2 from 106 ms.
    let first = Duration::from_secs_f64(0.098 + 0.0396);
    let expected = [first, first + ms(1), first + ms(2), first + ms(6)];
    assert_eq!(departures[..4], expected);
    assert!(departures[4] > departures[3] && departures[5] - departures[4] == ms(10), "{departures:?}");
}

#[test]
fn an_idle_link_begins_a_new_train() {
    let mut bench = Bench::new(trains(), 1);
    bench.offer(ms(0), 1_500);
    bench.offer(us(500), 1_500); // within the train: at its next opportunity
    bench.offer(ms(3), 1_500); // likewise: that at 6 ms
    bench.offer(ms(20), 1_500); // the train is over
    let departures: Vec<_> = delivered(&bench.finish()).map(|(_, at)| at).collect();
    assert_eq!(departures, [ms(20), ms(21), ms(26), ms(44)]);
}

#[test]
fn a_train_without_a_packet_delays_no_packet() {
    // Regression: a rate put in force on an idle link, and a used-up train, left trains behind that no packet had begun.
    let mut bench = Bench::new(wire(), 1);
    bench.change(ms(0), &LinkChange { rate: Some(trains().rate), ..LinkChange::default() });
    bench.offer(ms(3), 1_500); // at once, not at the 6 ms of a train that began at 0
    for _ in 0..3 {
        bench.offer(ms(3), 1_500); // up to 9 ms; the next train would begin at 11 ms
    }
    bench.offer(ms(14), 1_500); // at once, not at its 17 ms
    let expected = [3.0, 4.0, 5.0, 9.0, 14.0].map(|departure| departure + 20.0);
    for ((number, at), expected) in delivered(&bench.finish()).zip(expected) {
        let at_ms = at.as_secs_f64() * 1e3;
        assert!(
            (0.0..3.0).contains(&(at_ms - expected)),
            "{number}: {at_ms} ms rather than {expected} and its share"
        );
    }
    assert_eq!(bench.pipe.statistics().delivered_packets, 5);
}

#[test]
fn a_schedule_of_changes_is_followed_by_the_pipe_itself() {
    let to = |rate_bps| LinkChange { rate: Some(RateModel::Constant(rate_bps)), ..LinkChange::default() };
    let changes = vec![(ms(2), to(PACKET_A_MS_BPS / 2)), (ms(4), to(PACKET_A_MS_BPS * 2))];
    let mut bench = Bench::new(rate(PACKET_A_MS_BPS), 1);
    bench.pipe.follow(at(ms(0)), ChangeSchedule { changes });
    for _ in 0..6 {
        bench.offer(ms(0), 1_500);
    }
    let expected = [ms(1), ms(2), ms(4), us(4_500), us(5_000), us(5_500)];
    assert_eq!(delivered(&bench.finish()).map(|(_, at)| at).collect::<Vec<_>>(), expected);
    assert_eq!(bench.pipe.model().rate, RateModel::Constant(PACKET_A_MS_BPS * 2));
}
