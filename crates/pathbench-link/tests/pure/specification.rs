//! The link specification: long-term means, limits in bytes, changes, and the table of parameters.

use pathbench_link::*;
use pathbench_record::units::QueueLimit;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn steps<V>(steps: Vec<(Duration, V)>, end: ScheduleEnd) -> Arc<Steps<V>> {
    Arc::new(Steps { steps, end })
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

fn gilbert_elliott(to_bad: f64, to_good: f64, loss_good: f64, loss_bad: f64) -> GilbertElliott {
    GilbertElliott { to_bad, to_good, loss_good, loss_bad }
}

/// The stationary probability of the bad state is `to_bad` ÷ (`to_bad` + `to_good`) (Gilbert 1960).
#[test]
fn the_mean_loss_of_a_two_state_channel_weights_both_states() {
    near(gilbert_elliott(0.01, 0.24, 0.25, 0.5).mean_loss(), 0.04 * 0.5 + 0.96 * 0.25);
    near(gilbert_elliott(0.25, 0.25, 0.0, 1.0).mean_loss(), 0.5);
    near(gilbert_elliott(0.0, 0.0, 0.125, 1.0).mean_loss(), 0.125);
}

#[test]
fn the_mean_of_a_schedule_is_that_of_its_period_or_its_last_value() {
    let rates = vec![(ms(0), 40_000_000), (ms(5_000), 10_000_000)];
    assert_eq!(steps(rates.clone(), ScheduleEnd::Repeat(ms(20_000))).mean_rate_bps(), Some(17_500_000));
    assert_eq!(steps(rates.clone(), ScheduleEnd::Hold).mean_rate_bps(), Some(10_000_000));
    assert_eq!(steps(rates, ScheduleEnd::Repeat(Duration::ZERO)).mean_rate_bps(), Some(10_000_000));
    assert_eq!(steps(Vec::<(Duration, u64)>::new(), ScheduleEnd::Hold).mean_rate_bps(), None);
    let losses = vec![(ms(0), 0.5), (ms(1_000), 0.1)];
    near(steps(losses, ScheduleEnd::Repeat(ms(4_000))).mean_loss().unwrap(), 0.2);
    let delays = vec![(ms(0), ms(10)), (ms(3_000), ms(50))];
    assert_eq!(steps(delays, ScheduleEnd::Repeat(ms(4_000))).mean_delay(), Some(ms(20)));
}

#[test]
fn a_schedule_holds_each_value_until_the_next_step() {
    let held = steps(vec![(ms(0), 'a'), (ms(10), 'b')], ScheduleEnd::Hold);
    for (at, value, next) in [(0, 'a', Some(10)), (9, 'a', Some(10)), (10, 'b', None), (99, 'b', None)] {
        assert_eq!(held.value_at(ms(at)), Some((value, next.map(ms))), "{at} ms");
    }
    let repeated = steps(vec![(ms(0), 'a'), (ms(10), 'b')], ScheduleEnd::Repeat(ms(30)));
    for (at, value, next) in [(0, 'a', 10), (29, 'b', 30), (30, 'a', 40), (41, 'b', 60), (60, 'a', 70)] {
        assert_eq!(repeated.value_at(ms(at)), Some((value, Some(ms(next)))), "{at} ms");
    }
    assert_eq!(steps(Vec::<(Duration, char)>::new(), ScheduleEnd::Hold).value_at(ms(0)), None);
}

/// Mahimahi: each line is an opportunity of 1500 bytes.
#[test]
fn the_mean_rate_of_opportunities_uses_all_of_them() {
    let schedule = OpportunitySchedule { at_ms: vec![1, 2, 2, 4] };
    assert_eq!(schedule.period(), Some(ms(4)));
    assert_eq!(schedule.mean_rate_bps(), Some(12_000_000), "4 · 1500 · 8 bits in 4 ms");
    for at_ms in [vec![], vec![0, 0]] {
        let schedule = OpportunitySchedule { at_ms };
        assert_eq!((schedule.period(), schedule.mean_rate_bps()), (None, None));
    }
}

fn train(base_delay_ms: u64, opportunities_ms: &[u64]) -> Train {
    let opportunities = opportunities_ms.iter().copied().map(ms).collect();
    Train { at: ms(0), base_delay: ms(base_delay_ms), opportunities }
}

#[test]
fn the_mean_rate_of_trains_leaves_out_the_first_packet_of_each() {
    let schedule = TrainSchedule { trains: vec![train(10, &[0, 1, 2]), train(20, &[0, 3])] };
    assert_eq!(schedule.mean_rate_bps(), Some(7_200_000), "3 · 1500 · 8 bits in 5 ms");
    assert_eq!(schedule.mean_base_delay(), Some(ms(15)));
    let single = TrainSchedule { trains: vec![train(10, &[0])] };
    assert_eq!(single.mean_rate_bps(), None);
    assert_eq!(TrainSchedule { trains: Vec::new() }.mean_base_delay(), None);
}

fn with_rate(rate: RateModel) -> LinkModel {
    LinkModel { rate, ..LinkModel::default() }
}

#[test]
fn the_mean_rate_of_a_link_counts_the_last_step_for_one_second() {
    let held = steps(vec![(ms(0), 40_000_000), (ms(10_000), 18_000_000)], ScheduleEnd::Hold);
    assert_eq!(with_rate(RateModel::Steps(Arc::clone(&held))).mean_rate_bps(), Some(38_000_000));
    assert_eq!(
        RateModel::Steps(held).mean_rate_bps(),
        Some(18_000_000),
        "without end, the last step decides"
    );
    let repeated =
        steps(vec![(ms(0), 40_000_000), (ms(10_000), 18_000_000)], ScheduleEnd::Repeat(ms(20_000)));
    assert_eq!(with_rate(RateModel::Steps(repeated)).mean_rate_bps(), Some(29_000_000));
    let opportunities = Arc::new(OpportunitySchedule { at_ms: vec![1, 2, 2, 4] });
    assert_eq!(with_rate(RateModel::Opportunities(opportunities)).mean_rate_bps(), Some(12_000_000));
    let trains = Arc::new(TrainSchedule { trains: vec![train(10, &[0, 1])] });
    assert_eq!(with_rate(RateModel::Trains(trains)).mean_rate_bps(), Some(12_000_000));
    assert_eq!(with_rate(RateModel::Unlimited).mean_rate_bps(), None);
    assert_eq!(with_rate(RateModel::Constant(5_000)).mean_rate_bps(), Some(5_000));
    // A link without service has a queue.
    let none = steps(vec![(ms(0), 0)], ScheduleEnd::Hold);
    assert_eq!(with_rate(RateModel::Steps(none)).mean_rate_bps(), Some(1));
}

#[test]
fn only_a_constant_rate_delay_and_loss_are_figures_of_a_link() {
    let constant = with_rate(RateModel::Constant(5_000));
    let unlimited = LinkModel::default();
    assert_eq!((constant.rate_bps(), unlimited.rate_bps()), (Some(5_000), None));
    assert_eq!(unlimited.constant_delay(), Some(Duration::ZERO));
    let delayed = LinkModel { delay: BaseDelay::Constant(ms(7)), ..LinkModel::default() };
    assert_eq!(delayed.constant_delay(), Some(ms(7)));
    let changing = BaseDelay::Schedule(steps(vec![(ms(0), ms(7))], ScheduleEnd::Hold));
    assert_eq!(LinkModel { delay: changing, ..LinkModel::default() }.constant_delay(), None);
    let trains = RateModel::Trains(Arc::new(TrainSchedule { trains: vec![train(10, &[0])] }));
    assert_eq!(with_rate(trains).constant_delay(), None, "trains have a delay of their own");
    for (loss, independent, loses) in [
        (LossModel::default(), Some(0.0), false),
        (LossModel::Independent(0.25), Some(0.25), true),
        (LossModel::GilbertElliott(gilbert_elliott(0.1, 0.2, 0.0, 1.0)), None, true),
        (LossModel::Bursts { period: ms(10), length: ms(1), loss: 1.0 }, None, true),
    ] {
        let model = LinkModel { loss, ..LinkModel::default() };
        assert_eq!((model.independent_loss(), model.loses()), (independent, loses), "{:?}", model.loss);
    }
}

#[test]
fn the_limit_of_a_queue_in_bytes_follows_from_rate_and_mtu() {
    assert_eq!(queue_bytes(QueueLimit::Time(ms(100)), 50_000_000, 1_500), 625_000);
    assert_eq!(queue_bytes(QueueLimit::Time(ms(100)), 1_000_000, 1_500), 65_536, "one GSO packet");
    assert_eq!(queue_bytes(QueueLimit::Packets(10), 1, 1_500), 10 * 1_514, "Ethernet frames");
    assert_eq!(queue_bytes(QueueLimit::Bytes(7), 50_000_000, 1_500), 7);
    assert_eq!(queue_bytes(QueueLimit::Time(Duration::from_nanos(u64::MAX)), u64::MAX, 1_500), u64::MAX);
    assert_eq!(with_rate(RateModel::Constant(50_000_000)).queue_bytes(), Some(625_000));
    assert_eq!(LinkModel::default().queue_bytes(), None);
}

#[test]
fn a_change_sets_only_its_own_parameters() {
    let mut change = LinkChange { mtu_bytes: Some(1_400), jitter: Some(ms(3)), ..LinkChange::default() };
    let model = LinkModel::default().with_change(&change);
    assert_eq!(model, LinkModel { mtu_bytes: 1_400, jitter: ms(3), ..LinkModel::default() });
    let later = LinkChange { jitter: Some(ms(9)), ecn: Some(true), ..LinkChange::default() };
    let mut both = change.clone();
    both.take_in(&later);
    let expected =
        LinkChange { mtu_bytes: Some(1_400), jitter: Some(ms(9)), ecn: Some(true), ..LinkChange::default() };
    assert_eq!(both, expected);
    both.leave_out_unchanged(&model);
    assert_eq!(both, LinkChange { jitter: Some(ms(9)), ecn: Some(true), ..LinkChange::default() });
    change.leave_out(&later);
    assert_eq!(change, LinkChange { mtu_bytes: Some(1_400), ..LinkChange::default() });
}

const POLICER: PolicerModel = PolicerModel { rate_bps: 1_000_000, burst_bytes: 30_000 };

/// Each condition is that of docs/scenarios.md, section Link parameters.
#[test]
fn a_link_needs_an_engine_that_supports_all_its_values() {
    let (delay, jitter) = (BaseDelay::Constant(ms(10)), ms(2));
    let base = LinkModel::default;
    for (model, engines) in [
        (base(), Engines::Kernel),
        (with_rate(RateModel::Constant(1_000_000)), Engines::Kernel),
        (LinkModel { mtu_bytes: 1_400, queue: QueueLimit::Packets(5), ..base() }, Engines::Kernel),
        (LinkModel { reorder: true, ecn: true, ..base() }, Engines::Kernel),
        (LinkModel { queue_target: Some(ms(5)), queue_interval: Some(ms(5)), ..base() }, Engines::Kernel),
        (LinkModel { jitter_distribution: JitterDistribution::Normal, ..base() }, Engines::Kernel),
        (LinkModel { delay: delay.clone(), ..base() }, Engines::Netem),
        (LinkModel { loss: LossModel::Independent(0.1), ..base() }, Engines::Netem),
        (LinkModel { delay: delay.clone(), jitter, reorder: true, ..base() }, Engines::Netem),
        (LinkModel { delay, jitter, ..base() }, Engines::Emulated),
        (
            LinkModel { jitter, reorder: true, jitter_distribution: JitterDistribution::Normal, ..base() },
            Engines::Emulated,
        ),
        (with_rate(RateModel::Steps(steps(vec![(ms(0), 1)], ScheduleEnd::Hold))), Engines::Emulated),
        (
            LinkModel {
                delay: BaseDelay::Schedule(steps(vec![(ms(0), ms(1))], ScheduleEnd::Hold)),
                ..base()
            },
            Engines::Emulated,
        ),
        (
            LinkModel { loss: LossModel::GilbertElliott(gilbert_elliott(0.1, 0.2, 0.0, 1.0)), ..base() },
            Engines::Emulated,
        ),
        (LinkModel { duplicate: 0.1, ..base() }, Engines::Emulated),
        (LinkModel { corrupt: 0.1, ..base() }, Engines::Emulated),
        (LinkModel { queue_discipline: Discipline::CoDel, ..base() }, Engines::Emulated),
        (LinkModel { arq: Some(ArqModel { retries: 1, pause: ms(0) }), ..base() }, Engines::Emulated),
        (LinkModel { overhead_bytes: 38, ..base() }, Engines::Emulated),
        (LinkModel { burst_bytes: 30_000, ..with_rate(RateModel::Constant(1_000_000)) }, Engines::Kernel),
        (LinkModel { policer: Some(POLICER), ..base() }, Engines::Emulated),
        (LinkModel { queue_discipline: Discipline::FqCoDel, ..base() }, Engines::Emulated),
        (LinkModel { queue_isolation: QueueIsolation::TripleIsolate, ..base() }, Engines::Emulated),
        (LinkModel { loss_correlation: 0.1, ..base() }, Engines::Emulated),
        (LinkModel { jitter_correlation: 0.1, ..base() }, Engines::Kernel),
        (LinkModel { jitter_correlation: 0.1, jitter, reorder: true, ..base() }, Engines::Emulated),
        (LinkModel { reorder_share: 0.1, ..base() }, Engines::Emulated),
        (LinkModel { reorder_correlation: 0.1, reorder_gap: 5, ..base() }, Engines::Kernel),
        (LinkModel { in_flight_limit: 9, ..base() }, Engines::Emulated),
    ] {
        assert_eq!(model.needs(), engines, "{model:?}");
    }
}

/// The change, and the JSON, after these values are given in this order.
fn given(values: &[(&str, Value)]) -> (LinkChange, Json) {
    let (mut change, mut given) = (LinkChange::default(), Map::new());
    for (key, value) in values {
        parameter(key).unwrap().give(value, &mut change, &mut given);
    }
    (change, Json::Object(given))
}

#[test]
fn each_value_sets_its_field_and_its_key_with_a_unit() {
    let only = LinkChange::default;
    for (key, value, change, json) in [
        (
            "rate",
            Value::Rate(5_000),
            LinkChange { rate: Some(RateModel::Constant(5_000)), ..only() },
            json!({ "rate_bps": 5_000 }),
        ),
        (
            "delay",
            Value::Time(Duration::from_micros(1_500)),
            LinkChange { delay: Some(BaseDelay::Constant(Duration::from_micros(1_500))), ..only() },
            json!({ "delay_ms": 1.5 }),
        ),
        (
            "loss",
            Value::Fraction(0.25),
            LinkChange { loss: Some(LossModel::Independent(0.25)), ..only() },
            json!({ "loss": 0.25 }),
        ),
        (
            "queue",
            Value::Queue(QueueLimit::Packets(200)),
            LinkChange { queue: Some(QueueLimit::Packets(200)), ..only() },
            json!({ "queue": "200p" }),
        ),
        (
            "mtu",
            Value::Bytes(1_400),
            LinkChange { mtu_bytes: Some(1_400), ..only() },
            json!({ "mtu_bytes": 1_400 }),
        ),
        ("ecn", Value::Flag(true), LinkChange { ecn: Some(true), ..only() }, json!({ "ecn": true })),
        (
            "queue_discipline",
            Value::Choice("pie"),
            LinkChange { queue_discipline: Some(Discipline::Pie), ..only() },
            json!({ "queue_discipline": "pie" }),
        ),
        (
            "jitter_distribution",
            Value::Choice("exponential"),
            LinkChange { jitter_distribution: Some(JitterDistribution::Exponential), ..only() },
            json!({ "jitter_distribution": "exponential" }),
        ),
    ] {
        assert_eq!(given(&[(key, value)]), (change, json), "{key}");
    }
    let rates = steps(vec![(ms(0), 40), (ms(10), 30)], ScheduleEnd::Hold);
    let (change, json) = given(&[("rate_steps", Value::RateSteps(Arc::clone(&rates)))]);
    assert_eq!(change.rate, Some(RateModel::Steps(rates)));
    let steps = json!([{ "at_ms": 0.0, "rate_bps": 40 }, { "at_ms": 10.0, "rate_bps": 30 }]);
    assert_eq!(json, json!({ "rate_steps": steps }));
}

#[test]
fn values_of_buckets_fair_queues_and_netem_set_their_fields() {
    let only = LinkChange::default;
    for (key, value, change, json) in [
        (
            "queue_discipline",
            Value::Choice("fq_codel"),
            LinkChange { queue_discipline: Some(Discipline::FqCoDel), ..only() },
            json!({ "queue_discipline": "fq_codel" }),
        ),
        (
            "queue_isolation",
            Value::Choice("dual-dsthost"),
            LinkChange { queue_isolation: Some(QueueIsolation::DualDestinationHost), ..only() },
            json!({ "queue_isolation": "dual-dsthost" }),
        ),
        (
            "jitter_distribution",
            Value::Choice("netem-pareto"),
            LinkChange { jitter_distribution: Some(JitterDistribution::NetemPareto), ..only() },
            json!({ "jitter_distribution": "netem-pareto" }),
        ),
        (
            "burst",
            Value::Bytes(30_000),
            LinkChange { burst_bytes: Some(30_000), ..only() },
            json!({ "burst_bytes": 30_000 }),
        ),
        (
            "reorder_gap",
            Value::Integer(5),
            LinkChange { reorder_gap: Some(5), ..only() },
            json!({ "reorder_gap": 5 }),
        ),
        (
            "in_flight_limit",
            Value::Integer(9),
            LinkChange { in_flight_limit: Some(9), ..only() },
            json!({ "in_flight_limit": 9 }),
        ),
    ] {
        assert_eq!(given(&[(key, value)]), (change, json), "{key}");
    }
}

/// The keys of the table `key` in their order.
fn fields(key: &str) -> &'static [Field] {
    let ParameterKind::Table(fields) = parameter(key).unwrap().kind else { panic!("{key} is no table") };
    fields
}

#[test]
fn the_values_of_a_table_set_one_field() {
    let burst_loss = [0.01, 0.25, 0.75, 0.125].map(Value::Fraction).to_vec();
    let (change, json) = given(&[("burst_loss", Value::Table(fields("burst_loss"), burst_loss))]);
    let expected = LossModel::GilbertElliott(gilbert_elliott(0.01, 0.25, 0.125, 0.75));
    assert_eq!(change, LinkChange { loss: Some(expected), ..LinkChange::default() });
    let table = json!({ "to_bad": 0.01, "to_good": 0.25, "loss_bad": 0.75, "loss_good": 0.125 });
    assert_eq!(json, json!({ "burst_loss": table }));

    let bursts = vec![Value::Time(ms(10_000)), Value::Time(ms(300)), Value::Fraction(0.5)];
    let (change, json) = given(&[("loss_bursts", Value::Table(fields("loss_bursts"), bursts))]);
    let expected = LossModel::Bursts { period: ms(10_000), length: ms(300), loss: 0.5 };
    assert_eq!(change, LinkChange { loss: Some(expected), ..LinkChange::default() });
    let table = json!({ "period_ms": 10_000.0, "length_ms": 300.0, "loss": 0.5 });
    assert_eq!(json, json!({ "loss_bursts": table }));

    for (key, change) in [
        ("loss_correlation", LinkChange { loss_correlation: Some(0.25), ..LinkChange::default() }),
        ("jitter_correlation", LinkChange { jitter_correlation: Some(0.25), ..LinkChange::default() }),
        ("reorder_share", LinkChange { reorder_share: Some(0.25), ..LinkChange::default() }),
        ("reorder_correlation", LinkChange { reorder_correlation: Some(0.25), ..LinkChange::default() }),
    ] {
        assert_eq!(given(&[(key, Value::Fraction(0.25))]), (change, json!({ key: 0.25 })));
    }

    let policer = |burst_bytes| {
        let values = vec![Value::Rate(1_000_000), Value::Bytes(burst_bytes)];
        given(&[("policer", Value::Table(fields("policer"), values))])
    };
    assert_eq!(policer(30_000).0, LinkChange { policer: Some(Some(POLICER)), ..LinkChange::default() });
    assert_eq!(policer(30_000).1, json!({ "policer": { "rate_bps": 1_000_000, "burst_bytes": 30_000 } }));
    assert_eq!(policer(0).0.policer, Some(None), "0 takes the policer away");

    let arq = |retries| {
        let values = vec![Value::Integer(retries), Value::Time(ms(3))];
        given(&[("arq", Value::Table(fields("arq"), values))]).0.arq
    };
    assert_eq!(arq(7), Some(Some(ArqModel { retries: 7, pause: ms(3) })));
    assert_eq!(arq(0), Some(None), "0 takes ARQ away");
}

#[test]
fn a_parameter_replaces_others_of_its_field() {
    let trace = Value::LossTrace("loss.csv".to_owned(), steps(vec![(ms(0), 0.5)], ScheduleEnd::Hold));
    let (change, json) = given(&[
        ("delay", Value::Time(ms(1))),
        ("loss", Value::Fraction(0.25)),
        ("loss_trace", trace),
        ("rate", Value::Rate(8)),
        ("rate", Value::Rate(9)),
    ]);
    assert_eq!(change.loss, Some(LossModel::Schedule(steps(vec![(ms(0), 0.5)], ScheduleEnd::Hold))));
    assert_eq!(json, json!({ "delay_ms": 1.0, "loss_trace": "loss.csv", "rate_bps": 9 }));

    let object = |json: Json| json.as_object().unwrap().clone();
    let mut outer = object(json!({ "rate_steps": [], "delay_ms": 1.0, "mtu_bytes": 1_400 }));
    overlay(&mut outer, object(json!({ "rate_bps": 9, "delay_trace": "delay.csv", "note": "kept" })));
    let expected = json!({ "mtu_bytes": 1_400, "rate_bps": 9, "delay_trace": "delay.csv", "note": "kept" });
    assert_eq!(Json::Object(outer), expected);
}

#[test]
fn only_the_mtu_is_equal_in_both_directions() {
    let of_link: Vec<&str> = PARAMETERS.iter().filter(|one| one.of_link).map(|one| one.key).collect();
    assert_eq!(of_link, ["mtu"]);
}

#[test]
fn times_of_patterns_reach_from_1_ms_to_one_day() {
    let ParameterKind::Time { least, most } = fields("loss_bursts")[0].kind else { panic!("no time") };
    assert_eq!((least, most), (ms(1), ms(86_400_000)));
    let ParameterKind::Time { least, most } = parameter("delay").unwrap().kind else { panic!("no time") };
    assert_eq!((least, most), (ms(0), ms(60_000)));
    let ParameterKind::Time { least, most } = parameter("queue_target").unwrap().kind else {
        panic!("no time")
    };
    assert_eq!((least, most), (Duration::from_micros(1), ms(10_000)));
}
