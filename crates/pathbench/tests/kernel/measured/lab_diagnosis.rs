//! Diagnoses of unused paths in results, on the real kernel; used paths have no diagnosis.

use crate::support::Workplace;
use crate::support::measured::{Measured, measure_in_parallel};
use pathbench_record::document::{DiagnosisKind, PathDiagnosis, RunRecord};
use pathbench_record::event::EventSource;
use pathbench_record::sample::Side;

/// Two paths with jumbo frames; `wlan` has a hop between two routers.
const A_HOP: &str = r#"
    [[path]]
    name = "eth"
    rate = "20mbit"
    mtu = 9000
    [[path]]
    name = "wlan"
    rate = "20mbit"
    mtu = 9000
    path_mtu = 1500
    icmp = "off"
    [host.client.sysctl]
    "net.ipv4.tcp_mtu_probing" = 0
    "net.mptcp.blackhole_timeout" = 0
    [host.server.sysctl]
    "net.ipv4.tcp_mtu_probing" = 0
"#;

/// `code` is 6 if multipath was requested and not used.
fn measure(name: &str, text: &str, code: i32) -> Measured {
    Workplace::new().lab_run(name, text, &[]).expect(code)
}

#[track_caller]
fn only(run: &RunRecord) -> &PathDiagnosis {
    let [found] = run.diagnoses.as_slice() else { panic!("{}: {:#?}", run.id, run.diagnoses) };
    assert_eq!(found.path, "wlan");
    found
}

#[test]
fn a_black_hole_is_named_and_an_honest_hop_is_not() {
    let rest = r#"
        [run]
        transports = ["tcp@wlan", "mptcp", "mpquic"]
        duration = "4s"
        congestion = "cubic"
        patience = "4s"
    "#;
    let [honest, silent] = measure_in_parallel(&[("on", 0), ("off", 6)], |(icmp, code)| {
        let hop = A_HOP.replace("icmp = \"off\"", &format!("icmp = \"{icmp}\""));
        measure("black-hole", &format!("{hop}\n{rest}"), *code)
    });
    for label in ["tcp@wlan", "mptcp", "mpquic"] {
        let honest = honest.run(label);
        assert!(honest.completed && honest.diagnoses.is_empty(), "{:#?}", honest.diagnoses);
    }
    assert!(silent.run("mpquic").diagnoses.is_empty());
    for label in ["tcp@wlan", "mptcp"] {
        let found = only(silent.run(label));
        assert_eq!((found.kind, found.side), (DiagnosisKind::MtuBlackHole, Side::Client), "{found:#?}");
        assert_eq!((found.from_ms, found.to_ms), (None, None), "{found:#?}");
        assert!(found.because.contains("no segment of 8948 bytes"), "{found:#?}");
        assert!(found.because.contains("still the interface's, 9000 bytes"), "{found:#?}");
        assert!(found.remedy.contains("pathbench mtu") && found.remedy.contains("path wlan"), "{found:#?}");
    }
    let mptcp = silent.run("mptcp");
    assert!(!mptcp.multipath.used);
    for words in ["path wlan", "MTU black hole suspected", "pathbench mtu"] {
        assert!(mptcp.multipath.reason.contains(words), "{}", mptcp.multipath.reason);
    }
}

/// When the only event of the only run was executed, which may be late on a busy machine.
fn happened_at_ms(measured: &Measured) -> f64 {
    let events = measured.events_of(measured.run("mptcp"), EventSource::Scenario);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    event.t_ms
}

#[test]
fn a_shrunk_hop_and_a_cut_link_are_diagnosed_from_their_events() {
    let rest = r#"
        [[event]]
        at = "2s"
        path = "wlan"
        action = "set"
        path_mtu = 1500
        [run]
        transports = ["mptcp"]
        duration = "5s"
        congestion = "cubic"
    "#;
    let shrinking = A_HOP.replace("path_mtu = 1500", "path_mtu = 9000");
    let shrinks = measure("shrinks", &format!("{shrinking}\n{rest}"), 0);
    let found = only(shrinks.run("mptcp"));
    let at_ms = happened_at_ms(&shrinks);
    assert_eq!(found.kind, DiagnosisKind::MtuBlackHole, "{found:#?}");
    assert!(found.because.contains(&format!("(MTU 1500 bytes) at {:.1} s", at_ms / 1e3)), "{found:#?}");
    let after_ms = found.from_ms.unwrap() - at_ms;
    assert!((-100.0..1000.0).contains(&after_ms), "{after_ms} ms after the event: {found:#?}");

    let cut = rest.replace("\"set\"", "\"blackhole\"").replace("path_mtu = 1500", "");
    let cut = measure("cut", &format!("{shrinking}\n{cut}"), 0);
    let found = only(cut.run("mptcp"));
    assert_eq!(found.kind, DiagnosisKind::Stale, "{found:#?}");
    let cause = format!("the scenario's `blackhole wlan` at {:.1} s", happened_at_ms(&cut) / 1e3);
    assert!(found.because.contains(&cause), "no {cause}: {found:#?}");
}

#[test]
fn a_backup_path_is_diagnosed_as_backup_and_paths_in_use_are_not() {
    let text = r#"
        [[path]]
        name = "eth"
        rate = "20mbit"
        [[path]]
        name = "wlan"
        rate = "20mbit"
        [run]
        transports = ["tcp", "mptcp", "quic", "mpquic"]
        duration = "2s"
    "#;
    let with_backup = text.replacen("name = \"wlan\"", "name = \"wlan\"\n        backup = true", 1);
    let [without, with] = measure_in_parallel(&[(text, 0), (with_backup.as_str(), 6)], |(text, code)| {
        measure("backup", text, *code)
    });
    for (measured, has_backup) in [(&without, false), (&with, true)] {
        assert!(measured.document.runs.len() >= 4);
        for run in &measured.document.runs {
            if has_backup && run.transport.is_multipath() {
                assert_eq!(only(run).kind, DiagnosisKind::Backup, "{}: {:#?}", run.id, run.diagnoses);
            } else {
                assert!(run.diagnoses.is_empty(), "{}: {:#?}", run.id, run.diagnoses);
            }
        }
    }
}
