//! Expectations and notes in the summary.

use crate::synthetic;
use pathbench_record::document::Expectation;
use pathbench_report::ResultSet;
use pathbench_report::terminal::{Style, summary};

fn drawn(set: &ResultSet) -> String {
    summary(set, Style { colour: false, width: 120 })
}

fn held(number: usize) -> Expectation {
    Expectation {
        key: format!("mptcp.phases.{number}.goodput_mbps"),
        expected: "> 1".to_owned(),
        found: "2 in 01-mptcp-r1".to_owned(),
        held: true,
        not_judged: false,
    }
}

#[test]
fn expectations_that_hold_are_one_line() {
    let mut set = synthetic::failover();
    set.document.summary.expectations = (0..8).map(held).collect();
    let text = drawn(&set);
    assert_eq!(text.lines().filter(|line| *line == "8 of 8 expectations hold").count(), 1, "{text}");
    assert!(!text.contains("mptcp.phases."), "{text}");
    set.document.summary.expectations.truncate(1);
    assert!(drawn(&set).contains("\n1 of 1 expectation holds\n"));
    set.document.summary.expectations.clear();
    assert!(!drawn(&set).contains("expectation"));
}

#[test]
fn expectations_that_do_not_hold_or_are_not_judged_are_shown_in_full() {
    let mut set = synthetic::failover();
    let mut all: Vec<Expectation> = (0..8).map(held).collect();
    (all[2].held, all[2].found) = (false, "0.5 in 02-mptcp-r1".to_owned());
    (all[5].held, all[5].not_judged) = (false, true);
    all[5].found = "runs that it needs were not made".to_owned();
    set.document.summary.expectations = all;
    let text = drawn(&set);
    for line in [
        "6 of 8 expectations hold",
        "mptcp.phases.2.goodput_mbps > 1: did not hold, found 0.5 in 02-mptcp-r1",
        "mptcp.phases.5.goodput_mbps > 1: not judged: runs that it needs were not made",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    assert_eq!(text.matches("mptcp.phases.").count(), 2, "{text}");
}

/// Results of earlier versions have a note for each expectation about a transport that the command line removed.
#[test]
fn notes_about_transports_that_did_not_run_are_not_shown() {
    let mut set = synthetic::failover();
    set.document.summary.notes =
        vec!["mpquic.completed: `mpquic` does not run".to_owned(), "a note to read".to_owned()];
    let text = drawn(&set);
    assert!(text.contains("a note to read") && !text.contains("does not run"), "{text}");
}

#[test]
fn a_run_that_was_repeated_differs_from_one_that_is_lost() {
    let mut set = synthetic::failover();
    let (first, last) = (0, set.document.runs.len() - 1);
    let mut again = set.document.runs[first].clone();
    (again.retry_of, again.attempt) = (Some(again.id.clone()), Some(2));
    again.id.push_str("-a2");
    for index in [first, last] {
        set.document.runs[index].valid = false;
        set.document.runs[index].invalid_because = vec!["link eth was late".to_owned()];
    }
    set.document.runs.push(again);
    let text = drawn(&set);
    assert!(
        text.contains("2 runs not valid") && text.contains("1 of them repeated by a valid run"),
        "{text}"
    );
}
