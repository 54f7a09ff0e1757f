//! The old kernel's rule of one MSS for all subflows: its published example, and its properties.

use pathbench_analysis::metrics::unified_mss::{SubflowWindow, apply, from_samples};
use pathbench_record::sample::{PathFigures, PathState, Side};
use pathbench_testkit::sample;
use proptest::prelude::*;
use std::net::SocketAddr;

fn subflow(path: &str, mss_bytes: u32, srtt_ms: f64, window_segments: f64) -> SubflowWindow {
    SubflowWindow { path: path.to_owned(), mss_bytes, srtt_ms, window_segments }
}

/// The example of the thesis: two subflows, 50 ms and 20 segments each.
fn example() -> [SubflowWindow; 2] {
    [subflow("A", 8960, 50.0, 20.0), subflow("B", 1460, 50.0, 20.0)]
}

fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 0.005
}

#[test]
fn the_worked_example_of_the_thesis() {
    let rule = apply(&example()).unwrap();
    let [large, small] = rule.candidates.as_slice() else { panic!("{:?}", rule.candidates) };
    assert_eq!((large.mss_bytes, small.mss_bytes), (8960, 1460));
    // Printed: 28.67 + 28.05 = 56.72. The formula gives 25.14 for the second subflow, since 8960 bytes take seven
    // segments of 1460: 8960² × 8 × 20 ÷ (50 000 × 10 220).
    assert!(is(large.subflows_mbps[0], 28.67), "{large:?}");
    assert!(is(large.subflows_mbps[1], 25.14), "{large:?}");
    assert!(is(large.total_mbps, 53.81), "{large:?}");
    assert!(!is(large.subflows_mbps[1], 28.05) && !is(large.total_mbps, 56.72), "{large:?}");
    // Printed: 0.76 + 4.67 = 5.43, as the formula gives.
    assert!(is(small.subflows_mbps[0], 0.76), "{small:?}");
    assert!(is(small.subflows_mbps[1], 4.67), "{small:?}");
    assert!(is(small.total_mbps, 5.43), "{small:?}");
    assert_eq!(rule.chosen_mss_bytes, 8960);
    assert!(is(rule.chosen_mbps, 53.81));
}

#[test]
fn a_segment_size_for_each_path_is_what_the_windows_really_carry() {
    let rule = apply(&example()).unwrap();
    assert!(is(rule.per_path_mbps[0], 28.67) && is(rule.per_path_mbps[1], 4.67), "{rule:?}");
    assert!(is(rule.per_path_total_mbps, 33.34), "{rule:?}");
}

#[test]
fn subflows_that_cannot_send_are_left_out() {
    let [large, small] = example();
    let unusable = [
        subflow("no mss", 0, 50.0, 20.0),
        subflow("no rtt", 1460, 0.0, 20.0),
        subflow("no window", 1460, 50.0, 0.0),
        subflow("nonsense", 1460, f64::NAN, 20.0),
    ];
    assert_eq!(apply(&unusable), None);
    assert_eq!(apply(&[]), None);
    let all: Vec<SubflowWindow> =
        [large.clone()].into_iter().chain(unusable).chain([small.clone()]).collect();
    assert_eq!(apply(&all), apply(&[large, small]));
}

fn figures(subflow: u32, mss_bytes: u32, cwnd_segments: u64, srtt_ms: f64, bytes_sent: u64) -> PathFigures {
    let address = SocketAddr::from(([10, 0, 0, 1], 1));
    PathFigures {
        subflow,
        state: PathState::Open,
        mss_bytes,
        cwnd_bytes: cwnd_segments * u64::from(mss_bytes),
        srtt_ms,
        bytes_sent,
        ..PathFigures::new(address, address)
    }
}

#[test]
fn a_runs_windows_are_the_medians_of_its_sending_end() {
    let mut samples = vec![
        sample(0.0, Side::Server, "wlan", figures(2, 536, 10, 90.0, 0)),
        sample(0.0, Side::Client, "eth", figures(1, 8948, 10, 40.0, 100_000)),
        sample(0.0, Side::Client, "eth", figures(1, 8948, 20, 50.0, 200_000)),
        sample(0.0, Side::Client, "eth", figures(1, 8948, 90, 60.0, 300_000)),
        // The path's MTU is learned after the first sample.
        sample(0.0, Side::Client, "wlan", figures(2, 8948, 1, 50.0, 8948)),
        sample(0.0, Side::Client, "wlan", figures(2, 1448, 30, 50.0, 90_000)),
        sample(0.0, Side::Client, "wlan", figures(2, 1448, 30, 50.0, 180_000)),
        // Never had a round-trip time, and a subflow beside the busy one.
        sample(0.0, Side::Client, "lte", figures(3, 1448, 10, 0.0, 0)),
        sample(0.0, Side::Client, "wlan", figures(4, 1448, 2, 10.0, 10)),
    ];
    // Bytes in flight count where they exceed the window.
    samples[2].figures.in_flight_bytes = 25 * 8948;
    let found = from_samples(&samples, "r");
    assert_eq!(found, [subflow("eth", 8948, 50.0, 25.0), subflow("wlan", 1448, 50.0, 30.0)]);
    assert_eq!(from_samples(&samples, "another"), []);
}

proptest! {
    #[test]
    fn the_rule_takes_the_best_of_its_candidates_and_promises_no_less_than_one_path(
        subflows in proptest::collection::vec((536_u32..9000, 0.05_f64..500.0, 1_u32..2000), 1..5),
    ) {
        let subflows: Vec<SubflowWindow> = subflows
            .into_iter()
            .map(|(mss, srtt_ms, window)| subflow("p", mss, srtt_ms, f64::from(window)))
            .collect();
        let rule = apply(&subflows).unwrap();
        for candidate in &rule.candidates {
            prop_assert!(candidate.total_mbps <= rule.chosen_mbps);
            let sum: f64 = candidate.subflows_mbps.iter().sum();
            prop_assert!((sum - candidate.total_mbps).abs() <= sum * 1e-9);
        }
        prop_assert!(rule.candidates.iter().any(|one| one.mss_bytes == rule.chosen_mss_bytes));
        // With its own MSS for all, a subflow is expected to reach its rate alone.
        let largest = rule.per_path_mbps.iter().copied().fold(0.0, f64::max);
        prop_assert!(rule.chosen_mbps >= largest * (1.0 - 1e-9));
    }
}
