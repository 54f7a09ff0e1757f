//! Bytes per path, from samples.

use pathbench_analysis::metrics::PathCurves;
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::time::Timestamp;
use std::time::Duration;

const ZERO: Timestamp = Timestamp::from_nanos(9_000_000_000);

fn at(ms: u64) -> Timestamp {
    ZERO + Duration::from_millis(ms)
}

fn sample(t_ms: f64, path: &str, stream: u32, subflow: u32, bytes_received: u64) -> Sample {
    let address = ([10, 0, 0, 1], 5201).into();
    let figures =
        PathFigures { subflow, state: PathState::Open, bytes_received, ..PathFigures::new(address, address) };
    Sample { stream, ..pathbench_testkit::sample(t_ms, Side::Server, path, figures) }
}

#[test]
fn a_path_has_all_its_subflows_and_streams() {
    let samples = [
        sample(100.0, "wlan", 0, 1, 50),
        sample(100.0, "wlan", 1, 1, 7),
        sample(100.0, "eth", 0, 2, 1000),
        // The first subflow on wlan is closed; a new one replaces it.
        sample(200.0, "wlan", 0, 3, 20),
        sample(-10.0, "wlan", 0, 1, 0),
    ];
    let curves = PathCurves::from_samples(&samples, ZERO, |figures| figures.bytes_received);
    let found = [0, 50, 100, 150, 200, 900].map(|ms| {
        let values = curves.values_at(at(ms));
        (values["wlan"].round() as u64, values["eth"].round() as u64)
    });
    assert_eq!(found, [(5, 91), (31, 545), (57, 1000), (67, 1000), (77, 1000), (77, 1000)]);
}

#[test]
fn a_closed_subflow_that_is_summed_up_counts_once() {
    let mut summed = sample(300.0, "wlan", 0, 1, 57);
    summed.figures.closed_paths = Some(2);
    let samples = [
        sample(100.0, "wlan", 0, 1, 50),
        sample(200.0, "wlan", 0, 1, 50),
        sample(200.0, "wlan", 0, 2, 7),
        summed,
        sample(300.0, "wlan", 0, 3, 20),
    ];
    let curves = PathCurves::from_samples(&samples, ZERO, |figures| figures.bytes_received);
    let found = [100, 200, 300].map(|ms| curves.values_at(at(ms))["wlan"].round() as u64);
    assert_eq!(found, [50, 57, 77]);
}

/// Regression: the bytes of a path that is back were spread over the whole time without it.
#[test]
fn a_path_that_returns_has_carried_nothing_meanwhile() {
    let samples = [
        sample(100.0, "wlan", 0, 1, 50),
        sample(100.0, "eth", 0, 2, 100),
        sample(200.0, "eth", 0, 2, 200),
        sample(300.0, "eth", 0, 2, 300),
        sample(400.0, "eth", 0, 2, 400),
        sample(400.0, "wlan", 0, 3, 20),
        sample(500.0, "wlan", 0, 3, 30),
    ];
    let curves = PathCurves::from_samples(&samples, ZERO, |figures| figures.bytes_received);
    let found = [100, 200, 300, 350, 400, 500].map(|ms| curves.values_at(at(ms))["wlan"].round() as u64);
    assert_eq!(found, [50, 50, 50, 60, 70, 80]);
}

#[test]
fn counters_are_linear_between_samples() {
    let samples =
        [(0.0, 0), (100.0, 1000), (200.0, 1000)].map(|(t_ms, bytes)| sample(t_ms, "a", 0, 1, bytes));
    let curves = PathCurves::from_samples(&samples, ZERO, |figures| figures.bytes_received);
    let found = [50, 150, 900].map(|ms| curves.values_at(at(ms))["a"]);
    assert!(
        found.iter().zip([500.0, 1000.0, 1000.0]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-9),
        "{found:?}"
    );
    assert!(curves.values_at(ZERO - Duration::from_millis(5))["a"].abs() < 1e-9);
}

#[test]
fn a_path_that_carried_nothing_has_a_share_of_nothing() {
    let samples =
        [sample(100.0, "eth", 0, 1, 100), sample(200.0, "eth", 0, 1, 400), sample(200.0, "wlan", 0, 2, 0)];
    let curves = PathCurves::from_samples(&samples, ZERO, |figures| figures.bytes_received);
    assert_eq!(curves.shares(at(0), at(150)), [("eth".to_owned(), 1.0), ("wlan".to_owned(), 0.0)].into());
    assert!(curves.shares(at(200), at(500)).is_empty(), "after the last sample nothing is known to arrive");
}
