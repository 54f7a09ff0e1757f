//! Attempts at the runs of a study: which run is next when runs are not valid.

use pathbench_lab::study::{Attempt, AttemptQueue, RunOrder, ScheduledRun, schedule};
use pathbench_record::document::{RunRecord, Shard};
use pathbench_record::transport::TransportLabel;
use std::collections::{BTreeMap, BTreeSet};

fn order(repeat: u32, warm_up: u32, shard: Option<Shard>) -> Vec<(String, ScheduledRun)> {
    let labels: Vec<TransportLabel> =
        ["mptcp", "tcp@eth", "tcp@wlan"].iter().map(|text| text.parse().unwrap()).collect();
    let course = RunOrder { repeat, warm_up, seed: 7, shard };
    let runs = schedule(&[(&labels, 2)], &course).into_iter();
    runs.map(|run| (run.id(Some(["ping", "bulk"][run.pattern]), shard), run)).collect()
}

/// Makes at most `most` runs of a session; `is_valid` decides by id.
fn session(
    order: &[(String, ScheduledRun)],
    retries: u32,
    made: &mut Vec<RunRecord>,
    most: usize,
    is_valid: impl Fn(&str) -> bool,
) -> AttemptQueue {
    let mut queue = AttemptQueue::resume(order, retries, made);
    for _ in 0..most {
        let Some(attempt) = queue.begin() else { break };
        let (planned, run) = &order[attempt.planned];
        let id = attempt.id(planned);
        let valid = !run.warm_up && is_valid(&id);
        let mut record = RunRecord { id, repetition: run.repetition, valid, ..RunRecord::default() };
        record.warm_up = run.warm_up;
        attempt.mark(planned, &mut record);
        queue.finish(attempt, valid);
        made.push(record);
    }
    queue
}

fn ids(runs: &[RunRecord]) -> Vec<&str> {
    runs.iter().map(|run| run.id.as_str()).collect()
}

#[test]
fn an_invalid_run_is_repeated_at_the_end_of_its_block() {
    let order = order(2, 0, None);
    let (first, third) = (order[0].0.clone(), order[2].0.clone());
    let bad = BTreeSet::from([first.clone(), third.clone(), format!("{first}-a2")]);
    let mut made = Vec::new();
    session(&order, 2, &mut made, 100, |id| !bad.contains(id));
    let planned: Vec<&str> = order.iter().map(|(id, _)| id.as_str()).collect();
    let (retry, other, second) = (format!("{first}-a2"), format!("{third}-a2"), format!("{first}-a3"));
    let expected = [&planned[..6], &[&retry, &other, &second], &planned[6..]].concat();
    assert_eq!(ids(&made), expected);
    let record = made.iter().find(|run| run.id == second).unwrap();
    assert_eq!((record.retry_of.as_deref(), record.attempt), (Some(first.as_str()), Some(3)));
    let record = made.iter().find(|run| run.id == first).unwrap();
    assert_eq!((record.retry_of.as_deref(), record.attempt, record.valid), (None, None, false));
    assert_eq!(made.iter().map(|run| &run.id).collect::<BTreeSet<_>>().len(), made.len());
}

/// However a study is cut into sessions, it makes the same runs in the same order.
#[test]
fn a_resumed_study_makes_the_retries_that_are_due() {
    for shard in [None, Some(Shard { number: 2, of: 2 })] {
        let order = order(4, 1, shard);
        let is_valid = |id: &str| (!id.contains("mptcp-ping") || id.ends_with("-a2")) && !id.contains("wlan");
        let mut whole = Vec::new();
        session(&order, 2, &mut whole, usize::MAX, is_valid);
        for length in 1..8 {
            let mut made = Vec::new();
            while session(&order, 2, &mut made, length, is_valid).pending_count() > 0 {}
            assert_eq!(ids(&made), ids(&whole), "sessions of {length} runs, shard {shard:?}");
        }
        // The document of `test` is in this order, too.
        let mut mixed: Vec<RunRecord> = whole.iter().rev().cloned().collect();
        AttemptQueue::resume(&order, 2, &whole).sort(&order, &mut mixed);
        assert_eq!(ids(&mixed), ids(&whole));
    }
}

#[test]
fn warm_up_runs_are_not_repeated_and_none_is_without_retries() {
    let order = order(2, 2, None);
    for (retries, is_valid) in [(2, true), (0, false)] {
        let mut made = Vec::new();
        let queue = session(&order, retries, &mut made, usize::MAX, |_| is_valid);
        assert_eq!(made.len(), order.len());
        assert_eq!((queue.due_retries().count(), queue.complete_repetitions()), (0, u32::MAX));
    }
}

/// A cause that does not pass, such as a link that never has its rate, costs `N` retries for each kind of run.
#[test]
fn a_run_that_is_never_valid_is_not_repeated_endlessly() {
    let order = order(50, 0, None);
    let mut made = Vec::new();
    session(&order, 2, &mut made, usize::MAX, |id| !id.contains("tcp@eth-bulk"));
    assert_eq!(made.len(), order.len() + 2);
    let mut of_kind: BTreeMap<bool, usize> = BTreeMap::new();
    for run in made.iter().filter(|run| run.id.contains("tcp@eth-bulk")) {
        *of_kind.entry(run.retry_of.is_some()).or_default() += 1;
    }
    assert_eq!(of_kind, BTreeMap::from([(false, 50), (true, 2)]));
    // All runs in vain: the bound holds for all kinds, and a valid run permits retries again.
    let mut made = Vec::new();
    session(&order, 2, &mut made, usize::MAX, |_| false);
    assert_eq!(made.len(), order.len() + 2 * 6);
    let mut made = Vec::new();
    session(&order, 1, &mut made, usize::MAX, |id| {
        id.contains("-r25") || id.contains("-r26-") && id.ends_with("-a2")
    });
    let repeated: BTreeSet<&str> =
        made.iter().filter(|run| run.retry_of.is_some()).map(|run| &run.id[run.id.len() - 6..]).collect();
    assert!(repeated.contains("r26-a2"), "{repeated:?}");
}

/// Two workers: the retry of a run that ends late is made at once, and no repetition is complete before it.
#[test]
fn a_retry_that_becomes_due_after_its_block_is_next() {
    let order = order(2, 0, None);
    let mut queue = AttemptQueue::resume(&order, 2, &[]);
    let begun: Vec<Attempt> = (0..7).map(|_| queue.begin().unwrap()).collect();
    for attempt in &begun[1..] {
        queue.finish(*attempt, true);
    }
    assert_eq!(queue.complete_repetitions(), 0);
    queue.finish(begun[0], false);
    assert_eq!(queue.peek(), Some(Attempt { planned: 0, number: 2 }));
    assert_eq!((queue.pending_count(), queue.pending_runs().count()), (6, 6));
    let retry = queue.begin().unwrap();
    queue.finish(retry, true);
    assert_eq!(queue.complete_repetitions(), 1);
    // Records of a hostile result.
    queue.replay(Attempt { planned: usize::MAX, number: u32::MAX }, false);
    queue.replay(Attempt { planned: 0, number: u32::MAX }, false);
}
