//! A path that comes back, and a path that is dead before the connection is opened.

use crate::support::{TWO_PATHS, Workplace};
use pathbench_record::document::{DiagnosisKind, FailbackAbsence, OpeningOutcome};
use pathbench_record::event::EventSource;

#[test]
fn traffic_returns_to_a_path_that_it_needs_and_the_time_is_measured() {
    let rest = r#"
        [[event]]
        at = "1s"
        path = "wlan"
        action = "set"
        rate = "1mbit"
        [[event]]
        at = "2s"
        path = "wlan"
        action = "set"
        rate = "20mbit"
        [run]
        transports = ["mptcp"]
        duration = "4500ms"
        sample_interval = "50ms"
    "#;
    let measured =
        Workplace::new().lab_run("back", &format!("{TWO_PATHS}\n{rest}"), &["--no-calibration"]).expect(0);
    let run = measured.run("mptcp");
    let [failback] = &run.failbacks[..] else { panic!("{run:#?}") };
    assert_eq!((failback.kind.name(), failback.path.as_str()), ("set", "wlan"));
    let share = failback.share_before.unwrap();
    assert!((0.3..0.7).contains(&share), "{failback:?}");
    // The event itself was late by less than the machine's noise.
    assert!((1990.0..3000.0).contains(&failback.at_ms), "{failback:?}");
    let ms = failback.failback_ms.unwrap_or_else(|| panic!("{failback:?}"));
    assert!((0.0..=2000.0).contains(&ms) && run.failback_ms == Some(ms), "{failback:?}");
}

#[test]
fn a_first_path_that_is_dead_before_the_connection_is_named_as_the_cause() {
    let rest = r#"
        [[event]]
        at = "before-connect"
        path = "eth"
        action = "blackhole"
        [run]
        transports = ["mptcp", "mptcp@wlan"]
        duration = "500ms"
    "#;
    // A link without address resolution, which fails with another error after three seconds.
    let emulated = ["--set", "path.eth.engine=emulated", "--set", "path.wlan.engine=emulated"];
    let options = [&["--no-calibration", "--jobs", "2"][..], &emulated].concat();
    let measured = Workplace::new().lab_run("dead", &format!("{TWO_PATHS}\n{rest}"), &options);
    let dead = measured.run("mptcp");
    let opening = dead.opening.as_ref().unwrap();
    assert_eq!((opening.path.as_deref(), opening.outcome), (Some("eth"), OpeningOutcome::Timeout));
    assert!((4900.0..9000.0).contains(&opening.after_ms), "{opening:?}");
    assert_eq!((dead.completed, dead.connect_ms, dead.delivered_bytes), (false, None, 0));
    let [found] = &dead.diagnoses[..] else { panic!("{:#?}", dead.diagnoses) };
    assert_eq!((found.kind, found.path.as_str()), (DiagnosisKind::InitialPath, "eth"));
    assert!(found.because.contains("silent") && found.because.contains("before the first byte"), "{found:?}");
    assert!(found.remedy.contains("mptcp@wlan"), "{found:?}");
    for text in ["initial path eth", "timeout", "mptcp@wlan"] {
        assert!(dead.multipath.reason.contains(text), "{}", dead.multipath.reason);
    }

    let alive = measured.run("mptcp@wlan");
    assert!(
        alive.completed && alive.connect_ms.is_some() && alive.connect_ms == alive.handshake_ms,
        "{alive:#?}"
    );
    assert_eq!(alive.opening.as_ref().map(|one| one.outcome), Some(OpeningOutcome::Opened));
    // In effect before the first byte: its time is below zero, and it has no impact.
    let [event] = &measured.events_of(alive, EventSource::Scenario)[..] else { panic!("not one event") };
    assert!(event.t_ms < 0.0 && alive.impacts.is_empty(), "{event:?}");
    assert!(alive.failbacks.iter().all(|one| one.reason != Some(FailbackAbsence::NeverReturned)));
    assert!(
        alive.paths.iter().all(|path| path.name == "wlan" || path.bytes_delivered == 0),
        "{:?}",
        alive.paths
    );
}
