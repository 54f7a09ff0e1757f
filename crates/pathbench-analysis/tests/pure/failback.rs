//! When a path carries its share again after an event that improved it: cases that can be worked out by hand, and
//! properties of any course. The examples of docs/metrics.md are here with the same numbers.

use pathbench_analysis::binning::{ByteCurve, Window};
use pathbench_analysis::metrics::{
    Demand, Disturbance, FailbackInput, PathCurves, failback_notes, failbacks, slowest_failback_ms,
};
use pathbench_record::direction::Direction;
use pathbench_record::document::{FailbackAbsence, FailbackRecord};
use pathbench_record::end::MessageRecord;
use pathbench_record::event::{EventKind, PathEffect};
use pathbench_record::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

const ORIGIN: Timestamp = Timestamp::from_nanos(77_000_123_456_789);
/// Bytes per millisecond of both paths together at 100 Mbit/s.
const FULL: u64 = 12_500;
/// Time between two samples, and the resolution of a failback.
const SAMPLE_MS: u64 = 100;

fn at(ms: i64) -> Timestamp {
    if ms < 0 {
        ORIGIN - Duration::from_millis(ms.unsigned_abs())
    } else {
        ORIGIN + Duration::from_millis(ms as u64)
    }
}

fn event(ms: i64, kind: &str, path: &str) -> Disturbance {
    let kind = EventKind::from(kind);
    let (disruptive, effect) = (kind.is_disruptive(), kind.path_effect());
    Disturbance { at: at(ms), kind, path: Some(path.to_owned()), disruptive, effect }
}

fn set(ms: i64, path: &str, effect: PathEffect) -> Disturbance {
    Disturbance { effect, ..event(ms, "set", path) }
}

/// Both paths' counters, sampled every 100 ms, of [`FULL`] times `rate(ms)`, of which `wlan` carries `share(ms)`.
fn curves(until_ms: u64, rate: impl Fn(u64) -> f64, share: impl Fn(u64) -> f64) -> PathCurves {
    let curve = |part: &dyn Fn(u64) -> f64| {
        let mut total = 0.0;
        let mut points = Vec::new();
        for ms in 0..until_ms {
            total += FULL as f64 * rate(ms) * part(ms);
            if (ms + 1) % SAMPLE_MS == 0 {
                points.push((at(ms as i64 + 1), total as u64));
            }
        }
        ByteCurve::from_counter(ORIGIN, points)
    };
    PathCurves::new([("wlan".to_owned(), curve(&share)), ("eth".to_owned(), curve(&|ms| 1.0 - share(ms)))])
}

fn found_with(
    paths: &PathCurves,
    events: &[Disturbance],
    demand: Demand<'_>,
    until_ms: i64,
) -> Vec<FailbackRecord> {
    failbacks(&FailbackInput {
        origin: ORIGIN,
        direction: Direction::Upload,
        measured: Some(Window { from: ORIGIN, until: at(until_ms) }),
        events,
        paths,
        demand,
    })
}

/// Ten seconds at the full rate; `wlan` carries `share(ms)`.
fn found(events: &[Disturbance], share: impl Fn(u64) -> f64) -> Vec<FailbackRecord> {
    found_with(&curves(10_000, |_| 1.0, share), events, Demand::Unlimited, 10_000)
}

fn outage() -> [Disturbance; 2] {
    [event(3000, "down", "wlan"), event(7000, "up", "wlan")]
}

#[track_caller]
fn only(found: &[FailbackRecord]) -> &FailbackRecord {
    assert_eq!(found.len(), 1, "{found:#?}");
    &found[0]
}

/// Share of `wlan` after 7000 ms → from when on it has its share again, or why not.
#[test]
fn a_path_is_back_when_it_keeps_its_share() {
    use FailbackAbsence::{EndedTooEarly, NeverReturned};
    type Course = fn(u64) -> f64;
    let cases: [(&str, Course, Result<f64, FailbackAbsence>); 9] = [
        ("at once", |_| 0.5, Ok(0.0)),
        ("after 300 ms", |ms| if ms < 7300 { 0.0 } else { 0.5 }, Ok(300.0)),
        ("10 % for a second, then all", |ms| if ms < 8000 { 0.1 } else { 0.5 }, Ok(1000.0)),
        ("to four fifths of it", |ms| if ms < 8000 { 0.1 } else { 0.41 }, Ok(1000.0)),
        ("to three quarters of it", |ms| if ms < 8000 { 0.1 } else { 0.375 }, Err(NeverReturned)),
        ("for 200 ms only, then again", |ms| if (7200..8500).contains(&ms) { 0.0 } else { 0.5 }, Ok(1500.0)),
        ("never", |_| 0.0, Err(NeverReturned)),
        ("with a tenth", |_| 0.05, Err(NeverReturned)),
        ("just before the end", |ms| if ms < 9600 { 0.0 } else { 0.5 }, Err(EndedTooEarly)),
    ];
    for (name, after, expected) in cases {
        let events = outage();
        let share = |ms: u64| match ms {
            0..3000 => 0.5,
            3000..7000 => 0.0,
            _ => after(ms),
        };
        let found = found(&events, share);
        let record = only(&found);
        assert_eq!(
            (record.kind.name(), record.path.as_str(), record.at_ms),
            ("up", "wlan", 7000.0),
            "{name}"
        );
        assert!(record.share_before.is_some_and(|share| (share - 0.5).abs() < 0.01), "{name}: {record:?}");
        match expected {
            Ok(expected) => {
                let ms = record.failback_ms.unwrap_or_else(|| panic!("{name}: {record:?}"));
                assert!((ms - expected).abs() <= SAMPLE_MS as f64, "{name}: {ms}, expected {expected}");
                assert_eq!(slowest_failback_ms(&found), Some(ms));
                assert!(
                    failback_notes(&found).is_empty() && record.reason.is_none() && record.because.is_none()
                );
            }
            Err(reason) => {
                assert_eq!((record.failback_ms, record.reason), (None, Some(reason)), "{name}: {record:?}");
                assert_eq!(slowest_failback_ms(&found), None);
                let [note] = &failback_notes(&found)[..] else { panic!("{name}: no note") };
                assert!(note.starts_with("upload: no failback for `up wlan` at 7000 ms: "), "{note}");
            }
        }
    }
}

#[test]
fn a_path_that_is_not_needed_differs_from_one_that_never_returns() {
    let share = |ms: u64| if ms < 3000 { 1.0 } else { 0.0 };
    let paths = curves(10_000, |_| 0.02, share);
    let delivered = |part: f64| {
        let points = (1..=100_u64)
            .map(|n| (at(n as i64 * 100), (n as f64 * 100.0 * FULL as f64 * 0.02 * part) as u64));
        ByteCurve::from_counter(ORIGIN, points)
    };
    for (part, expected) in [
        (1.0, FailbackAbsence::NotNeeded),
        (0.95, FailbackAbsence::NotNeeded),
        (0.5, FailbackAbsence::NeverReturned),
    ] {
        let delivered = delivered(part);
        let demand = Demand::Rate { bps: 2_000_000, delivered: &delivered };
        let found = found_with(&paths, &outage(), demand, 10_000);
        assert_eq!(only(&found).reason, Some(expected), "{part}: {found:?}");
    }
    // An application without a limit needs every path.
    let found = found_with(&paths, &outage(), Demand::Unlimited, 10_000);
    assert_eq!(only(&found).reason, Some(FailbackAbsence::NeverReturned));
    // A limited application whose data returns has a failback.
    let delivered = delivered(1.0);
    let back = curves(10_000, |_| 0.02, |ms| if (3000..7500).contains(&ms) { 0.0 } else { 1.0 });
    let found = found_with(&back, &outage(), Demand::Rate { bps: 2_000_000, delivered: &delivered }, 10_000);
    assert!(only(&found).failback_ms.is_some_and(|ms| (ms - 500.0).abs() <= 100.0), "{found:?}");
}

#[test]
fn messages_in_time_need_no_other_path() {
    let paths = curves(10_000, |_| 0.01, |ms| if ms < 3000 { 1.0 } else { 0.0 });
    for (delay_ms, expected) in [(40, FailbackAbsence::NotNeeded), (900, FailbackAbsence::NeverReturned)] {
        let message = |n: u32| MessageRecord {
            flow: Direction::Upload,
            sequence: n,
            due: at(i64::from(n) * 100),
            sent: None,
            acknowledged: Some(at(i64::from(n) * 100 + delay_ms)),
            answered: None,
        };
        let messages: Vec<MessageRecord> = (0..100).map(message).collect();
        let demand = Demand::Messages { messages: &messages, interval: Duration::from_millis(100) };
        let found = found_with(&paths, &outage(), demand, 10_000);
        assert_eq!(only(&found).reason, Some(expected), "{delay_ms}: {found:?}");
    }
}

#[test]
fn a_phase_that_ends_too_early_tells_nothing() {
    let share = |ms: u64| if ms < 3000 { 0.5 } else { 0.0 };
    for (up_ms, other_ms, until_ms) in [(9500, None, 10_000), (7000, Some(7600), 10_000), (9000, None, 8000)]
    {
        let mut events = vec![event(3000, "blackhole", "wlan"), event(up_ms, "restore", "wlan")];
        events.extend(other_ms.map(|ms| event(ms, "down", "eth")));
        let found = found_with(&curves(10_000, |_| 1.0, share), &events, Demand::Unlimited, until_ms);
        assert_eq!(only(&found).reason, Some(FailbackAbsence::EndedTooEarly), "{found:?}");
    }
}

#[test]
fn a_path_that_returns_twice_has_two_failbacks_and_the_run_the_slower() {
    let events = [
        event(2000, "down", "wlan"),
        event(3000, "up", "wlan"),
        event(6000, "blackhole", "wlan"),
        event(7000, "restore", "wlan"),
    ];
    let away = |ms: &u64| (2000..3200).contains(ms) || (6000..7800).contains(ms);
    let found = found(&events, |ms| if away(&ms) { 0.0 } else { 0.5 });
    let [first, second] = &found[..] else { panic!("{found:#?}") };
    assert!(first.failback_ms.is_some_and(|ms| (ms - 200.0).abs() <= 100.0), "{first:?}");
    assert!(second.failback_ms.is_some_and(|ms| (ms - 800.0).abs() <= 100.0), "{second:?}");
    assert_eq!(slowest_failback_ms(&found), second.failback_ms);
}

#[test]
fn the_last_of_several_steps_counts_and_the_share_is_that_before_the_first_loss() {
    let events = [
        set(2000, "wlan", PathEffect::Worse),
        set(3000, "wlan", PathEffect::Worse),
        set(5000, "wlan", PathEffect::Better),
        set(7000, "wlan", PathEffect::Better),
    ];
    let share = |ms: u64| match ms {
        2000..3000 | 5000..7400 => 0.2,
        3000..5000 => 0.1,
        _ => 0.5,
    };
    let found = found(&events, share);
    let record = only(&found);
    assert!((record.at_ms - 7000.0).abs() < 1e-9);
    assert!(record.share_before.is_some_and(|share| (share - 0.5).abs() < 0.01), "{record:?}");
    assert!(record.failback_ms.is_some_and(|ms| (ms - 400.0).abs() <= 100.0), "{record:?}");
    // A step that suffices ends the loss.
    let found = self::found(&events, |ms| if (2000..5000).contains(&ms) { 0.1 } else { 0.5 });
    assert!((only(&found).at_ms - 5000.0).abs() < 1e-9);
}

#[test]
fn a_path_is_better_when_nothing_interrupts_it_any_more() {
    let events = [
        event(3000, "down", "wlan"),
        event(3010, "remove-address", "wlan"),
        event(5000, "up", "wlan"),
        event(7000, "add-address", "wlan"),
    ];
    let found = found(&events, |ms| if (3000..7200).contains(&ms) { 0.0 } else { 0.5 });
    assert_eq!(only(&found).kind.name(), "add-address");
    // An event on another path, or on a link that is no path, is nobody's return.
    let others = [event(3000, "down", "eth"), Disturbance { path: None, ..event(7000, "up", "backbone") }];
    assert!(self::found(&others, |_| 0.5).is_empty());
    assert!(self::found(&[event(7000, "up", "wlan")], |_| 0.5).is_empty(), "nothing was lost");
}

#[test]
fn without_a_share_before_there_is_nothing_to_return_to() {
    let before_connect = [event(-5, "blackhole", "wlan"), event(3000, "restore", "wlan")];
    let unused = outage();
    let at_once = [event(100, "down", "wlan"), event(3000, "up", "wlan")];
    for events in [before_connect, unused, at_once] {
        let found = found(&events, |ms| if ms > 8000 { 0.5 } else { 0.001 });
        let record = only(&found);
        assert_eq!(
            (record.reason, record.share_before),
            (Some(FailbackAbsence::NoShareBefore), None),
            "{record:?}"
        );
    }
    let nothing = failbacks(&FailbackInput {
        origin: ORIGIN,
        direction: Direction::Download,
        measured: None,
        events: &outage(),
        paths: &PathCurves::empty(),
        demand: Demand::Unlimited,
    });
    assert_eq!(only(&nothing).reason, Some(FailbackAbsence::NoShareBefore));
}

const KINDS: [&str; 8] =
    ["down", "up", "blackhole", "restore", "remove-address", "add-address", "set", "fade"];

proptest! {
    /// A value or a reason, never both; a value lies within its phase, and the share is back at that moment.
    #[test]
    fn any_course_gives_a_value_or_a_reason(
        shares in prop::collection::vec(0.0..1.0_f64, 1..40),
        happened in prop::collection::vec((-500..10_500_i64, 0..KINDS.len(), any::<bool>(), 0..3_u8), 0..12),
    ) {
        let slot = 10_000 / shares.len() as u64 + 1;
        let paths = curves(10_000, |_| 1.0, |ms| shares[(ms / slot) as usize]);
        let events: Vec<Disturbance> = happened
            .iter()
            .map(|&(ms, kind, wlan, effect)| {
                let event = event(ms, KINDS[kind], if wlan { "wlan" } else { "eth" });
                let effects = [PathEffect::Worse, PathEffect::Better, PathEffect::Neutral];
                let effect = if kind < 6 { event.effect } else { effects[usize::from(effect)] };
                Disturbance { effect, ..event }
            })
            .collect();
        for record in found_with(&paths, &events, Demand::Unlimited, 10_000) {
            prop_assert_eq!(record.failback_ms.is_none(), record.reason.is_some());
            prop_assert_eq!(record.failback_ms.is_none(), record.because.is_some());
            prop_assert!(record.share_before.is_none_or(|share| (0.01..=1.0).contains(&share)));
            if let Some(ms) = record.failback_ms {
                prop_assert!(ms >= 0.0 && record.at_ms + ms <= 9_500.0 + 1e-6);
                let from = ORIGIN.plus_ms(record.at_ms.max(0.0) + ms);
                let back = paths.shares(from, from + Duration::from_millis(500));
                prop_assert!(back[&record.path] >= 0.79 * record.share_before.unwrap());
            }
        }
    }
}
