//! The headline of a result: the gain over the best single path, and the stalls of a failover.

use pathbench_analysis::comparison::summarise_runs;
use pathbench_record::direction::Direction;
use pathbench_record::document::{
    DirectionRecord, Gain, Headline, Impact, MultipathRecord, PathRecord, ResultDocument, RunRecord, Verdict,
};
use pathbench_record::event::EventKind;

/// A run over `paths` with a goodput in upload and download.
fn run(label: &str, repetition: u32, [upload, download]: [f64; 2], paths: &[&str]) -> RunRecord {
    let direction = |direction, goodput| DirectionRecord {
        direction,
        goodput_mbps: Some(goodput),
        delivered_bytes: 1_000_000,
        stall_ms: None,
        delay_ms: None,
    };
    let path = |name: &&str| PathRecord { name: (*name).to_owned(), ..PathRecord::default() };
    RunRecord {
        transport: label.split('@').next().unwrap().parse().unwrap(),
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        repetition,
        valid: true,
        completed: true,
        goodput_mbps: Some(upload + download),
        directions: vec![direction(Direction::Upload, upload), direction(Direction::Download, download)],
        multipath: MultipathRecord { used: paths.len() > 1, ..MultipathRecord::default() },
        paths: paths.iter().map(path).collect(),
        ..RunRecord::default()
    }
}

/// `wlan` is the better path in download, `lte` in upload.
fn study(repetitions: u32) -> Vec<RunRecord> {
    let of_repetition = |repetition| {
        let drift = 1.0 + f64::from(repetition) / 50.0;
        [
            run("tcp@wlan", repetition, [10.0 * drift, 40.0 * drift], &["wlan"]),
            run("tcp@lte", repetition, [20.0 * drift, 30.0 * drift], &["lte"]),
            run("mptcp", repetition, [30.0 * drift, 70.0 * drift], &["wlan", "lte"]),
        ]
    };
    (1..=repetitions).flat_map(of_repetition).collect()
}

fn headline(runs: Vec<RunRecord>) -> Headline {
    let mut document = ResultDocument { runs, ..ResultDocument::default() };
    summarise_runs(&mut document);
    document.summary.headline.unwrap()
}

fn gains(runs: Vec<RunRecord>) -> [Gain; 2] {
    headline(runs).gains.try_into().unwrap()
}

#[test]
fn the_best_single_path_is_the_best_measured_one_of_each_direction() {
    let [download, upload] = gains(study(8));
    for (gain, direction, best, ratio) in
        [(download, Direction::Download, "tcp@wlan", 1.75), (upload, Direction::Upload, "tcp@lte", 1.5)]
    {
        assert_eq!((gain.direction, gain.best_single.as_deref()), (direction, Some(best)));
        assert!((gain.ratio.unwrap() - ratio).abs() < 1e-9, "{gain:?}");
        let [low, high] = gain.ci95.unwrap();
        assert!(low <= gain.ratio.unwrap() && gain.ratio.unwrap() <= high);
        assert_eq!((gain.pairs, gain.runs, gain.multipath_used), (8, 8, 8));
        assert_eq!((gain.verdict, gain.pairs_needed), (Some(Verdict::Different), None));
    }
}

/// Regression: the shuffle of the runs decided which direction came first.
#[test]
fn the_order_of_gains_does_not_depend_on_the_order_of_runs() {
    let suite = |reverse: bool| {
        let mut runs = Vec::new();
        for (pattern, direction) in
            [("throughput-upload", Direction::Upload), ("throughput-download", Direction::Download)]
        {
            for mut run in study(2) {
                run.pattern = pattern.to_owned();
                run.directions.retain(|one| one.direction == direction);
                runs.push(run);
            }
        }
        if reverse {
            runs.reverse();
        }
        gains(runs).map(|gain| (gain.label, gain.direction))
    };
    let expected = [Direction::Download, Direction::Upload].map(|one| ("mptcp".to_owned(), one));
    assert_eq!((suite(false), suite(true)), (expected.clone(), expected));
}

#[test]
fn few_pairs_name_the_number_that_decides() {
    for gain in gains(study(3)) {
        assert_eq!((gain.ci95, gain.verdict), (None, Some(Verdict::CannotTell)));
        assert_eq!((gain.pairs, gain.pairs_needed), (3, Some(6)));
    }
}

#[test]
fn no_gain_is_computed_unless_every_path_was_measured_alone() {
    let without = |change: fn(&mut RunRecord)| {
        let mut runs = study(6);
        runs.iter_mut().filter(|run| run.label == "tcp@lte").for_each(change);
        gains(runs)
    };
    let changes: [fn(&mut RunRecord); 4] = [
        |run| run.completed = false,
        |run| run.valid = false,
        |run| run.warm_up = true,
        |run| run.directions.clear(),
    ];
    for change in changes {
        for gain in without(change) {
            assert_eq!((gain.ratio, gain.ci95, gain.verdict), (None, None, None), "{gain:?}");
            assert_eq!(gain.not_alone, ["lte"]);
        }
    }
    let never_begun: Vec<RunRecord> = study(6).into_iter().filter(|run| run.label != "tcp@lte").collect();
    assert!(gains(never_begun).iter().all(|gain| gain.ratio.is_none() && gain.not_alone == ["lte"]));
}

#[test]
fn the_goodput_of_one_path_is_no_gain_of_two() {
    let mut runs = study(6);
    for run in &mut runs {
        run.multipath.used = false;
    }
    for gain in gains(runs) {
        assert_eq!((gain.ratio, gain.runs, gain.multipath_used), (None, 6, 0));
    }
    let mut partly = study(6);
    partly[2].multipath.used = false;
    assert!(gains(partly).iter().all(|gain| (gain.runs, gain.multipath_used) == (6, 5)));
}

#[test]
fn quic_is_no_baseline_of_mptcp() {
    let mut runs = study(6);
    for run in runs.iter_mut().filter(|run| run.label == "tcp@lte") {
        run.label = "quic@lte".to_owned();
        run.transport = "quic".parse().unwrap();
    }
    assert!(gains(runs).iter().all(|gain| gain.ratio.is_none() && gain.not_alone == ["lte"]));
}

#[test]
fn an_unbound_label_measured_the_path_of_its_connection() {
    let mut runs = study(6);
    for run in runs.iter_mut().filter(|run| run.label == "tcp@wlan") {
        run.label = "tcp".to_owned();
    }
    let [download, _] = gains(runs);
    assert_eq!((download.best_single.as_deref(), download.not_alone.len()), (Some("tcp"), 0));
}

#[test]
fn runs_with_a_failure_have_a_failover_and_no_gain() {
    let mut runs = study(3);
    for run in runs.iter_mut().filter(|run| run.label != "tcp@lte") {
        let impact = |stall_ms| Impact {
            direction: Direction::Upload,
            kind: EventKind::Down,
            path: Some("wlan".to_owned()),
            at_ms: 1000.0,
            before_mbps: None,
            settled_mbps: None,
            dip: None,
            recovery_ms: None,
            stall_ms: Some(stall_ms),
        };
        let late = f64::from(run.repetition) * 100.0;
        run.impacts = vec![impact(late), impact(late + 50.0)];
        run.completed = run.label == "mptcp";
    }
    let found = headline(runs);
    assert!(found.gains.is_empty());
    let parts: Vec<_> =
        found.failovers.iter().map(|one| (one.label.as_str(), one.runs, one.failed, one.stall_ms)).collect();
    assert_eq!(parts, [("tcp@wlan", 3, 3, None), ("mptcp", 3, 0, Some(250.0))]);
}
