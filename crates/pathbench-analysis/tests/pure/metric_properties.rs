//! Properties of the metrics for any deliveries and any events.

use pathbench_analysis::binning::ByteCurve;
use pathbench_analysis::metrics::{DirectionAnalysis, Disturbance, Measurement, PathCurves, analyse};
use pathbench_record::delivery::{DeliverySeries, SHORTEST_GAP};
use pathbench_record::direction::Direction;
use pathbench_record::event::{EventKind, PathEffect};
use pathbench_record::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

/// A run in microseconds from the zero of its clock.
#[derive(Debug, Clone)]
struct Run {
    deliveries: Vec<(u64, u64)>,
    offered: Option<Vec<(u64, u64)>>,
    omit: u64,
    duration: Option<u64>,
    gave_up_after: Option<u64>,
    events: Vec<(u64, usize, bool)>,
    counters: Vec<(u64, bool, u64)>,
}

const KINDS: [&str; 6] = ["down", "up", "blackhole", "restore", "set", "remove-address"];

/// Deliveries that look like traffic: steady stretches, pauses and bursts.
fn deliveries() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let stretch = (0_u64..900_000, 1_u64..400, 100_u64..9_000, 1_u64..20_000);
    prop::collection::vec(stretch, 0..8).prop_map(|stretches| {
        let mut now = 0;
        let mut deliveries = Vec::new();
        for (pause, count, wait, bytes) in stretches {
            now += pause;
            for _ in 0..count {
                deliveries.push((now, bytes));
                now += wait;
            }
        }
        deliveries
    })
}

fn runs() -> impl Strategy<Value = Run> {
    (
        deliveries(),
        prop::option::of(deliveries()),
        prop_oneof![3 => Just(0_u64), 1 => 0_u64..2_000_000],
        prop::option::of(100_000_u64..8_000_000),
        prop::option::of(0_u64..3_000_000),
        prop::collection::vec((0_u64..9_000_000, 0..KINDS.len(), any::<bool>()), 0..5),
        prop::collection::vec((0_u64..9_000_000, any::<bool>(), 0_u64..1_000_000), 0..12),
    )
        .prop_map(|(deliveries, offered, omit, duration, gave_up_after, events, counters)| Run {
            deliveries,
            offered,
            omit,
            duration,
            gave_up_after,
            events,
            counters,
        })
}

fn series(origin: Timestamp, records: &[(u64, u64)]) -> DeliverySeries {
    let mut series = DeliverySeries::starting_at(origin);
    for &(micros, bytes) in records {
        series.record(origin + Duration::from_micros(micros), bytes);
    }
    series
}

impl Run {
    /// When the receiver stopped watching, in microseconds.
    fn end(&self) -> u64 {
        self.deliveries.last().map_or(0, |&(at, _)| at) + self.gave_up_after.unwrap_or(0)
    }

    fn analyse(&self, origin: Timestamp) -> DirectionAnalysis {
        let at = |micros| origin + Duration::from_micros(micros);
        let disturbances: Vec<Disturbance> = self
            .events
            .iter()
            .map(|&(micros, kind, wlan)| Disturbance {
                at: at(micros),
                kind: KINDS[kind].into(),
                path: Some(if wlan { "wlan" } else { "eth" }.to_owned()),
                disruptive: EventKind::from(KINDS[kind]).is_disruptive(),
                effect: EventKind::from(KINDS[kind]).path_effect(),
            })
            .collect();
        let mut counters = self.counters.clone();
        counters.sort_unstable();
        let paths = PathCurves::new([("wlan", true), ("eth", false)].map(|(path, wanted)| {
            let points = counters.iter().filter(|(_, wlan, _)| *wlan == wanted);
            let points = points.map(|&(micros, _, bytes)| (at(micros), bytes));
            (path.to_owned(), ByteCurve::from_counter(origin, points))
        }));
        analyse(&Measurement {
            origin,
            omit: Duration::from_micros(self.omit),
            duration: self.duration.map(Duration::from_micros),
            direction: Direction::Download,
            deliveries: &series(origin, &self.deliveries),
            offered: self.offered.as_ref().map(|offered| series(origin, offered)).as_ref(),
            gave_up: self.gave_up_after.map(|_| at(self.end())),
            disturbances: &disturbances,
            paths: &paths,
        })
    }
}

const ORIGIN: Timestamp = Timestamp::from_nanos(5_000_000_000_000);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn figures_stay_within_what_they_can_be(run in runs()) {
        let analysis = run.analyse(ORIGIN);
        let end_ms = run.end() as f64 / 1e3;
        prop_assert!(analysis.stall_ms.unwrap_or(0.0) <= end_ms + 1e-6);
        prop_assert!(analysis.measured_bytes <= analysis.delivered_bytes);
        for impact in &analysis.impacts {
            let remaining = end_ms - impact.at_ms;
            prop_assert!(impact.dip.is_none_or(|dip| (0.0..=1.0).contains(&dip)));
            prop_assert!(impact.recovery_ms.is_none_or(|ms| ms >= 0.0 && ms + 500.0 <= remaining + 1e-6));
            if let (Some(dip), Some(recovery_ms)) = (impact.dip, impact.recovery_ms) {
                prop_assert!(dip <= 0.1 + 1e-9 || recovery_ms > 0.0, "a dip and no recovery time: {:?}", impact);
                prop_assert!(dip >= 0.1 - 1e-9 || recovery_ms == 0.0, "no dip and a recovery time: {:?}", impact);
            }
            prop_assert!(impact.stall_ms.is_none_or(|ms| ms <= analysis.stall_ms.unwrap_or(0.0) + 1e-6));
        }
    }

    #[test]
    fn goodput_times_window_is_the_bytes(run in runs()) {
        let analysis = run.analyse(ORIGIN);
        if let (Some(goodput), Some(window)) = (analysis.goodput_mbps, analysis.window) {
            let bytes = goodput * 1e6 / 8.0 * window.length_ms() / 1e3;
            prop_assert!((bytes - analysis.measured_bytes as f64).abs() < 1e-3 + 1e-9 * bytes);
            if run.omit == 0 && run.duration.is_none() {
                prop_assert_eq!(analysis.measured_bytes, analysis.delivered_bytes);
            }
        }
    }

    #[test]
    fn phases_cover_the_window_and_its_bytes(run in runs()) {
        let analysis = run.analyse(ORIGIN);
        let Some(window) = analysis.window else {
            prop_assert!(analysis.phases.is_empty());
            return Ok(());
        };
        let mut now = window.from.ms_from(ORIGIN);
        let mut bytes = 0.0;
        for phase in &analysis.phases {
            prop_assert!((phase.from_ms - now).abs() < 1e-6, "{phase:?} does not begin at {now}");
            prop_assert!(phase.to_ms > phase.from_ms);
            bytes += phase.goodput_mbps * (phase.to_ms - phase.from_ms) * 125.0;
            now = phase.to_ms;
            let shares: f64 = phase.shares.values().sum();
            prop_assert!(phase.shares.is_empty() || (shares - 1.0).abs() < 1e-9);
        }
        prop_assert!((now - window.until.ms_from(ORIGIN)).abs() < 1e-6);
        prop_assert!((bytes - analysis.measured_bytes as f64).abs() < 2.0, "{bytes} {}", analysis.measured_bytes);
    }

    #[test]
    fn the_duration_and_the_goodput_of_a_whole_transfer_fit_each_other(mut run in runs()) {
        let whole = run.analyse(ORIGIN);
        prop_assert!(whole.window.is_none_or(|window| window.length_ms() <= whole.duration_ms + 1e-6));
        (run.omit, run.duration) = (0, None);
        let analysis = run.analyse(ORIGIN);
        if let Some(goodput_mbps) = analysis.goodput_mbps {
            let mean_mbps = analysis.delivered_bytes as f64 * 8e-3 / analysis.duration_ms;
            prop_assert!((goodput_mbps - mean_mbps).abs() <= 1e-6 * mean_mbps.max(1.0), "{analysis:?}");
        }
    }

    #[test]
    fn shifting_all_times_shifts_nothing(run in runs(), by in 0_u64..10_000_000_000_000) {
        prop_assert_eq!(
            without_window(run.analyse(ORIGIN)),
            without_window(run.analyse(ORIGIN + Duration::from_nanos(by)))
        );
    }

    #[test]
    fn the_stall_is_the_longest_silence_where_data_is_always_outstanding(mut run in runs()) {
        run.offered = None;
        run.omit = 0;
        let mut moments = vec![0];
        moments.extend(run.deliveries.iter().map(|&(at, _)| at));
        if run.gave_up_after.is_some() {
            moments.push(run.end());
        }
        let longest = moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let longest = Duration::from_micros(longest);
        let stall = run.analyse(ORIGIN).stall_ms;
        if longest > SHORTEST_GAP {
            prop_assert_eq!(stall, Some(longest.as_nanos() as f64 / 1e6));
        } else {
            prop_assert!(stall.unwrap_or(0.0) <= longest.as_nanos() as f64 / 1e6 + 1e-9);
        }
    }

    #[test]
    fn knowing_what_was_offered_never_lengthens_a_stall(run in runs()) {
        let unknown = Run { offered: None, ..run.clone() };
        // The sender's first byte may come before the zero of the clock only in theory; here it does not.
        let (known, unknown) = (run.analyse(ORIGIN).stall_ms, unknown.analyse(ORIGIN).stall_ms);
        prop_assert!(known.unwrap_or(0.0) <= unknown.unwrap_or(0.0) + 1e-9, "{known:?} {unknown:?}");
    }

    #[test]
    fn times_out_of_all_proportion_do_not_panic(
        nanos in prop::collection::vec(prop_oneof![0..50_u64, u64::MAX - 50..=u64::MAX, 0_u64..9_000_000_000], 8),
        bytes in prop::collection::vec(0_u64..u64::MAX / 100, 0..40),
    ) {
        let at = |index: usize| Timestamp::from_nanos(nanos[index]);
        let deliveries = DeliverySeries {
            origin: at(0),
            bytes,
            first: Some(at(1)),
            last: Some(at(2)),
            gaps: vec![pathbench_record::delivery::Gap { from: at(3), until: at(4) }],
        };
        let disturbances =
            [Disturbance { at: at(5), kind: "down".into(), path: None, disruptive: true, effect: PathEffect::Worse }];
        let analysis = analyse(&Measurement {
            origin: at(6),
            omit: Duration::ZERO,
            duration: None,
            direction: Direction::Upload,
            deliveries: &deliveries,
            offered: Some(&deliveries),
            gave_up: Some(at(7).min(at(6) + Duration::from_secs(20))),
            disturbances: &disturbances,
            paths: &PathCurves::empty(),
        });
        prop_assert!(analysis.goodput_mbps.is_none_or(f64::is_finite));
    }
}

/// Everything but the absolute times.
fn without_window(mut analysis: DirectionAnalysis) -> DirectionAnalysis {
    analysis.window = None;
    analysis
}
