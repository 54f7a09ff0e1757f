//! The sentences about results.

use crate::synthetic;
use crate::synthetic::Course;
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::summary::summarise;
use pathbench_report::ResultSet;
use pathbench_report::narrative::{self, Story, Tone};
use pathbench_report::terminal::{Style, summary};

/// One mptcp run over 6 s; `wlan` goes down at 1 s and up at 3 s.
fn comeback(wlan: Option<Course>) -> ResultSet {
    let mut set = synthetic::nothing("comeback", "");
    let mut run = synthetic::run("r", "mptcp", 1);
    set.lines.held.events.push(synthetic::event("r", 1000.0, "down", "wlan"));
    set.lines.held.events.push(synthetic::event("r", 3000.0, "up", "wlan"));
    let courses: Vec<Course> = [Some(Course::new("eth", 90.0, 1)), wlan].into_iter().flatten().collect();
    let courses: Vec<Course> = courses.into_iter().map(|course| course.until(6000.0)).collect();
    synthetic::add_carried(&mut set, &mut run, Direction::Upload, &courses);
    run.multipath.used = true;
    synthetic::finish_run(&mut set, run);
    set
}

fn wlan() -> Course {
    Course::new("wlan", 90.0, 2)
}

fn only_detail(set: &ResultSet, about: &str) -> String {
    let details: Vec<String> = narrative::stories(set).into_iter().flat_map(|story| story.details).collect();
    let found: Vec<&String> = details.iter().filter(|detail| detail.contains(about)).collect();
    assert_eq!(found.len(), 1, "{details:?}");
    found[0].clone()
}

/// The lines under a heading of the summary.
fn section(set: &ResultSet, heading: &str) -> Vec<String> {
    let text = summary(set, Style { colour: false, width: 600 });
    let lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn traffic_that_returns_is_timed_from_the_event() {
    let set = comeback(Some(wlan().silent(1000.0, 4500.0)));
    assert_eq!(only_detail(&set, "traffic"), "traffic was back on wlan 1.60 s after it came up");
    assert!(!only_detail(&set, "traffic").contains("on a new subflow"));
}

#[test]
fn a_subflow_in_back_off_is_named_as_the_reason() {
    let set = comeback(Some(wlan().silent(1000.0, 9000.0).in_back_off(3400.0)));
    assert_eq!(
        only_detail(&set, "traffic"),
        "traffic did not return to wlan in the 3.00 s after it came up: the subflow was still in retransmission \
         back-off (RTO 3.40 s)"
    );
}

#[test]
fn a_closed_subflow_is_named_as_the_reason() {
    let set = comeback(Some(wlan().silent(1000.0, 9000.0).closed()));
    let detail = only_detail(&set, "traffic");
    assert!(
        detail.ends_with("its subflow had been closed; the kernel does not re-create closed subflows"),
        "{detail}"
    );
}

#[test]
fn a_subflow_that_is_no_longer_sampled_counts_as_closed() {
    let mut set = comeback(Some(wlan().silent(1000.0, 9000.0)));
    set.lines.held.samples.retain(|sample| sample.path != "wlan" || sample.t_ms < 1500.0);
    assert!(only_detail(&set, "traffic").contains("had been closed"));
}

#[test]
fn an_idle_subflow_and_a_missing_subflow_have_different_reasons() {
    let idle = comeback(Some(wlan().silent(1000.0, 9000.0)));
    assert!(only_detail(&idle, "traffic").ends_with("the transport sent no data on it"));
    let absent = comeback(None);
    assert!(only_detail(&absent, "traffic").ends_with("the connection had no subflow on it"));
}

#[test]
fn a_new_subflow_is_named() {
    let mut set = comeback(Some(wlan().silent(1000.0, 4500.0)));
    for sample in set.lines.held.samples.iter_mut().filter(|one| one.path == "wlan" && one.t_ms > 3000.0) {
        sample.figures.subflow = 7;
    }
    assert_eq!(
        only_detail(&set, "traffic"),
        "traffic was back on wlan 100 ms after it came up, on a new subflow"
    );
}

#[test]
fn the_failover_has_one_sentence_per_label() {
    let stories = narrative::stories(&synthetic::failover());
    assert_eq!(
        stories.iter().map(Story::sentence).collect::<Vec<_>>().join("; "),
        "mptcp continued at 1.26 Gbit/s: longest stall 210 ms (range 190–230), goodput dipped by 100 %, steady again 250 ms \
         (range 230–270) after wlan went down (1.88 Gbit/s before, 940 Mbit/s after); tcp@eth completed undisturbed at 938 Mbit/s; tcp@wlan hung after wlan went down in all \
         3 runs: no byte for 6.90 s before the application gave up"
    );
}

#[test]
fn an_aggregate_is_compared_with_the_best_single_path() {
    let stories = narrative::stories(&synthetic::aggregate(6, false));
    assert_eq!(stories[0].headline, "delivered 9.37 Gbit/s");
    assert_eq!(stories[1].headline, "delivered 18.4 Gbit/s, 1.96 × tcp");
}

fn failover_with(change: impl Fn(&mut RunRecord)) -> ResultSet {
    let mut set = synthetic::failover();
    set.document.runs.iter_mut().for_each(change);
    set.document.summary.groups = summarise(&set.document.runs);
    set
}

#[test]
fn a_multipath_transport_on_one_path_has_a_bad_tone() {
    let set = failover_with(|run| {
        if run.id == "01-mptcp-r1" {
            run.multipath.used = false;
            run.multipath.reason = "the peer did not answer MP_CAPABLE".to_owned();
        }
    });
    let story = &narrative::stories(&set)[0];
    assert_eq!(story.tone, Tone::Bad);
    assert!(story.headline.starts_with("did not use multipath in 1 of 3 runs; it continued"), "{story:?}");
    let verdicts = section(&set, "Was multipath used?");
    assert_eq!(verdicts.len(), 1);
    assert_eq!(
        verdicts[0],
        "  ✗ mptcp: used in 2 of 3 runs; not in the others: the peer did not answer MP_CAPABLE"
    );
}

#[test]
fn a_recovery_in_some_runs_only_is_reported() {
    let set = failover_with(|run| run.recovery_ms = run.recovery_ms.filter(|_| run.repetition != 2));
    let story = &narrative::stories(&set)[0];
    assert_eq!(story.tone, Tone::Mixed);
    assert!(
        story
            .headline
            .contains("steady again 250 ms (range 230–270) after wlan went down in 2 of 3 runs only"),
        "{story:?}"
    );
    let never = failover_with(|run| run.recovery_ms = None);
    assert!(narrative::stories(&never)[0].headline.contains("not recovered after wlan went down"));
}

/// Guards against "goodput dipped by 53 %, recovered 0 ms after wlan went down" for the rate of a lost path.
#[test]
fn the_lost_rate_of_a_path_is_not_a_dip() {
    let set = failover_with(|run| {
        if run.label == "mptcp" {
            (run.stall_ms, run.dip, run.recovery_ms) = (Some(0.6), Some(0.06), Some(0.0));
            for impact in &mut run.impacts {
                (impact.stall_ms, impact.dip, impact.recovery_ms) = (run.stall_ms, run.dip, run.recovery_ms);
            }
        }
    });
    let story = &narrative::stories(&set)[0];
    assert_eq!(story.tone, Tone::Good);
    assert_eq!(
        story.headline,
        "continued at 1.26 Gbit/s: longest stall 600 µs, no dip after wlan went down (1.88 Gbit/s before, 940 Mbit/s \
         after)"
    );
}

#[test]
fn a_run_that_failed_before_the_event_does_not_name_it() {
    let set = failover_with(|run| run.duration_ms = run.duration_ms.min(1200.0));
    assert_eq!(
        narrative::stories(&set)[2].headline,
        "hung in all 3 runs: no byte for 6.90 s before the application gave up"
    );
}

#[test]
fn an_impact_without_measurement_is_not_undisturbed() {
    let set = failover_with(|run| {
        for impact in &mut run.impacts {
            (impact.dip, impact.stall_ms) = (None, None);
        }
    });
    assert_eq!(
        narrative::stories(&set)[1].headline,
        "completed at 938 Mbit/s; the impact of the event (wlan went down) could not be measured"
    );
}

#[test]
fn the_slowest_message_decides_the_tone() {
    let stories = narrative::stories(&synthetic::handover());
    let story_of = |label: &str| stories.iter().find(|story| story.label == label).expect("a story");
    let smooth = story_of("mpquic");
    assert_eq!(smooth.tone, Tone::Good);
    assert!(smooth.headline.starts_with("delivered its messages in 19.3 ms in the median"), "{smooth:?}");
    let when_down = smooth.details.iter().find(|detail| detail.starts_with("when wlan went down"));
    assert!(when_down.is_some_and(|detail| detail.contains("the slowest message took 124 ms")), "{smooth:?}");
    assert_eq!(story_of("quic@wlan").tone, Tone::Mixed, "five seconds are noticed");
    let dead = story_of("tcp@wlan");
    assert_eq!(dead.tone, Tone::Bad);
    assert_eq!(
        dead.headline,
        "left 420 of 600 messages without acknowledgement; delay ≥ 7.00 s in the median, ≥ 11.5 s at 95 %, the \
         slowest ≥ 12.0 s"
    );
}

#[test]
fn the_suite_has_a_story_per_label_and_pattern() {
    let set = synthetic::suite();
    let stories = narrative::stories(&set);
    assert_eq!(stories.len(), 20);
    let story_of = |label: &str, pattern: &str| {
        let mut found =
            stories.iter().filter(|one| one.label == label && one.pattern.as_deref() == Some(pattern));
        found.next().expect("a story")
    };
    let ping = story_of("quic", "ping");
    assert_eq!(ping.tone, Tone::Mixed);
    assert_eq!(
        ping.sentence(),
        "quic (ping) answered in 21.6 ms (95 % CI 20.5–21.8), 1 of 30 pings lost (3.3 %)"
    );
    let bulk = &story_of("mpquic", "bulk").headline;
    assert!(
        bulk.starts_with("fetched 10 MB in 1.07 s") && bulk.ends_with("0.63 × the time of quic"),
        "{bulk}"
    );
    let upload = &story_of("mptcp", "throughput-upload").headline;
    assert_eq!(upload, "delivered 31.0 Mbit/s, 1.61 × tcp", "compared with the same pattern");
    let interactive = story_of("mpquic", "interactive");
    assert_eq!(interactive.tone, Tone::Mixed, "the network changed during it");
    assert_eq!(story_of("mptcp", "interactive").tone, Tone::Good, "one path is enough for messages");
    let has = |part: &str| interactive.details.iter().any(|detail| detail.contains(part));
    assert!(has("only one path carried data in 6 runs") && has("the network changed during 1 run"));
    // If other patterns fill the paths, pings and messages have no verdict.
    assert_eq!(
        section(&set, "Was multipath used?"),
        ["mptcp", "mpquic"].map(|label| format!(
            "  ✓ {label}: used in all 18 runs of bulk, throughput-upload, throughput-download"
        ))
    );
}

#[test]
fn multipath_without_negotiation_has_a_bad_tone_for_messages_too() {
    let mut set = synthetic::handover();
    for run in set.document.runs.iter_mut().filter(|run| run.label == "mptcp") {
        (run.multipath.used, run.multipath.negotiated) = (false, false);
    }
    let stories = narrative::stories(&set);
    let story = stories.iter().find(|story| story.label == "mptcp").expect("a story");
    assert_eq!(story.tone, Tone::Bad);
    assert!(story.headline.starts_with("did not use multipath"), "{story:?}");
}

#[test]
fn a_run_without_answers_is_reported() {
    let stories = narrative::stories(&synthetic::silence());
    assert_eq!(
        (stories[0].tone, stories[0].headline.as_str()),
        (Tone::Bad, "got no answer to any of 3 pings")
    );
    assert_eq!(stories[1].headline, "completed");
}

#[test]
fn notes_that_differ_only_in_numbers_appear_once() {
    let mut set = synthetic::failover();
    for (index, run) in set.document.runs.iter_mut().enumerate() {
        run.notes = vec![format!("its times are right to ±0.{index} ms")];
    }
    let text = summary(&set, Style { colour: false, width: 120 });
    assert!(text.contains("±0.0 ms (01-mptcp-r1; much the same in 8 other runs)"), "{text}");
    assert_eq!(text.matches("its times are right").count(), 1);
}

#[test]
fn invalid_runs_enter_no_finding() {
    let story = &narrative::stories(&synthetic::all_invalid())[0];
    assert_eq!(story.headline, "has no valid run: link `wlan` gave 412 Mbit/s of 1 Gbit/s");
    let one = failover_with(|run| run.valid = run.repetition != 3);
    assert!(narrative::stories(&one)[0].details[0].ends_with("1 run left out as not valid"));
}

#[test]
fn a_result_without_runs_says_so() {
    let text = summary(&synthetic::nothing("x", ""), Style { colour: false, width: 80 });
    assert!(text.contains("No run was made."), "{text}");
}

/// The walk, reduced to the runs of one label.
fn walks_of(label: &str, runs: usize) -> ResultSet {
    let mut set = synthetic::walk();
    set.document.runs.retain(|run| run.label == label);
    set.document.runs.truncate(runs);
    set.document.summary.groups = summarise(&set.document.runs);
    set
}

#[test]
fn a_handover_names_its_reason() {
    let one = narrative::stories(&walks_of("mptcp", 1));
    let detail = one[0].details.iter().find(|one| one.contains("came into use")).expect("a handover");
    assert!(
        detail.starts_with("lte came into use at 7.10 s: wlan was in retransmission timeout"),
        "{detail}"
    );
    assert!(
        detail.contains("; packets still arrived over wlan for ")
            && detail.ends_with("; `wlan` began to fade 3120 ms before"),
        "{detail}"
    );

    let all = narrative::stories(&walks_of("mptcp", 12));
    let detail = all[0].details.iter().find(|one| one.contains("came into use")).expect("handovers");
    assert!(detail.starts_with("lte came into use in 11 of 12 runs; wlan: "), "{detail}");
    assert!(detail.contains("in retransmission timeout in "), "{detail}");

    let single_path = narrative::stories(&walks_of("tcp@wlan", 12));
    assert!(!single_path[0].details.iter().any(|detail| detail.contains("came into use")));
}

#[test]
fn a_handover_without_overlap_is_abrupt() {
    let mut set = walks_of("mptcp", 1);
    let handover = set.document.runs[0].handover.as_mut().expect("a handover");
    handover.duration_received_ms = Some(-230.0);
    let detail = narrative::stories(&set)[0].details.join("\n");
    assert!(detail.contains("abrupt: no packet had arrived over wlan for 230 ms"), "{detail}");
}
