//! Packet sizes in reports, and reports without them.

use crate::synthetic;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DiagnosisKind, MtuStep, PathDiagnosis};
use pathbench_record::sample::Side;
use pathbench_report::narrative::{self, Tone};
use pathbench_report::terminal::{Style, mtu_script, summary};
use pathbench_report::{ResultSet, html};
use std::mem;

fn text_of(set: &ResultSet) -> String {
    // Wide enough for one line per finding.
    summary(set, Style { colour: false, width: 600 })
}

#[test]
fn ordinary_results_have_no_figures_of_sizes_and_no_matrix() {
    for set in
        [synthetic::failover(), synthetic::aggregate(2, true), synthetic::suite(), synthetic::handover()]
    {
        let name = &set.document.scenario.name;
        for figure in pathbench_report::figures(std::slice::from_ref(&set)).concat() {
            assert!(!figure.name.starts_with("mtu"), "{name}");
            assert!(!figure.name.starts_with("packet-sizes"), "{name}");
            assert!(!figure.name.starts_with("matrix"), "{name}");
        }
        let page = html::report(std::slice::from_ref(&set));
        for part in
            ["One MSS for all subflows", "The matrix", "Paths that carried nothing", "The MTU of each path"]
        {
            assert!(!page.contains(part), "{part} in the report of {name}");
        }
    }
}

#[test]
fn a_black_hole_has_a_figure_without_changes_of_size() {
    let mut set = synthetic::aggregate(1, false);
    assert_eq!(synthetic::drawn(&set, "mtu"), None);
    set.document.runs[1].diagnoses = vec![finding(DiagnosisKind::MtuBlackHole)];
    assert!(synthetic::drawn(&set, "mtu").is_some());
}

#[test]
fn a_link_that_begins_at_the_server_gives_the_same_picture() {
    let drawn = |set: &ResultSet| synthetic::drawn(set, "packet-sizes").unwrap_or_default();
    let mut set = synthetic::shrink();
    let expected = drawn(&set);
    for link in &mut set.document.links {
        link.ends.reverse();
    }
    for sizes in set
        .document
        .runs
        .iter_mut()
        .flat_map(|run| &mut run.links)
        .filter_map(|link| link.packet_sizes.as_mut())
    {
        mem::swap(&mut sizes.forward, &mut sizes.reverse);
    }
    assert!(expected.contains("9000") && drawn(&set) == expected);
}

#[test]
fn a_download_is_counted_from_the_servers_link_on() {
    let mut set = synthetic::shrink();
    for run in &mut set.document.runs {
        run.directions.iter_mut().for_each(|one| one.direction = Direction::Download);
        for sizes in run.links.iter_mut().filter_map(|link| link.packet_sizes.as_mut()) {
            mem::swap(&mut sizes.forward, &mut sizes.reverse);
        }
    }
    let drawn = |set: &ResultSet| synthetic::drawn(set, "packet-sizes").unwrap_or_default();
    let both = drawn(&set);
    assert!(both.contains(">wlan.far (MTU 9000): ") && both.contains(">wlan.hop (MTU 1500): "), "{both}");
    assert!(!both.contains(">wlan (MTU 9000): ") && both.contains("wlan, download"));
    for run in &mut set.document.runs {
        run.links.retain(|link| link.name != "wlan.far");
    }
    assert!(drawn(&set).contains("not counted at the sending host"));
}

fn finding(kind: DiagnosisKind) -> PathDiagnosis {
    PathDiagnosis {
        path: "b".to_owned(),
        side: Side::Client,
        kind,
        from_ms: Some(200.0),
        to_ms: None,
        because: "nothing was acknowledged".to_owned(),
        remedy: "let ICMP pass".to_owned(),
    }
}

/// Three repetitions of tcp and mptcp, with the diagnosis in the given repetitions of mptcp.
fn diagnosed(kind: DiagnosisKind, repetitions: &[u32]) -> ResultSet {
    let mut set = synthetic::aggregate(3, false);
    for run in &mut set.document.runs {
        if run.label == "mptcp" && repetitions.contains(&run.repetition) {
            run.diagnoses = vec![finding(kind)];
        }
    }
    set
}

#[test]
fn a_diagnosis_of_all_repetitions_appears_once() {
    let text = text_of(&diagnosed(DiagnosisKind::MtuBlackHole, &[1, 2, 3]));
    let line = "✗ mptcp: path b: MTU black hole suspected from 200 ms on: nothing was acknowledged. Remedy: let ICMP pass.";
    assert_eq!(text.matches(line).count(), 1, "{text}");
}

#[test]
fn a_diagnosis_of_some_repetitions_names_them() {
    let text = text_of(&diagnosed(DiagnosisKind::MtuBlackHole, &[1, 3]));
    assert!(text.contains("✗ mptcp r1 and r3: path b: MTU black hole suspected from 200 ms on"), "{text}");
}

#[test]
fn a_black_hole_lowers_the_tone_and_an_unused_backup_does_not() {
    let tone = |kind: DiagnosisKind| {
        let stories = narrative::stories(&diagnosed(kind, &[1, 2, 3]));
        stories.iter().find(|story| story.label == "mptcp").map(|story| story.tone)
    };
    assert_eq!(tone(DiagnosisKind::MtuBlackHole), Some(Tone::Mixed));
    assert_eq!(tone(DiagnosisKind::Backup), Some(Tone::Good));
    let text = text_of(&diagnosed(DiagnosisKind::Backup, &[1, 2, 3]));
    assert!(text.contains("· mptcp: path b: backup, not needed"), "{text}");
}

#[test]
fn a_path_that_the_scenario_took_down_is_no_trouble() {
    let mut set = diagnosed(DiagnosisKind::Stale, &[1, 2, 3]);
    assert!(text_of(&set).contains("✗ mptcp: path b: went silent"));
    for one in set.document.runs.iter_mut().flat_map(|run| &mut run.diagnoses) {
        "none needed: the scenario asks for it".clone_into(&mut one.remedy);
    }
    assert!(text_of(&set).contains("· mptcp: path b: went silent"));
}

#[test]
fn commands_are_never_cut() {
    let record = synthetic::examination();
    let text = pathbench_report::terminal::mtu(&record, Style { colour: true, width: 80 });
    for step in &record.steps {
        assert!(text.contains(&step.command) && text.contains(&step.undo), "{text}");
    }
}

fn step(path: &str, command: &str, undo: &str) -> MtuStep {
    MtuStep { path: path.to_owned(), command: command.to_owned(), undo: undo.to_owned(), done: false }
}

#[test]
fn a_script_corrects_and_names_the_undo_in_reverse_order() {
    let steps = [
        step(
            "wlan",
            "ip route add 10.0.2.1 dev wlan table 1001 mtu 1500",
            "ip route delete 10.0.2.1 table 1001",
        ),
        step("wlan", "ip mptcp endpoint delete id 2", ""),
        step("wlan", "ip mptcp endpoint add 10.0.1.2 id 2 subflow", ""),
        step("lte", "ip route replace default dev lte mtu 1400", "ip route replace default dev lte"),
    ];
    assert_eq!(
        mtu_script(&steps),
        "# path wlan\n\
     ip route add 10.0.2.1 dev wlan table 1001 mtu 1500\n\
     ip mptcp endpoint delete id 2\n\
     ip mptcp endpoint add 10.0.1.2 id 2 subflow\n\
     # path lte\n\
     ip route replace default dev lte mtu 1400\n\
     # undo:\n\
     # ip route replace default dev lte\n\
     # ip route delete 10.0.2.1 table 1001\n"
    );
    assert_eq!(mtu_script(&[]), "");
}
