//! No sentence contradicts the events and the record of its run.

use crate::synthetic;
use crate::synthetic::Course;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DiagnosisKind, Impact, PathDiagnosis, RunRecord};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::Side;
use pathbench_record::summary::summarise;
use pathbench_report::ResultSet;
use pathbench_report::narrative::{self, Story, Tone};
use pathbench_report::terminal::{Style, summary};
use proptest::prelude::*;

/// A run over `eth` and `wlan`.
#[derive(Debug, Clone)]
struct Case {
    /// `wlan` goes down and comes up.
    down_ms: f64,
    up_ms: Option<f64>,
    /// The end of the data; the application gives up `hung_ms` later.
    last_ms: f64,
    hung_ms: Option<f64>,
    before_mbps: f64,
    settled_mbps: f64,
    recovery_ms: Option<f64>,
}

impl Case {
    fn set(&self) -> ResultSet {
        let mut set = synthetic::nothing("claims", "");
        let mut run = synthetic::run("r", "mptcp", 1);
        let course = Course::new("eth", 50.0, 1).until(self.last_ms);
        synthetic::add_carried(&mut set, &mut run, Direction::Upload, &[course]);
        run.completed = self.hung_ms.is_none();
        run.hung_ms = self.hung_ms;
        run.error = self.hung_ms.map(|_| "no progress".to_owned());
        run.duration_ms = self.last_ms + self.hung_ms.unwrap_or(0.0);
        run.multipath.used = true;
        (run.stall_ms, run.dip, run.recovery_ms) = (Some(200.0), Some(0.8), self.recovery_ms);
        run.impacts = vec![Impact {
            direction: Direction::Upload,
            kind: "down".into(),
            path: Some("wlan".to_owned()),
            at_ms: self.down_ms,
            before_mbps: Some(self.before_mbps),
            settled_mbps: Some(self.settled_mbps),
            dip: run.dip,
            recovery_ms: run.recovery_ms,
            stall_ms: run.stall_ms,
        }];
        let events = [Some((self.down_ms, "down")), self.up_ms.map(|at_ms| (at_ms, "up"))];
        for (at_ms, kind) in events.into_iter().flatten() {
            set.lines.held.events.push(synthetic::event("r", at_ms, kind, "wlan"));
        }
        let gave_up = self.hung_ms.map(|hung_ms| Event {
            source: EventSource::Observer,
            path: None,
            ..synthetic::event("r", self.last_ms + hung_ms, "gave-up", "wlan")
        });
        set.lines.held.events.extend(gave_up);
        synthetic::finish_run(&mut set, run);
        set
    }

    fn story(&self) -> Story {
        narrative::stories(&self.set()).remove(0)
    }
}

const USUAL: Case = Case {
    down_ms: 3000.0,
    up_ms: Some(7000.0),
    last_ms: 10_000.0,
    hung_ms: None,
    before_mbps: 100.0,
    settled_mbps: 50.0,
    recovery_ms: Some(121.0),
};

#[test]
fn goodput_that_stays_at_half_has_not_recovered() {
    let story = USUAL.story();
    assert!(
        story.headline.contains("steady again 121 ms after wlan went down (100 Mbit/s before"),
        "{story:?}"
    );
    assert!(!story.headline.contains("recovered"));
    let story = Case { settled_mbps: 99.0, ..USUAL }.story();
    assert!(story.headline.contains("recovered 121 ms after wlan went down"), "{story:?}");
}

#[test]
fn a_run_that_delivered_until_it_was_given_up_did_not_hang() {
    let story = Case { hung_ms: Some(12.7), recovery_ms: None, ..USUAL }.story();
    assert_eq!(story.headline, "did not complete: the application gave up 12.7 ms after the last byte");
    let story =
        Case { hung_ms: Some(3200.0), recovery_ms: None, last_ms: 3020.0, up_ms: None, ..USUAL }.story();
    assert_eq!(
        story.headline,
        "hung after wlan went down: no byte for 3.20 s before the application gave up"
    );
    // The path was back for three seconds.
    let story = Case { hung_ms: Some(3200.0), recovery_ms: None, ..USUAL }.story();
    assert_eq!(story.headline, "hung: no byte for 3.20 s before the application gave up");
}

#[test]
fn a_path_that_is_back_after_the_application_gave_up_has_no_sentence() {
    let case = Case { hung_ms: Some(3000.0), recovery_ms: None, last_ms: 3010.0, ..USUAL };
    assert!(case.story().details.iter().all(|detail| !detail.contains("after it came up")), "{case:?}");
}

fn spare(run: &mut RunRecord) {
    run.multipath.negotiated = true;
    run.multipath.used = false;
    "path b is marked backup".clone_into(&mut run.multipath.reason);
    run.diagnoses = vec![PathDiagnosis {
        path: "b".to_owned(),
        side: Side::Client,
        kind: DiagnosisKind::Backup,
        from_ms: None,
        to_ms: None,
        because: "it is marked backup".to_owned(),
        remedy: "none if it is meant as a backup".to_owned(),
    }];
}

#[test]
fn a_spare_path_that_was_not_needed_is_no_fault() {
    let mut set = synthetic::aggregate(1, false);
    set.document.runs.iter_mut().filter(|run| run.label == "mptcp").for_each(spare);
    set.document.summary.groups = summarise(&set.document.runs);
    let story = narrative::stories(&set).into_iter().find(|story| story.label == "mptcp").expect("a story");
    assert_ne!(story.tone, Tone::Bad, "{story:?}");
    assert!(!story.headline.contains("did not use multipath"), "{story:?}");
    let text = summary(&set, Style { colour: false, width: 100 });
    assert!(text.contains("· mptcp: not used: path b is marked backup") && !text.contains('✗'), "{text}");
    // With another fault it is one.
    for run in set.document.runs.iter_mut().filter(|run| run.label == "mptcp") {
        let dead = PathDiagnosis {
            kind: DiagnosisKind::Stale,
            remedy: "look".to_owned(),
            ..run.diagnoses[0].clone()
        };
        run.diagnoses.push(dead);
    }
    assert!(summary(&set, Style { colour: false, width: 100 }).contains("✗ mptcp: not used"));
}

fn cases() -> impl Strategy<Value = Case> {
    let ms = || 500.0..9000.0_f64;
    (
        (ms(), prop::option::of(ms()), ms()),
        prop::option::of(1.0..5000.0_f64),
        (1.0..200.0_f64, 1.0..200.0_f64, prop::option::of(1.0..3000.0_f64)),
    )
        .prop_map(|((down_ms, up_ms, last_ms), hung_ms, (before_mbps, settled_mbps, recovery_ms))| {
            Case {
                down_ms,
                up_ms: up_ms.filter(|at_ms| *at_ms > down_ms),
                last_ms,
                hung_ms,
                before_mbps,
                settled_mbps,
                recovery_ms,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_sentence_contradicts_the_events(case in cases()) {
        let story = case.story();
        let text = format!("{} {}", story.headline, story.details.join(" "));
        let context = format!("{case:?}: {text}");
        let hung_ms = case.hung_ms.unwrap_or(0.0);
        prop_assert!(!text.contains("hung") || hung_ms >= 100.0, "{context}");
        if story.headline.starts_with("hung after wlan") {
            prop_assert!(case.down_ms <= case.last_ms + 520.0, "{context}");
            prop_assert!(case.up_ms.is_none_or(|at_ms| at_ms >= case.last_ms - 20.0), "{context}");
        }
        if story.headline.contains(", recovered ") || story.headline.contains(" recovered ") {
            prop_assert!(case.settled_mbps >= 0.9 * case.before_mbps || text.contains("not recovered"), "{context}");
        }
        let gave_up_ms = case.hung_ms.map(|hung_ms| case.last_ms + hung_ms);
        if text.contains("after it came up") {
            let is_seen = case.up_ms.is_some_and(|at_ms| gave_up_ms.is_none_or(|end_ms| at_ms < end_ms));
            prop_assert!(is_seen, "{context}");
        }
    }
}
