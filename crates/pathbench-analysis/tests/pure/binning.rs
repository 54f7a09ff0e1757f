//! Bytes over time in bins and windows.

use pathbench_analysis::binning::*;
use pathbench_record::delivery::{BIN, DeliveryLine, DeliverySeries};
use pathbench_record::direction::Direction;
use pathbench_record::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000) + Duration::from_micros(micros)
}

fn bins(from: u64, until: u64, width_micros: u64) -> Bins {
    Bins::new(Window { from: at(from), until: at(until) }, Duration::from_micros(width_micros))
}

#[test]
fn a_single_byte_counts_at_its_own_time() {
    let mut series = DeliverySeries::starting_at(at(0));
    series.record(at(5_000), 7);
    series.record(at(105_000), 7);
    series.record(at(205_000), 7);
    let curve = ByteCurve::from_series(&series);
    assert!((curve.bytes_between(at(5_000), at(105_000)) - 7.0).abs() < 1e-9);
    assert!((curve.bytes_between(at(105_000), at(105_001)) - 7.0).abs() < 1e-9);
    // Half-open: a byte on an edge is in the bin that begins there, and in the last one that ends there.
    let counted: Vec<f64> = bins(5_000, 205_000, 100_000).bytes(&curve).collect();
    assert_eq!(counted, [7.0, 14.0]);
}

#[test]
fn the_last_bin_is_as_long_as_what_is_left() {
    let curve = ByteCurve::from_counter(at(0), [(at(1_060_000), 1_060_000)]);
    for (until, count, last) in [(1_060_000, 11, 60_000.0), (1_030_000, 10, 130_000.0), (20_000, 1, 20_000.0)]
    {
        let bins = bins(0, until, 100_000);
        assert_eq!(bins.count(), count);
        assert!(bins.mbps(&curve).iter().all(|mbps| (mbps - 8.0).abs() < 1e-9));
        assert!((bins.bytes(&curve).last().unwrap() - last).abs() < 1e-6);
    }
    assert_eq!(Bins::new(Window { from: at(5), until: at(5) }, Duration::ZERO).count(), 0);
}

/// The receiver's bins begin when it did, a few milliseconds before the first byte was sent. The first window of a
/// timeline once took in eleven of them: 1.05 Gbit/s on a link of 1 Gbit/s.
#[test]
fn no_window_holds_more_than_the_link_carries_in_it() {
    let zero = at(0);
    let mut series = DeliverySeries::starting_at(zero - Duration::from_millis(3));
    for micros in (1_000..1_000_000).step_by(100) {
        series.record(at(micros), 12_500);
    }
    let lines = DeliveryLine::of_series("r", Direction::Upload, &series, zero);
    let known = FirstAndLast { first: series.first, last: series.last };
    let curve = ByteCurve::from_lines(&lines, zero, known);
    let mbps = bins(0, 1_000_000, 100_000).mbps(&curve);
    assert!(mbps.iter().all(|mbps| *mbps <= 1_000.0 + 1e-6), "{mbps:?}");
    assert!((mbps.iter().sum::<f64>() - 9_990.0).abs() < 1e-6);
}

proptest! {
    #[test]
    fn the_curve_rises_from_nothing_to_everything(
        deliveries in prop::collection::vec((0_u64..60_000, 0_u64..5_000), 0..60),
        probes in prop::collection::vec(0_u64..4_000_000, 1..20),
    ) {
        let mut series = DeliverySeries::starting_at(at(1_000));
        let mut now = 0;
        for (wait, bytes) in deliveries {
            now += wait;
            series.record(at(now), bytes);
        }
        let curve = ByteCurve::from_series(&series);
        let mut probes = probes;
        probes.sort_unstable();
        let mut previous = 0.0;
        for probe in probes {
            let value = curve.bytes_before(at(probe));
            prop_assert!(value >= previous - 1e-6 && value <= series.total_bytes() as f64 + 1e-6);
            previous = value;
        }
        let whole = Window { from: at(0), until: at(now) };
        prop_assert!((curve.bytes_within(whole) - series.total_bytes() as f64).abs() < 1e-6);
    }

    /// However the receiver's bins lie to the bins of a figure: the bytes are the same, and none is moved further
    /// than the delivery bin that holds it.
    #[test]
    fn bins_conserve_bytes_whatever_the_origin(
        deliveries in prop::collection::vec((0_u64..30_000, 1_u64..50_000), 1..80),
        early_micros in 0_u64..25_000,
        width_micros in 1_000_u64..300_000,
        exact in any::<bool>(),
    ) {
        let zero = at(50_000);
        let mut arrivals = Vec::new();
        let mut now = 50_000;
        for (wait, bytes) in deliveries {
            now += wait;
            arrivals.push((at(now), bytes));
        }
        let mut series = DeliverySeries::starting_at(at(50_000 - early_micros));
        for &(at, bytes) in &arrivals {
            series.record(at, bytes);
        }
        let curve = if exact {
            ByteCurve::from_series(&series)
        } else {
            let lines = DeliveryLine::of_series("r", Direction::Upload, &series, zero);
            let known = FirstAndLast { first: series.first, last: series.last };
            ByteCurve::from_lines(&lines, zero, known)
        };
        let until = curve.end().unwrap().max(at(now));
        let bins = Bins::new(Window { from: zero, until }, Duration::from_micros(width_micros));
        let total: u64 = arrivals.iter().map(|(_, bytes)| bytes).sum();
        let counted: Vec<f64> = bins.bytes(&curve).collect();
        prop_assert!((counted.iter().sum::<f64>() - total as f64).abs() < 1e-3 || bins.count() == 0);
        let arrived = |from: Timestamp, until: Timestamp| -> f64 {
            arrivals.iter().filter(|(at, _)| (from..=until).contains(at)).map(|(_, bytes)| *bytes as f64).sum()
        };
        for (bin, counted) in bins.windows().zip(&counted) {
            let around = arrived(bin.from - BIN, bin.until + BIN);
            prop_assert!(*counted <= around + 1e-3, "{counted} in {bin:?}, {around} arrived around it");
            if bin.length_ms() > 20.0 {
                let inside = arrived(bin.from + BIN, bin.until - BIN);
                prop_assert!(*counted >= inside - 1e-3, "{counted} in {bin:?}, {inside} arrived well inside");
            }
        }
    }
}

#[test]
fn silence_is_measured_across_bins_and_at_both_ends() {
    let mut series = DeliverySeries::starting_at(at(0));
    for ms in (0..100).chain(218..400) {
        series.record(at(ms * 1000), 1000);
    }
    let curve = ByteCurve::from_series(&series);
    let silence = |from_ms: u64, until_ms: u64| {
        curve.longest_silence(at(from_ms * 1000), at(until_ms * 1000)).as_millis()
    };
    assert_eq!(silence(0, 390), 119);
    assert_eq!(silence(50, 160), 61);
    assert_eq!(silence(150, 300), 68);
    assert_eq!(silence(230, 390), 0);
    assert_eq!(silence(500, 600), 100);
}

#[test]
fn bytes_stay_out_of_silences() {
    let mut series = DeliverySeries::starting_at(at(0));
    series.record(at(2_000), 100);
    series.record(at(4_000), 100);
    series.record(at(38_000), 100);
    series.record(at(39_000), 100);
    let curve = ByteCurve::from_series(&series);
    assert!(curve.bytes_before(at(2_000)).abs() < 1e-9);
    assert!((curve.bytes_before(at(3_000)) - 100.0).abs() < 1e-9);
    assert!((curve.bytes_between(at(4_001), at(38_000))).abs() < 1e-9);
    assert!((curve.bytes_between(at(38_000), at(38_500)) - 100.0).abs() < 1e-9);
    assert_eq!(curve.next_byte(at(5_000)), Some(at(38_000)));
    assert_eq!(curve.next_byte(at(38_200)), Some(at(38_200)));
    assert_eq!(curve.next_byte(at(39_001)), None);
    let all = Window { from: at(2_000), until: at(39_000) };
    assert!((curve.bytes_within(all) - 400.0).abs() < 1e-9);
}
