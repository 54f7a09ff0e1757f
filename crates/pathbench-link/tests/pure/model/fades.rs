//! Walks and ramps.

use crate::model::bench::{Bench, at, constant, delay_change, delivered, ms, rate, wire};
use pathbench_link::fading::{DEFAULT_ARQ, FadingError, Ramp, Walk};
use pathbench_link::packet::DropCause;
use pathbench_link::{BaseDelay, GilbertElliott, LinkChange, LinkModel, LossModel, RateModel};
use pathbench_link::{ChangeSchedule, OpportunitySchedule, ScheduleEnd, Steps};
use pathbench_record::units::QueueLimit;
use std::sync::Arc;
use std::time::Duration;

/// Rate and loss per attempt at the end of a schedule.
fn last(schedule: &ChangeSchedule) -> (Option<RateModel>, Option<LossModel>) {
    let newest = schedule.changes.iter().rev();
    (
        newest.clone().find_map(|(_, change)| change.rate.clone()),
        newest.clone().find_map(|(_, change)| change.loss.clone()),
    )
}

#[test]
fn arq_loses_rate_first_and_frames_later() {
    let walk = Walk::default();
    let qualities: Vec<_> = [1.0, 10.0, 20.0, 50.0, 100.0, 150.0, 300.0].map(|m| walk.quality(m)).into();
    assert!(qualities.is_sorted_by(|a, b| a.rate_kbps >= b.rate_kbps && a.frame_errors < b.frame_errors));
    assert!((qualities[0].snr_db - 64.2).abs() < 0.01, "20 dBm - 46.8 dB + 91 dBm");
    assert!((qualities[1].snr_db - 34.2).abs() < 0.01, "30 dB a decade");
    assert!((qualities[0].rate_kbps, qualities[6].rate_kbps) == (78_000.0, 6_500.0));
    assert!(qualities[4].frame_errors < 0.1 && qualities[6].frame_errors > 0.99, "{qualities:?}");
    // At the lowest MCS's sensitivity, one frame in ten.
    let sensitive = Walk { transmit_dbm: -82.0 + 46.8, noise_dbm: -86.0, ..walk }.quality(1.0);
    assert!((sensitive.frame_errors - 0.1).abs() < 1e-9, "{sensitive:?}");
}

#[test]
fn a_link_that_is_left_slows_down_before_it_loses() {
    let walk = Walk { to_m: 200.0, ..Walk::default() };
    let mut model = rate(50_000_000);
    model.delay = constant(ms(2));
    let mut bench = Bench::new(model.clone(), 3);
    bench.pipe.follow(at(ms(0)), walk.changes(&model).unwrap());
    let seconds = walk.duration().as_secs() + 5;
    for tick in 0..seconds * 100 {
        bench.offer(ms(tick * 10), 1_000);
    }
    let outcomes = bench.finish();
    let mut second_delays = vec![Vec::new(); seconds as usize + 60];
    for (number, at) in delivered(&outcomes) {
        second_delays[(number / 100) as usize].push((at - ms(number * 10)).as_secs_f64() * 1e3);
    }
    let delay =
        |second: usize| second_delays[second].iter().sum::<f64>() / second_delays[second].len().max(1) as f64;
    assert!(delay(1) < 2.5 && second_delays[1].len() == 100, "near: {} ms", delay(1));
    assert!(delay(75) > delay(1) && second_delays[75].len() == 100, "at 110 m: slower, nothing lost");
    assert!(second_delays[seconds as usize - 2].len() < 10, "at 200 m: gone");
    assert!(bench.dropped(DropCause::Arq) > 100);
    assert_eq!(bench.pipe.model().arq, Some(DEFAULT_ARQ));
}

#[test]
fn a_walk_out_and_back_restores_the_model() {
    let away = Walk { to_m: 130.0, ..Walk::default() };
    let back = Walk { from_m: away.to_m, to_m: away.from_m, ..away };
    let channel = GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.01, loss_bad: 0.4 };
    for loss in [LossModel::Independent(0.02), LossModel::GilbertElliott(channel)] {
        let model = LinkModel { loss: loss.clone(), ..rate(40_000_000) };
        let mut bench = Bench::new(model.clone(), 1);
        bench.pipe.follow(at(ms(0)), away.changes(&model).unwrap());
        bench.poll(Duration::from_secs(100));
        let far = bench.pipe.model().clone();
        assert_eq!(far.rate, RateModel::Constant(3_333_333));
        bench.pipe.follow(at(Duration::from_secs(100)), back.changes(&far).unwrap());
        bench.poll(Duration::from_secs(200));
        let RateModel::Constant(rate_bps) = bench.pipe.model().rate else { panic!() };
        assert!(rate_bps.abs_diff(40_000_000) < 10, "{rate_bps}");
        let losses = |model: &LossModel| match model {
            LossModel::Independent(loss) => [*loss, *loss],
            LossModel::GilbertElliott(channel) => [channel.loss_good, channel.loss_bad],
            _ => panic!(),
        };
        for (now, before) in losses(&bench.pipe.model().loss).into_iter().zip(losses(&loss)) {
            assert!((now - before).abs() < 1e-6, "{now} {before}");
        }
    }
}

#[test]
fn a_walk_changes_only_affected_parameters_and_once_a_step_at_most() {
    let schedule = Walk::default().changes(&rate(10_000_000)).unwrap();
    assert!(schedule.changes.is_sorted_by(|(a, _), (b, _)| *b - *a >= ms(50)));
    let rates = schedule.changes.iter().filter(|(_, change)| change.rate.is_some()).count();
    assert!((4..=8).contains(&rates), "one for each MCS: {rates}");
    let unlimited = Walk::default().changes(&wire()).unwrap();
    assert!(unlimited.changes.iter().all(|(_, change)| change.rate.is_none()));
}

#[test]
fn ramps_end_at_their_targets() {
    for from_bps in [100_000_000, 500_000] {
        let ramp =
            Ramp { duration: ms(1_050), rate_bps: Some(1_000_000), loss: Some(0.5), delay: Some(ms(200)) };
        let model = LinkModel { delay: constant(ms(20)), ..rate(from_bps) };
        let schedule = ramp.changes(&model).unwrap();
        assert_eq!(schedule.changes.last().unwrap().0, ms(1_050));
        let (rate, loss) = last(&schedule);
        assert_eq!(rate, Some(RateModel::Constant(1_000_000)));
        assert_eq!(loss, Some(LossModel::Independent(0.5)));
        let halfway = schedule.changes.iter().find(|(at, _)| *at == ms(500)).unwrap();
        let Some(RateModel::Constant(halfway_bps)) = halfway.1.rate else { panic!() };
        let expected = from_bps as f64 + (1_000_000.0 - from_bps as f64) * 500.0 / 1_050.0;
        assert!((halfway_bps as f64 / expected - 1.0).abs() < 1e-6, "{from_bps}: {halfway_bps}");
    }
}

/// A link of 10 Mbit/s and 20 ms whose delay goes to 120 ms within ten seconds, halfway.
fn halfway_to_120_ms() -> Bench {
    let model = LinkModel { delay: constant(ms(20)), ..rate(10_000_000) };
    let ramp = Ramp { duration: ms(10_000), rate_bps: None, loss: None, delay: Some(ms(120)) };
    let mut bench = Bench::new(model.clone(), 1);
    bench.pipe.follow(at(ms(0)), ramp.changes(&model).expect("a ramp of the delay"));
    bench.poll(ms(5_000));
    assert_eq!(base_delay(&bench, 5_000), ms(70));
    bench
}

fn base_delay(bench: &Bench, after_ms: u64) -> Duration {
    bench.pipe.base_delay(at(ms(after_ms)))
}

/// Regression: jitter and base delay were one parameter, so that each step of the fade put back the jitter of its begin.
#[test]
fn a_change_leaves_the_fades_of_other_parameters_alone() {
    let mut bench = halfway_to_120_ms();
    let limit = QueueLimit::Packets(7);
    let change = LinkChange {
        jitter: Some(ms(3)),
        queue: Some(limit),
        ecn: Some(true),
        loss: Some(LossModel::Independent(0.5)),
        ..LinkChange::default()
    };
    bench.change(ms(5_000), &change);
    for (after_ms, delay_ms) in [(5_000, 70), (7_500, 95), (10_000, 120), (20_000, 120)] {
        bench.poll(ms(after_ms));
        assert_eq!(base_delay(&bench, after_ms), ms(delay_ms));
        let model = bench.pipe.model();
        assert_eq!((model.jitter, model.queue, model.ecn), (ms(3), limit, true));
        assert_eq!(model.loss, LossModel::Independent(0.5));
    }
}

/// Regression: the fade's next step undid the change.
#[test]
fn a_change_ends_the_fade_of_its_parameter() {
    let mut bench = halfway_to_120_ms();
    bench.change(ms(5_000), &delay_change(ms(33)));
    bench.poll(ms(20_000));
    assert_eq!(base_delay(&bench, 20_000), ms(33));
}

/// Regression: a second fade ended the first, also when it changed another key.
#[test]
fn a_second_fade_takes_the_place_of_the_first_for_its_own_parameters() {
    let ramp = Ramp { duration: ms(1_000), rate_bps: Some(1_000_000), loss: Some(0.25), delay: None };
    let mut bench = halfway_to_120_ms();
    let present = bench.pipe.model().clone();
    bench.pipe.follow(at(ms(5_000)), ramp.changes(&present).unwrap());
    bench.poll(ms(7_500));
    assert_eq!(base_delay(&bench, 7_500), ms(95));
    let back = Ramp { rate_bps: None, loss: None, delay: Some(ms(45)), ..ramp };
    let present = bench.pipe.model().clone();
    bench.pipe.follow(at(ms(7_500)), back.changes(&present).unwrap());
    bench.poll(ms(8_000));
    assert_eq!(base_delay(&bench, 8_000), ms(70), "from the value in force");
    bench.poll(ms(20_000));
    assert_eq!(base_delay(&bench, 20_000), ms(45));
    let model = bench.pipe.model();
    assert_eq!((&model.rate, &model.loss), (&RateModel::Constant(1_000_000), &LossModel::Independent(0.25)));
}

/// Regression: any change of the delay's parameters began the trace anew.
#[test]
fn a_change_of_the_jitter_does_not_restart_a_trace_of_the_delay() {
    let steps = vec![(ms(0), ms(10)), (ms(1_000), ms(50))];
    let delay = BaseDelay::Schedule(Arc::new(Steps { steps, end: ScheduleEnd::Hold }));
    let mut bench = Bench::new(LinkModel { delay, ..wire() }, 1);
    bench.change(ms(2_000), &LinkChange { jitter: Some(Duration::ZERO), ..LinkChange::default() });
    assert_eq!(base_delay(&bench, 2_000), ms(50));
}

#[test]
fn models_that_cannot_fade_are_rejected_with_the_reason() {
    let trace = RateModel::Opportunities(Arc::new(OpportunitySchedule { at_ms: vec![1] }));
    let traced = Walk::default().changes(&LinkModel { rate: trace, ..wire() });
    assert_eq!(traced, Err(FadingError::Traced { what: "rate" }));
    for (walk, name) in [
        (Walk { speed_mps: 0.0, ..Walk::default() }, "speed"),
        (Walk { to_m: f64::NAN, ..Walk::default() }, "to"),
        (Walk { exponent: 99.0, ..Walk::default() }, "exponent"),
    ] {
        match walk.changes(&wire()) {
            Err(FadingError::Parameter { name: named, .. }) => assert_eq!(named, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let slow = Walk { speed_mps: 0.001, ..Walk::default() };
    assert!(matches!(slow.changes(&wire()), Err(FadingError::TooLong { .. })));
}
