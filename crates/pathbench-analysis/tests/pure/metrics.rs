//! The metrics on deliveries whose outcome can be worked out by hand. The examples of docs/metrics.md are here
//! with the same numbers.

use pathbench_analysis::binning::{ByteCurve, Window};
use pathbench_analysis::metrics::{
    DirectionAnalysis, Disturbance, Measurement, PathCurves, analyse, combine,
};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::document::Impact;
use pathbench_record::event::EventKind;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Zero of the run's clock, somewhere on the machine's.
const ORIGIN: Timestamp = Timestamp::from_nanos(77_000_123_456_789);

/// Bytes per millisecond at 100 Mbit/s.
const FULL: u64 = 12_500;

static NO_PATHS: PathCurves = PathCurves::empty();

fn at(ms: f64) -> Timestamp {
    ORIGIN + Duration::from_nanos((ms * 1e6) as u64)
}

/// One delivery per millisecond from 0 to `until_ms` (excluded), of `bytes(ms)` bytes.
fn delivered(until_ms: u64, bytes: impl Fn(u64) -> u64) -> DeliverySeries {
    let mut series = DeliverySeries::starting_at(ORIGIN);
    for ms in 0..until_ms {
        series.record(at(ms as f64), bytes(ms));
    }
    series
}

fn event(ms: f64, kind: &str, path: &str) -> Disturbance {
    Disturbance {
        at: at(ms),
        kind: kind.into(),
        path: Some(path.to_owned()),
        disruptive: EventKind::from(kind).is_disruptive(),
        effect: EventKind::from(kind).path_effect(),
    }
}

fn upload<'a>(deliveries: &'a DeliverySeries, disturbances: &'a [Disturbance]) -> Measurement<'a> {
    Measurement {
        origin: ORIGIN,
        omit: Duration::ZERO,
        duration: Some(Duration::from_secs(10)),
        direction: Direction::Upload,
        deliveries,
        offered: None,
        gave_up: None,
        disturbances,
        paths: &NO_PATHS,
    }
}

fn only_impact(analysis: &DirectionAnalysis) -> &Impact {
    assert_eq!(analysis.impacts.len(), 1, "{analysis:?}");
    &analysis.impacts[0]
}

#[track_caller]
fn close(found: impl Into<Option<f64>>, expected: f64, tolerance: f64) {
    let found = found.into();
    let near = found.is_some_and(|found| (found - expected).abs() <= tolerance);
    assert!(near, "found {found:?}, expected {expected} ± {tolerance}");
}

#[test]
fn an_outage_is_measured_to_the_microsecond() {
    for (outage, dip) in [(50, 0.5), (100, 1.0), (270, 1.0), (1000, 1.0), (3000, 1.0)] {
        let gone = 3000..3000 + outage;
        let deliveries = delivered(10_000, |ms| if gone.contains(&ms) { 0 } else { FULL });
        let events = [event(3000.0, "down", "wlan"), event(7000.0, "up", "wlan")];
        let analysis = analyse(&upload(&deliveries, &events));
        let impact = only_impact(&analysis);
        close(analysis.stall_ms, outage as f64 + 1.0, 1e-9);
        // The event's impact is counted from the event on, 1 ms after the last byte.
        close(impact.stall_ms, outage as f64, 1e-9);
        close(impact.recovery_ms, outage as f64, 1e-9);
        close(impact.dip, dip, 0.005);
        close(impact.at_ms, 3000.0, 1e-9);
        assert_eq!((impact.kind.name(), impact.path.as_deref()), ("down", Some("wlan")));
        assert!(analysis.notes.is_empty() && analysis.hung_ms.is_none());
    }
}

#[test]
fn goodput_is_bytes_over_measured_time() {
    let deliveries = delivered(10_500, |_| FULL);
    let by_time = analyse(&upload(&deliveries, &[]));
    // 10 s of 100 Mbit/s and the byte that comes at the very end of it; what drains afterwards does not count.
    close(by_time.goodput_mbps, 100.0, 0.02);
    close(by_time.window.map(Window::length_ms), 10_000.0, 1e-9);
    assert_eq!(by_time.delivered_bytes, 10_500 * FULL);

    let by_bytes = analyse(&Measurement { duration: None, ..upload(&deliveries, &[]) });
    assert_eq!(by_bytes.measured_bytes, 10_500 * FULL);
    close(by_bytes.window.map(Window::length_ms), 10_499.0, 1e-9);
    close(by_bytes.duration_ms, 10_499.0, 1e-9);
}

/// TCP recovers from a black hole after 6.8 s of 10.
#[test]
fn a_connection_that_delivers_late_is_measured_from_its_planned_start() {
    let mut deliveries = DeliverySeries::starting_at(ORIGIN);
    for ms in 6800..10_000 {
        deliveries.record(at(f64::from(ms)), FULL);
    }
    let analysis = analyse(&upload(&deliveries, &[]));
    close(analysis.goodput_mbps, 32.0, 0.05);
    close(analysis.stall_ms, 6800.0, 1e-9);
}

#[test]
fn warm_up_counts_in_nothing() {
    // A second at a tenth of the rate with a hole of 300 ms in it, then full rate.
    let deliveries = delivered(10_000, |ms| match ms {
        500..800 => 0,
        0..1000 => FULL / 10,
        _ => FULL,
    });
    let cold = analyse(&upload(&deliveries, &[]));
    close(cold.stall_ms, 301.0, 1e-9);
    close(cold.goodput_mbps, 90.7, 0.05);
    let warm = analyse(&Measurement { omit: Duration::from_secs(1), ..upload(&deliveries, &[]) });
    close(warm.stall_ms, 0.0, 1e-9);
    close(warm.goodput_mbps, 100.0, 0.02);
    close(warm.phases[0].from_ms, 1000.0, 1e-9);
    assert_eq!(warm.delivered_bytes, deliveries.total_bytes());
}

#[test]
fn a_loss_of_half_of_the_capacity_is_no_dip_and_has_no_recovery() {
    let deliveries = delivered(10_000, |ms| if ms < 3000 { FULL } else { FULL / 2 });
    let events = [event(3000.0, "down", "wlan")];
    let analysis = analyse(&upload(&deliveries, &events));
    let impact = only_impact(&analysis);
    close(impact.before_mbps, 100.0, 1e-6);
    close(impact.settled_mbps, 50.0, 0.1);
    close(impact.dip, 0.0, 0.002);
    close(impact.recovery_ms, 0.0, 1e-9);
    close(impact.stall_ms, 0.0, 1e-9);
}

/// Once both runs "recovered after 0 ms", one of them beside a dip of 53 %: the dip was against both paths' goodput, the
/// recovery against that of the path that was left.
#[test]
fn a_dip_below_the_remaining_capacity_differs_from_none() {
    let figures = |deliveries: &DeliverySeries| {
        let events = [event(3000.0, "down", "wlan")];
        let impact = only_impact(&analyse(&upload(deliveries, &events))).clone();
        (impact.dip.unwrap(), impact.recovery_ms.unwrap())
    };
    let at_once = |ms| match ms {
        0..3000 => FULL,
        // Packets in flight, then the other path alone with its ordinary fluctuation.
        3000..3040 => FULL * 6 / 10,
        3100..3200 => FULL * 47 / 100,
        _ => FULL / 2,
    };
    let (dip, recovery_ms) = figures(&delivered(10_000, at_once));
    close(recovery_ms, 0.0, 1e-9);
    assert!(dip < 0.1, "{dip}");
    let after_a_while = |ms| if (3020..3320).contains(&ms) { FULL / 10 } else { at_once(ms) };
    let (dip, recovery_ms) = figures(&delivered(10_000, after_a_while));
    close(dip, 0.8, 0.002);
    close(recovery_ms, 310.0, 10.0);
}

#[test]
fn a_rate_that_grows_after_the_event_is_compared_with_what_was_before() {
    let deliveries = delivered(10_000, |ms| match ms {
        0..3000 => FULL / 2,
        3000..6000 => FULL / 2 + (FULL / 2) * (ms - 3000) / 3000,
        _ => FULL,
    });
    let events = [event(3000.0, "set", "wlan")];
    let analysis = analyse(&upload(&deliveries, &events));
    close(only_impact(&analysis).dip, 0.0, 1e-6);
    close(only_impact(&analysis).recovery_ms, 0.0, 1e-9);
}

#[test]
fn a_slow_ramp_recovers_when_its_window_reaches_nine_tenths() {
    // After the event 10 % of the rate, then 30 % more each second, full from 3 s on: the 100 ms window whose
    // mean is 90 % lies around (0.9 − 0.1) ÷ 0.3 = 2.667 s and so begins at 2.617 s, on the 10 ms grid at 2.62.
    let deliveries = delivered(8000, |ms| match ms {
        3000..6000 => FULL / 10 + (FULL * 9 / 10) * (ms - 3000) / 3000,
        _ => FULL,
    });
    let events = [event(3000.0, "set", "wlan")];
    let analysis = analyse(&upload(&deliveries, &events));
    close(only_impact(&analysis).recovery_ms, 2620.0, 10.0);
    close(only_impact(&analysis).dip, 0.885, 0.01);
}

#[test]
fn data_released_at_once_after_an_outage_is_no_recovery() {
    // 400 ms of silence, 300 ms of data from the reordering queue at once, a second at 60 %, then the full rate.
    let deliveries = delivered(8000, |ms| match ms {
        3000..3400 => 0,
        3400 => 300 * FULL,
        3401..4400 => FULL * 6 / 10,
        _ => FULL,
    });
    let events = [event(3000.0, "blackhole", "wlan")];
    let analysis = analyse(&upload(&deliveries, &events));
    close(only_impact(&analysis).stall_ms, 400.0, 1e-9);
    close(only_impact(&analysis).recovery_ms, 1375.0, 15.0);
}

#[test]
fn a_short_fluctuation_is_part_of_having_recovered_but_a_second_dip_is_not() {
    let second_dip_of = |percent: u64| {
        let deliveries = delivered(8000, |ms| match ms {
            3000..3200 => 0,
            3400..3500 => FULL * percent / 100,
            _ => FULL,
        });
        let events = [event(3000.0, "down", "wlan")];
        only_impact(&analyse(&upload(&deliveries, &events))).recovery_ms
    };
    close(second_dip_of(70), 200.0, 1e-9);
    close(second_dip_of(20), 500.0, 25.0);
}

/// Seen with mpquic: a silence of 118 ms across two windows of 100 ms, each still above half, was "recovered 0 ms"
/// beside a dip of 100 %.
#[test]
fn a_silence_across_two_windows_is_not_yet_recovered() {
    let deliveries = delivered(8000, |ms| if (3045..3163).contains(&ms) { 0 } else { FULL });
    let events = [event(3000.0, "down", "wlan")];
    let analysis = analyse(&upload(&deliveries, &events));
    close(only_impact(&analysis).dip, 1.0, 1e-9);
    close(only_impact(&analysis).recovery_ms, 163.0, 1.0);
}

#[test]
fn a_connection_that_dies_is_measured_until_it_is_given_up() {
    let deliveries = delivered(3000, |_| FULL);
    let events = [event(3000.0, "down", "wlan"), event(7000.0, "up", "wlan")];
    let analysis = analyse(&Measurement { gave_up: Some(at(8000.0)), ..upload(&deliveries, &events) });
    close(analysis.goodput_mbps, 100.0 * 3.0 / 8.0, 1e-6);
    close(analysis.duration_ms, 8000.0, 1e-9);
    close(analysis.stall_ms, 5001.0, 1e-9);
    close(analysis.hung_ms, 5001.0, 1e-9);
    let impact = only_impact(&analysis);
    assert_eq!((impact.dip, impact.recovery_ms), (Some(1.0), None));
    close(impact.stall_ms, 5000.0, 1e-9);
    assert_eq!(
        analysis.notes,
        ["upload: no recovery for `down wlan` at 3000 ms: nothing was delivered at the end of its phase"]
    );
    let names: Vec<&str> = analysis.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["start", "down wlan", "up wlan"]);
    close(analysis.phases[2].to_ms, 8000.0, 1e-9);
}

#[test]
fn a_connection_that_never_delivers_stalls_from_the_start() {
    let deliveries = DeliverySeries::starting_at(ORIGIN);
    let events = [event(100.0, "down", "wlan")];
    let analysis = analyse(&Measurement { gave_up: Some(at(4000.0)), ..upload(&deliveries, &events) });
    assert_eq!(analysis.goodput_mbps, Some(0.0));
    close(analysis.stall_ms, 4000.0, 1e-9);
    close(analysis.hung_ms, 4000.0, 1e-9);
    assert_eq!(only_impact(&analysis).dip, None);

    let nothing = analyse(&upload(&deliveries, &events));
    assert_eq!((nothing.goodput_mbps, nothing.stall_ms, nothing.hung_ms), (None, None, None));
    assert_eq!(nothing.phases, []);
}

#[test]
fn waiting_for_the_first_byte_is_a_stall() {
    let mut deliveries = DeliverySeries::starting_at(ORIGIN);
    for ms in 450..2000 {
        deliveries.record(at(f64::from(ms)), FULL);
    }
    close(analyse(&upload(&deliveries, &[])).stall_ms, 450.0, 1e-9);
    // The sender's first byte, where it is known, is later than the zero of the clock.
    let mut offered = DeliverySeries::starting_at(ORIGIN);
    offered.record(at(400.25), deliveries.total_bytes());
    let analysis = analyse(&Measurement { offered: Some(&offered), ..upload(&deliveries, &[]) });
    close(analysis.stall_ms, 49.75, 1e-9);
}

#[test]
fn a_stall_outlasts_the_event_that_ends_its_cause() {
    let deliveries = delivered(10_000, |ms| if (3000..9000).contains(&ms) { 0 } else { FULL });
    let events = [event(3000.0, "down", "wlan"), event(7000.0, "up", "wlan")];
    let analysis = analyse(&upload(&deliveries, &events));
    close(only_impact(&analysis).stall_ms, 6000.0, 1e-9);
    assert_eq!(only_impact(&analysis).recovery_ms, None);
}

#[test]
fn events_at_the_begin_and_after_the_end() {
    let deliveries = delivered(4000, |_| FULL);
    let events = [event(0.0, "down", "wlan"), event(4000.0, "down", "eth"), event(20_000.0, "set", "eth")];
    let analysis = analyse(&upload(&deliveries, &events));
    let [begin, end, late] = analysis.impacts.as_slice() else { panic!("{:?}", analysis.impacts) };
    assert_eq!((begin.dip, begin.recovery_ms), (None, Some(0.0)));
    for impact in [end, late] {
        assert_eq!((impact.dip, impact.recovery_ms, impact.stall_ms), (None, None, None));
    }
    assert_eq!(
        analysis.notes,
        [
            "upload: no dip for `down wlan` at 0 ms: less than 200 ms of data between it and what was before it",
            "upload: no impact for `down eth` at 4000 ms: no data was to be delivered after it",
            "upload: no impact for `set eth` at 20000 ms: no data was to be delivered after it",
        ]
    );
    let names: Vec<&str> = analysis.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["down wlan"]);
}

#[test]
fn a_phase_too_short_for_a_figure_says_so() {
    let deliveries = delivered(10_000, |_| FULL);
    let events = [
        event(3000.0, "down", "wlan"),
        event(3900.0, "up", "wlan"),
        event(4050.0, "down", "eth"),
        event(9950.0, "down", "eth"),
    ];
    let analysis = analyse(&upload(&deliveries, &events));
    let figures: Vec<_> =
        analysis.impacts.iter().map(|i| (i.dip.is_some(), i.recovery_ms.is_some())).collect();
    assert_eq!(figures, [(true, false), (false, true), (false, false)]);
    let expected = [
        "recovery for `down wlan` at 3000 ms: its phase lasted 900 ms, at least 1 s needed",
        "dip for `down eth` at 4050 ms: less than 200 ms of data between it and what was before it",
        "dip for `down eth` at 9950 ms: its phase lasted less than 100 ms",
        "recovery for `down eth` at 9950 ms: its phase lasted 49 ms, at least 1 s needed",
    ];
    assert_eq!(analysis.notes, expected.map(|why| format!("upload: no {why}")));
}

#[test]
fn events_of_one_moment_share_what_was_before_and_after() {
    let deliveries = delivered(10_000, |ms| if (3000..3500).contains(&ms) { 0 } else { FULL });
    let events = [event(3000.0, "down", "wlan"), event(3002.5, "set", "eth")];
    let analysis = analyse(&upload(&deliveries, &events));
    let [down, set] = analysis.impacts.as_slice() else { panic!("{:?}", analysis.impacts) };
    close(down.recovery_ms, 500.0, 1e-9);
    close(set.recovery_ms, 497.5, 1e-9);
    assert_eq!((down.dip, set.dip), (Some(1.0), Some(1.0)));
    let names: Vec<&str> = analysis.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["start", "down wlan, set eth"]);
}

/// 125 kB every 100 ms (10 Mbit/s), each with 5 ms delay plus `late` ms.
fn in_chunks(late: impl Fn(u64) -> f64) -> (DeliverySeries, DeliverySeries) {
    let mut offered = DeliverySeries::starting_at(ORIGIN);
    let mut deliveries = DeliverySeries::starting_at(ORIGIN);
    for chunk in 0..100 {
        let sent = chunk as f64 * 100.0;
        offered.record(at(sent), 125_000);
        deliveries.record(at(sent + 5.0 + late(chunk)), 125_000);
    }
    (offered, deliveries)
}

#[test]
fn a_pause_of_the_sender_is_no_stall() {
    let (offered, deliveries) = in_chunks(|_| 0.0);
    let events = [event(3050.0, "set", "wlan")];
    let measurement = Measurement { offered: Some(&offered), ..upload(&deliveries, &events) };
    let analysis = analyse(&measurement);
    close(analysis.stall_ms, 5.0, 1e-9);
    close(only_impact(&analysis).dip, 0.0, 1e-9);
    // Without knowing what was offered, each pause looks like a stall.
    close(analyse(&Measurement { offered: None, ..measurement }).stall_ms, 100.0, 1e-9);
}

#[test]
fn a_delayed_chunk_is_a_stall_of_its_delay() {
    // Chunk 31, sent at 3100 ms, and those behind it arrive when the path is back at 3800 ms.
    let (offered, deliveries) =
        in_chunks(|chunk| if (31..38).contains(&chunk) { 3795.0 - 100.0 * chunk as f64 } else { 0.0 });
    let events = [event(3050.0, "down", "wlan")];
    let analysis = analyse(&Measurement { offered: Some(&offered), ..upload(&deliveries, &events) });
    close(analysis.stall_ms, 700.0, 1e-9);
    close(only_impact(&analysis).stall_ms, 700.0, 1e-9);
    assert_eq!(only_impact(&analysis).dip, Some(1.0));
}

#[test]
fn a_connection_that_dies_idle_hung_but_did_not_stall() {
    let (offered, deliveries) = in_chunks(|_| 0.0);
    let measurement =
        Measurement { offered: Some(&offered), gave_up: Some(at(14_905.0)), ..upload(&deliveries, &[]) };
    let analysis = analyse(&measurement);
    close(analysis.stall_ms, 5.0, 1e-9);
    close(analysis.hung_ms, 5000.0, 1e-9);
}

#[test]
fn a_write_that_has_not_returned_is_outstanding() {
    // A block of 1 MB, recorded as offered when the socket had accepted all of it, which an outage delays.
    let deliveries = delivered(4000, |ms| if (1050..2000).contains(&ms) { 0 } else { FULL });
    let mut offered = DeliverySeries::starting_at(ORIGIN);
    let mut sum = 0;
    for ms in 0..4000_u64 {
        sum += if (1050..2000).contains(&ms) { 0 } else { FULL };
        if sum >= 1_000_000 || ms == 3999 {
            offered.record(at(ms as f64), sum);
            sum = 0;
        }
    }
    let analysis = analyse(&Measurement { offered: Some(&offered), ..upload(&deliveries, &[]) });
    close(analysis.stall_ms, 951.0, 1e-9);
}

#[test]
fn silences_too_short_to_be_recorded_show_as_empty_bins() {
    // Every 25th delivery comes after 15 ms of silence that covers one bin.
    let deliveries = delivered(5000, |ms| if (8..22).contains(&(ms % 1000)) { 0 } else { FULL });
    assert!(deliveries.gaps.is_empty());
    close(analyse(&upload(&deliveries, &[])).stall_ms, 10.0, 1e-9);
}

#[test]
fn shares_are_interpolated_to_the_bounds_of_a_phase() {
    let deliveries = delivered(10_001, |_| FULL);
    let counter = |path: &str, points: [(f64, u64); 3]| {
        let points = points.map(|(ms, bytes)| (at(ms), bytes));
        (path.to_owned(), ByteCurve::from_counter(ORIGIN, points))
    };
    // wlan carries a quarter until it goes down at 3000 ms, between two samples; eth carries the rest.
    let paths = PathCurves::new([
        counter("wlan", [(2950.0, 2950), (3050.0, 3050), (9000.0, 3050)]),
        counter("eth", [(2950.0, 8850), (3050.0, 9150), (9000.0, 50_000)]),
    ]);
    let events = [event(3000.0, "down", "wlan")];
    let analysis = analyse(&Measurement { paths: &paths, ..upload(&deliveries, &events) });
    let [start, down] = analysis.phases.as_slice() else { panic!("{:?}", analysis.phases) };
    close(start.shares["wlan"], 0.25, 1e-9);
    close(start.shares["eth"], 0.75, 1e-9);
    close(down.shares["wlan"], 50.0 / (50.0 + 41_000.0), 1e-9);
    close(start.goodput_mbps, 100.0, 1e-6);
    close(start.to_ms, 3000.0, 1e-9);
    close(down.to_ms, 10_000.0, 1e-9);
}

#[test]
fn directions_are_put_together_by_sum_and_by_the_worse_one() {
    let events = [event(3000.0, "down", "wlan")];
    let hole =
        |length: u64| delivered(10_000, move |ms| if (3000..3000 + length).contains(&ms) { 0 } else { FULL });
    let (one, other) = (hole(200), hole(50));
    let directions = [analyse(&upload(&one, &events)), analyse(&upload(&other, &events))];
    let run = combine(&directions);
    close(run.goodput_mbps, directions.iter().filter_map(|d| d.goodput_mbps).sum(), 1e-9);
    close(run.stall_ms, 201.0, 1e-9);
    close(run.recovery_ms, 200.0, 1e-9);
    assert_eq!((run.dip, run.hung_ms), (Some(1.0), None));
    assert_eq!(run.delivered_bytes, one.total_bytes() + other.total_bytes());

    let dead = delivered(3000, |_| FULL);
    let dead = analyse(&Measurement { gave_up: Some(at(9000.0)), ..upload(&dead, &events) });
    assert_eq!(combine(&[directions[0].clone(), dead]).recovery_ms, None, "one direction never recovered");
}

/// A record from elsewhere whose first byte lies long before its bins: the search for the recovery once went through all
/// of that time in steps of 10 ms.
#[test]
fn a_first_byte_long_before_its_bins_costs_no_time() {
    let mut deliveries = DeliverySeries::starting_at(Timestamp::from_nanos(u64::MAX / 2));
    for ms in 0..2000 {
        deliveries.record(deliveries.origin + Duration::from_millis(ms), FULL);
    }
    deliveries.first = Some(Timestamp::default());
    // Too early to have anything before it.
    let events = [Disturbance { at: Timestamp::from_nanos(1), ..event(0.0, "down", "wlan") }];
    let analysis = analyse(&Measurement { duration: None, ..upload(&deliveries, &events) });
    assert_eq!(only_impact(&analysis).recovery_ms, None);
}

#[test]
fn events_of_one_moment_belong_together() {
    let deliveries = delivered(10_000, |_| FULL);
    let events = [(400.0, "c"), (0.0, "a"), (99.0, "b"), (198.0, "d"), (298.0, "e")];
    let events = events.map(|(ms, path)| event(1000.0 + ms, "down", path));
    let analysis = analyse(&upload(&deliveries, &events));
    let names: Vec<&str> = analysis.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["start", "down a, down b, down d", "down e", "down c"]);
}
