//! Properties of diagnoses for any series.

use super::*;
use proptest::prelude::*;

/// A stretch of a subflow's life.
#[derive(Debug, Clone)]
enum Stretch {
    Flowing(u32),
    Idle(u32),
    Stuck(u32, u64),
    Mss(u32),
    Heard,
    Closed,
}

fn stretch() -> impl Strategy<Value = Stretch> {
    prop_oneof![
        (1_u32..40).prop_map(Stretch::Flowing),
        (1_u32..40).prop_map(Stretch::Idle),
        (1_u32..60, 1_u64..200_000).prop_map(|(steps, bytes)| Stretch::Stuck(steps, bytes)),
        (536_u32..9000).prop_map(Stretch::Mss),
        Just(Stretch::Heard),
        Just(Stretch::Closed),
    ]
}

fn series(stretches: &[Stretch]) -> Series {
    stretches.iter().fold(Series::new(), |series, stretch| {
        let after = |steps: u32| series.t_ms + INTERVAL_MS * f64::from(steps);
        match *stretch {
            Stretch::Flowing(steps) => {
                let until_ms = after(steps);
                series.flowing(until_ms)
            }
            Stretch::Idle(steps) => {
                let until_ms = after(steps);
                series.idle(until_ms)
            }
            Stretch::Stuck(steps, bytes) => {
                let until_ms = after(steps);
                series.stuck(until_ms, bytes)
            }
            Stretch::Mss(mss_bytes) => series.changed(move |now| now.mss_bytes = mss_bytes),
            Stretch::Heard => {
                series.changed(|now| now.packets_received = now.packets_received.map(|n| n + 1))
            }
            Stretch::Closed => series.closed().changed(|now| now.state = PathState::Open),
        }
    })
}

/// When the words of an event begin their sentence part: `at 3.0 s`.
fn quoted_s(because: &str, claim: &str) -> Option<f64> {
    let before = because.split(claim).next().filter(|before| before.len() < because.len())?;
    before.rsplit(" at ").next()?.split(' ').next()?.parse().ok()
}

proptest! {
    /// One claim of a sentence, one event that it must agree with.
    #[test]
    fn no_sentence_contradicts_the_events(
        stretches in proptest::collection::vec(stretch(), 1..8),
        multipath: bool,
        changes in proptest::collection::vec((0_u32..12_000, any::<bool>(), 0_usize..3), 0..5),
        gave_up_ms in proptest::option::of(0_u32..12_000),
        arrivals in proptest::collection::vec((0_u32..12_000, 0_u64..200_000), 0..4),
    ) {
        const PAIRS: [(&str, &str); 3] = [("down", "up"), ("carrier-down", "carrier-up"), ("blackhole", "restore")];
        let series = series(&stretches);
        let mut case = if multipath { series.mptcp() } else { series.tcp() };
        let mut changes: Vec<_> = changes.into_iter().map(|(at_ms, back, pair)| {
            let source = if pair == 1 { EventSource::Link } else { EventSource::Scenario };
            event(source, f64::from(at_ms), if back { PAIRS[pair].1 } else { PAIRS[pair].0 }, "wlan")
        }).collect();
        changes.extend(gave_up_ms.map(|at_ms| event(EventSource::Observer, f64::from(at_ms), "gave-up", "")));
        changes.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        case.events = changes;
        case.samples.extend(arrivals.iter().map(|(t_ms, bytes_received)| Sample {
            side: Side::Server,
            ..sample(f64::from(*t_ms), PathFigures { bytes_received: *bytes_received, ..figures(1) })
        }));
        case.samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let is_back = |event: &&Event| PAIRS.iter().any(|(_, back)| event.kind.name() == *back);
        let last = case.events.iter().rfind(|event| event.source != EventSource::Observer);
        for one in case.diagnoses().iter().filter(|one| one.path == "wlan") {
            let text = format!("{one:?} {:?}", case.events);
            prop_assert!(!(one.remedy.contains("bring interface") && last.as_ref().is_some_and(is_back)), "{text}");
            let Some(back_s) = quoted_s(&one.because, " gave it back") else { continue };
            let back = case.events.iter().find(|event| (event.t_ms / 1e3 - back_s).abs() < 0.051 && is_back(event));
            prop_assert!(back.is_some(), "{text}");
            let back_ms = back_s * 1e3;
            prop_assert!(gave_up_ms.is_none_or(|ms| back_ms <= f64::from(ms) + 51.0), "{text}");
            if one.because.contains("nothing was acknowledged any more") {
                let most = |after: bool| {
                    let server = case.samples.iter().filter(|one| one.side == Side::Server);
                    let those = server.filter(|one| (one.t_ms > back_ms + 51.0) == after);
                    those.map(|one| one.figures.bytes_received).max().unwrap_or(0)
                };
                prop_assert!(most(true) <= most(false) + 2, "{text}");
            }
        }
    }

    #[test]
    fn diagnoses_are_in_order_and_say_everything(
        stretches in proptest::collection::vec(stretch(), 0..8),
        multipath: bool,
        at_ms in 0.0_f64..5000.0,
        kind in prop_oneof![Just("down"), Just("up"), Just("blackhole"), Just("set"), Just("first-byte")],
    ) {
        let series = series(&stretches);
        let end_ms = series.t_ms;
        let case = if multipath { series.mptcp() } else { series.tcp() };
        let found = case.with_event(event(EventSource::Scenario, at_ms, kind, "wlan")).diagnoses();
        prop_assert!(found.len() <= MOST_SILENCES + 1);
        for one in &found {
            prop_assert!(!one.because.is_empty() && !one.remedy.is_empty() && !one.remedy.contains('\n'));
            prop_assert!(one.from_ms.is_some() || one.to_ms.is_none());
            if let Some(from_ms) = one.from_ms {
                let to_ms = one.to_ms.unwrap_or(end_ms);
                prop_assert!(to_ms - from_ms >= SHORTEST_SILENCE_MS - 1e-6, "{one:?}");
            }
        }
        for two in found.windows(2).filter(|two| two[0].path == two[1].path) {
            prop_assert!(two[0].to_ms.is_some_and(|to_ms| two[1].from_ms.is_some_and(|from_ms| to_ms <= from_ms)));
        }
    }

    #[test]
    fn a_path_that_never_waits_for_a_second_is_sound(
        turns in proptest::collection::vec((1_u32..20, 1_u32..9, 1_u64..200_000), 1..12),
    ) {
        let mut series = Series::new();
        for (flowing, stuck, bytes) in turns {
            let until_ms = series.t_ms + INTERVAL_MS * f64::from(flowing);
            series = series.flowing(until_ms);
            series = series.stuck(until_ms + INTERVAL_MS * f64::from(stuck), bytes);
        }
        series.tcp().has_none();
    }

    #[test]
    fn a_black_hole_from_the_start_is_found_whatever_the_sizes(
        mss_bytes in 1300_u32..9000,
        segments in 1_u64..200,
        steps in 12_u32..200,
    ) {
        let mtu = |now: &mut PathFigures| (now.mss_bytes, now.pmtu_bytes) = (mss_bytes, mss_bytes + 52);
        let series = Series::new().changed(mtu).idle(100.0);
        let until_ms = 100.0 + INTERVAL_MS * f64::from(steps);
        let found = series.stuck(until_ms, segments * u64::from(mss_bytes)).mptcp().only();
        prop_assert_eq!(found.kind, DiagnosisKind::MtuBlackHole);
        prop_assert_eq!((found.from_ms, found.to_ms), (None, None));
    }
}
