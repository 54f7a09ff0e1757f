//! The end of a study before its last run.

use pathbench_lab::study::ending::{Pace, StoppingRule, is_precise};
use pathbench_record::document::RunRecord;
use pathbench_record::time::Timestamp;
use std::time::Duration;

fn runs(label: &str, goodputs: &[f64]) -> Vec<RunRecord> {
    let run = |&goodput: &f64| RunRecord {
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        valid: true,
        goodput_mbps: Some(goodput),
        ..RunRecord::default()
    };
    goodputs.iter().map(run).collect()
}

#[test]
fn a_study_is_precise_when_every_interval_is_narrow() {
    let narrow = runs("tcp", &[96.0, 98.0, 99.0, 101.0, 102.0, 104.0]);
    let wide = runs("mptcp", &[90.0, 98.0, 99.0, 101.0, 102.0, 104.0]);
    for (case, runs, percent, expected) in [
        ("narrow", narrow.clone(), 5.0, true),
        ("the margin is exact", narrow.clone(), 3.9, false),
        ("five runs have no interval", narrow[..5].to_vec(), 50.0, false),
        ("one side is too wide", wide.clone(), 5.0, false),
        ("one group is too wide", [narrow.clone(), wide.clone()].concat(), 5.0, false),
        ("both are narrow enough", [narrow.clone(), wide].concat(), 10.0, true),
        ("no run", Vec::new(), 5.0, false),
    ] {
        assert_eq!(is_precise(runs.iter(), percent), expected, "{case}");
    }
    let mut invalid = narrow.clone();
    invalid[0].valid = false;
    assert!(!is_precise(invalid.iter(), 5.0), "an invalid run is not used");
    let mut warm_up = narrow.clone();
    warm_up.extend(runs("tcp", &[1.0, 2.0]));
    for run in warm_up.iter_mut().skip(6) {
        run.leave_out_as_warm_up();
    }
    assert!(is_precise(warm_up.iter(), 5.0));
    // Bulk data is judged by its flow completion time.
    let mut bulk = narrow;
    for run in &mut bulk {
        (run.pattern, run.fct_ms) = ("bulk".to_owned(), None);
    }
    assert!(!is_precise(bulk.iter(), 5.0));
}

#[test]
fn a_run_is_expected_to_take_as_long_as_the_longest_of_its_kind() {
    let s = Duration::from_secs;
    let mut pace = Pace::new(s(5));
    assert_eq!(pace.expected_time(&"tcp", Some(s(10))), s(15), "before the first run");
    assert_eq!(pace.expected_time(&"tcp", None), s(5));
    pace.add("tcp", s(12), Some(s(10)));
    pace.add("tcp", s(11), Some(s(10)));
    assert_eq!(pace.expected_time(&"tcp", Some(s(10))), s(12));
    assert_eq!(pace.expected_time(&"mptcp", Some(s(10))), s(12), "the overhead of others");
    assert_eq!(pace.expected_time(&"bulk", None), s(12));
}

#[test]
fn a_study_ends_on_time_and_is_judged_once_per_repetition() {
    let s = Duration::from_secs;
    let begun = Timestamp::from_nanos(0) + s(100);
    let mut ending = StoppingRule::new(begun, Some(s(60)), Some(5.0));
    assert!(!ending.is_late(begun + s(50), s(10)));
    assert!(ending.is_late(begun + s(50), s(11)));
    let judged: Vec<_> =
        [0, 0, 1, 1, 2].into_iter().map(|complete| ending.precision_after(complete)).collect();
    assert_eq!(judged, [Some(5.0), None, Some(5.0), None, Some(5.0)]);
    let mut endless = StoppingRule::new(begun, None, None);
    assert!(!endless.is_late(begun + s(1_000_000), s(1)) && endless.precision_after(3).is_none());
}
