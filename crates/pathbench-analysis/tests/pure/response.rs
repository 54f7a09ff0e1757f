//! Latency under load: probes by phase, the increase over idle, goodput of a phase, and RPM by hand.

use pathbench_analysis::metrics::{PathCurves, ResponseInput, phase_at, responsiveness};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::DataDirection;
use pathbench_record::document::ResponsivenessRecord;
use pathbench_record::response::{
    ForeignOpening, LoadPhase, LoadProbe, ProbeAbsence, ProbeKind, ResponseRecord, ResponsivenessParameters,
};
use pathbench_record::time::Timestamp;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1 << 40) + Duration::from_millis(ms)
}

/// Idle until 1 s; download from 1.1 s to 3.1 s, measured from 2.1 s.
fn parameters() -> ResponsivenessParameters {
    ResponsivenessParameters {
        idle: 1000 * MS,
        load: 2000 * MS,
        settle: 1000 * MS,
        pause: 100 * MS,
        phases: vec![DataDirection::Download],
        ..ResponsivenessParameters::default()
    }
}

/// A probe every 100 ms from `from`, with these delays; `None` is lost.
fn probes(kind: ProbeKind, path: Option<&str>, from: u64, delays_ms: &[Option<u64>]) -> Vec<LoadProbe> {
    let probe = |(index, delay): (u64, &Option<u64>)| {
        let due = at(from + 100 * index);
        let answered = delay.map(|delay| due + Duration::from_millis(delay));
        LoadProbe { kind, path: path.map(str::to_owned), sequence: index as u32, due, answered }
    };
    (0..).zip(delays_ms).map(probe).collect()
}

fn analyse(response: &ResponseRecord, ended: Timestamp, setup_round_trips: u32) -> ResponsivenessRecord {
    let mut deliveries = DeliverySeries::starting_at(at(0));
    // 8 Mbit/s in the measured part, nothing before.
    for ms in 2100..3100 {
        deliveries.record(at(ms), 1000);
    }
    responsiveness(&ResponseInput {
        parameters: &parameters(),
        response,
        ended,
        deliveries: [None, Some(&deliveries)],
        paths: [&PathCurves::empty(), &PathCurves::empty()],
        setup_round_trips,
    })
}

fn response() -> ResponseRecord {
    let own = [vec![Some(20); 10], vec![Some(50); 11], vec![Some(200); 10]].concat();
    let opening = |phase, ms| ForeignOpening { phase, took: Some(Duration::from_millis(ms)), error: None };
    ResponseRecord {
        begun: at(0),
        probes: [
            probes(ProbeKind::Own, None, 0, &own),
            probes(ProbeKind::Foreign, None, 2100, &[Some(100), Some(100), None, Some(100)]),
            probes(ProbeKind::Path, Some("wlan"), 2100, &[Some(90), None, Some(95)]),
        ]
        .concat(),
        openings: vec![opening(LoadPhase::Idle, 20), opening(LoadPhase::Download, 200)],
        absent: Vec::new(),
    }
}

#[test]
fn a_probe_belongs_to_the_phase_in_whose_measured_part_it_was_due() {
    let windows = parameters().windows();
    let phases = [0, 999, 1000, 1500, 2099, 2100, 3099, 3100].map(|ms| phase_at(&windows, at(0), at(ms)));
    let (idle, download) = (Some(LoadPhase::Idle), Some(LoadPhase::Download));
    assert_eq!(phases, [idle, idle, None, None, None, download, download, None]);
}

#[test]
fn delays_are_by_kind_and_phase_and_the_slow_start_is_in_none() {
    let record = analyse(&response(), at(6000), 1);
    let idle = &record.own[&LoadPhase::Idle];
    assert_eq!((idle.sent, idle.lost, idle.p50_ms, idle.increase_p50_ms), (10, 0, Some(20.0), None));
    let loaded = &record.own[&LoadPhase::Download];
    assert_eq!((loaded.sent, loaded.p50_ms, loaded.p95_ms), (10, Some(200.0), Some(200.0)));
    assert_eq!((loaded.increase_p50_ms, loaded.increase_p95_ms), (Some(180.0), Some(180.0)));
    let foreign = &record.foreign[&LoadPhase::Download];
    assert_eq!((foreign.sent, foreign.lost, foreign.p50_ms), (4, 1, Some(100.0)));
    // Without a foreign probe while idle there is no increase.
    assert_eq!(foreign.increase_p50_ms, None);
    let path = &record.path["wlan"][&LoadPhase::Download];
    assert_eq!((path.sent, path.lost, path.p50_ms, path.p99_ms), (3, 1, Some(90.0), Some(95.0)));
    assert_eq!(record.loaded(ProbeKind::Own, |delay| delay.p50_ms), Some(200.0));
    assert_eq!(record.idle(ProbeKind::Own, |delay| delay.p50_ms), Some(20.0));
    let phase = &record.phases[&LoadPhase::Download];
    assert_eq!((phase.from_ms, phase.measured_from_ms, phase.to_ms), (1100.0, 2100.0, 3100.0));
    assert!((phase.download_mbps.unwrap() - 8.0).abs() < 0.1, "{phase:?}");
    assert_eq!((phase.upload_mbps, phase.foreign_setup_ms), (None, Some(200.0)));
}

#[test]
fn rpm_is_the_mean_of_both_rates_with_each_round_trip_of_the_set_up() {
    let rpm = |round_trips| analyse(&response(), at(6000), round_trips).phases[&LoadPhase::Download].rpm;
    // Without TLS: 60000 / ((200 + 100) / 2) = 400 and 60000 / 200 = 300; with TLS: 60000 / ((200 + 100) / 3) = 600.
    assert_eq!(rpm(1), Some(350.0));
    assert_eq!(rpm(2), Some(450.0));
    // No foreign probe while idle.
    assert_eq!(analyse(&response(), at(6000), 1).phases[&LoadPhase::Idle].rpm, None);
}

#[test]
fn the_slowest_twentieth_does_not_count_in_the_rpm() {
    let mut one_slow = response();
    one_slow.probes.retain(|probe| probe.kind != ProbeKind::Own);
    let delays: Vec<Option<u64>> = (0..20).map(|index| Some(if index == 7 { 5000 } else { 200 })).collect();
    let mut own = probes(ProbeKind::Own, None, 0, &delays);
    for (index, probe) in own.iter_mut().enumerate() {
        let delay = probe.round_trip().unwrap();
        probe.due = at(2100 + 40 * index as u64);
        probe.answered = Some(probe.due + delay);
    }
    one_slow.probes.extend(own);
    assert_eq!(analyse(&one_slow, at(9000), 1).phases[&LoadPhase::Download].rpm, Some(350.0));
}

#[test]
fn a_phase_that_did_not_begin_is_absent_and_a_missing_kind_has_its_reason() {
    let absent = ProbeAbsence { probe: ProbeKind::Foreign, reason: "refused".to_owned() };
    let response = ResponseRecord { absent: vec![absent.clone()], ..response() };
    let record = analyse(&response, at(1500), 1);
    assert_eq!(record.phases.keys().collect::<Vec<_>>(), [&LoadPhase::Idle]);
    assert!(!record.own.contains_key(&LoadPhase::Download));
    assert_eq!(record.not_examined, [absent]);
}
