//! Studies in labs: killed and resumed, in shards, over several scenarios, with warm-up runs, until a time.

use crate::support::processes::signal;
use crate::support::{Dice, Workplace, captured, ended, within};
use pathbench_lab::study::{ShardJoinError, ShardResult, join};
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{ResultDocument, RunRecord, Shard, StopReason, Verdict};
use pathbench_record::sample::Sample;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::Duration;

/// Eight repetitions of two quick runs.
const STUDY: &str = r#"
[[path]]
name = "eth"
rate = "20mbit"

[[path]]
name = "wlan"
rate = "20mbit"

[run]
transports = ["tcp", "mptcp"]
duration = "300ms"
repeat = 8
"#;
/// Two variants of one path, whose goodput is in proportion to their rates.
const RATES: &str = r#"
[[path]]
name = "eth"
rate = "10mbit"
queue = "50ms"

[run]
transports = ["tcp"]
duration = "1500ms"
congestion = "cubic"

[run.throughput]
omit = "500ms"

[matrix]
"path.eth.rate" = ["10mbit", "15mbit"]
"#;
/// Longest wait for a study of 18 quick runs.
const PATIENCE: Duration = Duration::from_secs(120);

fn read(work: &Workplace, out: &str) -> ResultDirectory {
    ResultDirectory::open(&work.path().join(out)).unwrap()
}

/// What tells a run from others of its study.
fn identity(run: &RunRecord) -> (String, String, u32, bool) {
    (run.id.clone(), run.label.clone(), run.repetition, run.warm_up)
}

fn set(document: &ResultDocument) -> BTreeSet<(String, String, u32, bool)> {
    document.runs.iter().map(identity).collect()
}

/// The set of runs, complete: lines of exactly these runs, and no leftovers.
fn complete(work: &Workplace, out: &str) -> ResultDocument {
    let result = read(work, out);
    assert_eq!(result.warning, None);
    let ids: BTreeSet<String> = result.document.runs.iter().map(|run| run.id.clone()).collect();
    assert_eq!(ids.len(), result.document.runs.len(), "a run was made twice: {ids:?}");
    let samples = result.lines::<Sample>().unwrap();
    let deliveries = result.lines::<DeliveryLine>().unwrap();
    assert_eq!((&samples.warning, &deliveries.warning), (&None, &None));
    assert_eq!(samples.items.into_iter().map(|line| line.run).collect::<BTreeSet<_>>(), ids);
    for run in &result.document.runs {
        let lines = deliveries.items.iter().filter(|line| line.run == run.id);
        assert_eq!(lines.map(|line| line.bytes).sum::<u64>(), run.delivered_bytes, "{}", run.id);
    }
    result.document
}

#[test]
fn a_study_killed_five_times_and_resumed_has_the_runs_of_one_never_killed() {
    let work = Workplace::new();
    let file = work.scenario("study", STUDY);
    let options = ["lab", "run", &file, "--no-calibration", "--warm-up", "1", "--seed", "7"];
    // Beside the killed one.
    let elsewhere = Workplace::new();
    elsewhere.scenario("study", STUDY);
    let undisturbed = captured(&mut elsewhere.pathbench(&[&options[..], &["--out", "whole"]].concat()));

    let resume = [&options[..], &["--resume", "killed"]].concat();
    let records = work.path().join("killed/runs.partial.jsonl");
    let mut dice = Dice(1);
    for kill in 0..5 {
        let finished = || std::fs::read_to_string(&records).map_or(0, |text| text.lines().count());
        let before = finished();
        let mut front = captured(&mut work.pathbench(&resume));
        // At a random moment after the session's first or second run, and thus before the end.
        let made = 1 + dice.below(2) as usize;
        let is_time = || finished() >= before + made || front_ended(&mut front);
        assert!(within(PATIENCE, is_time), "kill {kill}: no run was made");
        assert!(!front_ended(&mut front), "kill {kill}: {:#?}", front.wait_with_output());
        std::thread::sleep(Duration::from_millis(dice.below(300)));
        signal(front.id() as i32, Signal::KILL);
        front.wait().unwrap();
        assert!(work.left_behind().is_empty(), "kill {kill}");
        assert!(read(&work, "killed").warning.is_some(), "kill {kill}: it was finished");
    }
    work.run(&resume).expect(0);
    ended(undisturbed).expect(0);
    let whole = complete(&elsewhere, "whole");
    assert_eq!(whole.runs.len(), 18);
    let killed = complete(&work, "killed");
    assert_eq!(set(&killed), set(&whole));
    let order = |document: &ResultDocument| document.runs.iter().map(identity).collect::<Vec<_>>();
    assert_eq!(order(&killed), order(&whole));
    assert_eq!(killed.seed, whole.seed);
    let study = killed.study.unwrap();
    assert_eq!((study.sessions.len(), study.stopped), (6, Some(StopReason::Completed)));
    assert_eq!(study.identity, whole.study.unwrap().identity);

    // All runs are made: the command shows the result.
    let shown = work.run(&resume).expect(0);
    assert!(shown.stdout.contains("study"), "{shown:#?}");
}

fn front_ended(front: &mut std::process::Child) -> bool {
    front.try_wait().unwrap().is_some()
}

#[test]
fn a_study_ends_when_it_is_precise_and_not_before_six_valid_runs() {
    let work = Workplace::new();
    let file = work.scenario("study", STUDY);
    let options = ["lab", "run", &file, "--no-calibration", "--transports", "tcp", "--warm-up", "1"];
    work.run(&[&options[..], &["--until-ci", "5%", "--repeat", "5"]].concat())
        .expect(2)
        .reports(&["needs 6 repetitions"]);
    // The rate of the link decides the goodput.
    work.run(&[&options[..], &["--until-ci", "50%", "--repeat", "20", "--out", "rough"]].concat()).expect(0);
    let rough = complete(&work, "rough");
    let study = rough.study.as_ref().unwrap();
    assert_eq!((study.planned_runs, study.until_ci_percent), (20, Some(50.0)));
    assert_eq!(study.stopped, Some(StopReason::Precision));
    assert_eq!(rough.runs.iter().filter(|run| run.warm_up).count(), 1);
    let valid = rough.runs.iter().filter(|run| run.valid).count();
    assert!((6..20).contains(&valid), "{valid}");
    let notes = rough.summary.notes.join("\n");
    let missing = format!("{} of 21 runs were not made", 21 - rough.runs.len());
    assert!(notes.contains("as precise as requested") && notes.contains(&missing), "{notes}");

    let precise = ["--until-ci", "0.0001%", "--repeat", "7", "--out", "precise"];
    work.run(&[&options[..], &precise].concat()).expect(0);
    let precise = complete(&work, "precise");
    assert_eq!((precise.runs.len(), precise.study.unwrap().stopped), (8, Some(StopReason::Completed)));
}

#[test]
fn a_study_finds_one_and_a_half_times_the_rate_with_its_size() {
    let work = Workplace::new();
    let file = work.scenario("rates", RATES);
    let options = ["--repeat", "6", "--seed", "3", "--jobs", "3", "--no-calibration", "--out", "out"];
    let finished = work.run(&[&["lab", "run", &file][..], &options].concat()).expect(0);
    let document = complete(&work, "out");
    let [stall, goodput] = ["stall_ms", "goodput_mbps"].map(|figure| {
        let mut all = document.summary.comparisons.iter();
        all.find(|one| one.figure == figure).unwrap_or_else(|| panic!("no {figure}: {finished:#?}"))
    });
    assert_eq!((goodput.verdict, goodput.pairs, goodput.adjusted), (Verdict::Different, Some(6), true));
    let (ratio, [low, high]) = (goodput.ratio.unwrap(), goodput.ci95.unwrap());
    assert!((1.4..1.6).contains(&ratio) && (1.2..=ratio).contains(&low) && high < 1.9, "{goodput:?}");
    assert_eq!(goodput.cliffs_delta, Some(1.0));
    assert_eq!(stall.pairs, Some(6));
    let words = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("× the goodput of tcp · eth.rate=10mbit (95 % CI 1."), "{finished:#?}");
    assert!(words.contains(", 6 pairs): different"), "{finished:#?}");
}

#[test]
fn a_resumption_names_the_arguments_that_differ() {
    let work = Workplace::new();
    let file = work.scenario("study", &STUDY.replace("repeat = 8", "repeat = 2"));
    let options = ["lab", "run", &file, "--no-calibration", "--resume", "out"];
    work.run(&[&options[..], &["--time-limit", "10ms"]].concat()).expect(0);
    let stopped = read(&work, "out");
    let study = stopped.document.study.unwrap();
    // The first run always begins; nothing else fits.
    assert_eq!((stopped.document.runs.len(), study.stopped), (1, Some(StopReason::TimeLimit)));
    let notes = stopped.document.summary.notes.join("\n");
    assert!(notes.contains("time limit") && notes.contains("3 of 4 runs were not made"), "{notes}");
    for (different, name) in [
        (&["--seed", "9"][..], "the seed: 1, not 9"),
        (&["--repeat", "3"], "the number of repetitions: 2, not 3"),
        (&["--warm-up", "1"], "the number of warm-up repetitions: 0, not 1"),
        (&["--set", "path.eth.rate=10mbit"], "the overrides"),
        (&["--shard", "1/2"], "the shard: none, not 1/2"),
    ] {
        work.run(&[&options[..], different].concat()).expect(2).reports(&["holds another study", name]);
    }
    work.run(&options).expect(0);
    assert_eq!(complete(&work, "out").runs.len(), 4);
}

#[test]
fn shards_have_disjoint_repetitions_of_the_whole_study() {
    let work = Workplace::new();
    let file = work.scenario("study", &STUDY.replace("repeat = 8", "repeat = 3"));
    let options = ["lab", "run", &file, "--no-calibration"];
    work.run(&[&options[..], &["--shard", "2/4", "--out", "none"]].concat())
        .expect(2)
        .reports(&["raise --repeat"]);
    let both = ["--shard", "1/2", "--until-ci", "5%", "--out", "none"];
    work.run(&[&options[..], &both].concat()).expect(2).reports(&["cannot be used with"]);
    work.run(&[&options[..], &["--out", "whole"]].concat()).expect(0);
    let whole = complete(&work, "whole");
    let mut union = BTreeSet::new();
    for (shard, repetitions) in [("1/2", [1, 3].as_slice()), ("2/2", &[2])] {
        let out = format!("shard-{}", &shard[..1]);
        work.run(&[&options[..], &["--shard", shard, "--out", &out]].concat()).expect(0);
        let part = complete(&work, &out);
        assert!(part.runs.iter().all(|run| repetitions.contains(&run.repetition)), "{shard}");
        let study = part.study.as_ref().unwrap();
        assert_eq!(study.identity, whole.study.as_ref().unwrap().identity);
        assert_eq!((study.planned_runs, study.shard.unwrap().to_string()), (6, shard.to_owned()));
        union.extend(set(&part));
    }
    assert_eq!(union, set(&whole));

    // The order of the names does not count.
    work.run(&["report", "shard-2", "shard-1", "--out", "joined"]).expect(0);
    let joined = complete(&work, "joined");
    assert!(work.path().join("joined/report.html").exists());
    let order = |document: &ResultDocument| document.runs.iter().map(identity).collect::<Vec<_>>();
    assert_eq!(order(&joined), order(&whole));
    let groups = |document: &ResultDocument| {
        let groups =
            document.summary.groups.iter().map(|one| (one.label.clone(), one.pattern.clone(), one.runs));
        groups.collect::<BTreeSet<_>>()
    };
    assert_eq!(groups(&joined), groups(&whole));
    let study = joined.study.unwrap();
    assert_eq!((study.identity, study.shard), (whole.study.unwrap().identity, None));
    assert_eq!(study.stopped, Some(StopReason::Completed));
    assert_eq!(study.joined.iter().map(|one| (one.number, one.runs)).collect::<Vec<_>>(), [(1, 4), (2, 2)]);
    for shard in ["shard-1", "shard-2"] {
        let (part, all) = (read(&work, shard), read(&work, "joined"));
        for run in &part.document.runs {
            let of_run = |result: &ResultDirectory| {
                let mut lines = result.lines::<Sample>().unwrap().items;
                lines.retain(|line| line.run == run.id);
                lines
            };
            assert_eq!(of_run(&part), of_run(&all), "{}", run.id);
        }
    }
    refuses_what_does_not_belong_together(&work, &options);
}

fn refuses_what_does_not_belong_together(work: &Workplace, options: &[&str]) {
    std::fs::create_dir(work.path().join("copy")).unwrap();
    for entry in std::fs::read_dir(work.path().join("shard-1")).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), work.path().join("copy").join(entry.file_name())).unwrap();
    }
    let other = ["--shard", "2/2", "--seed", "9", "--time-limit", "1ms", "--out", "other"];
    work.run(&[options, &other].concat()).expect(0);
    for (names, part) in [
        (["shard-1", "copy"].as_slice(), "are both shard 1/2"),
        (&["shard-1", "other"], "the seed: "),
        (&["shard-1", "whole"], "whole is no shard of a study"),
        (&["shard-1", "shard-2", "joined"], "joined is no shard of a study"),
    ] {
        let refused = work.run(&[&["report", "--out", "wrong"], names].concat()).expect(2);
        assert!(refused.stderr.contains(part), "{names:?}: {refused:#?}");
        assert!(!work.path().join("wrong").exists(), "{names:?}");
    }
    work.run(&["report", "shard-2", "--partial", "--out", "half"]).expect(0);
    let half = complete(work, "half");
    assert_eq!((half.runs.len(), half.study.unwrap().stopped), (2, None));
}

/// A whole result that is split and joined again has the same runs and the same summary.
#[test]
fn a_split_result_joined_is_the_whole_again() {
    let work = Workplace::new();
    let file = work.scenario("study", &STUDY.replace("repeat = 8", "repeat = 7"));
    work.run(&["lab", "run", &file, "--no-calibration", "--jobs", "2", "--out", "whole"]).expect(0);
    let whole = complete(&work, "whole");
    let part = |number: u32| {
        let shard = Shard { number, of: 3 };
        let mut document = whole.clone();
        document.runs.retain(|run| shard.has(run.repetition));
        document.study.as_mut().unwrap().shard = Some(shard);
        ShardResult { directory: format!("shard-{number}").into(), document }
    };
    let joined = join([2, 3, 1].map(part).to_vec(), false).unwrap();
    assert_eq!(joined.runs, whole.runs);
    assert_eq!(joined.summary, whole.summary);
    assert!(!joined.summary.comparisons.is_empty());
    assert_eq!(joined.links, whole.links);
    let error = join([3, 1].map(part).to_vec(), false).unwrap_err().to_string();
    assert_eq!(error, "1 of 3 shards is missing: 2; name them, too, or join the others with --partial");
    let mut foreign = part(2);
    foreign.document.runs[0].repetition += 1;
    assert!(matches!(join(vec![part(1), foreign], true), Err(ShardJoinError::Foreign { .. })));
    let mut unfinished = part(2);
    unfinished.document.study.as_mut().unwrap().stopped = Some(StopReason::User);
    assert!(matches!(
        join(vec![part(1), unfinished, part(3)], false),
        Err(ShardJoinError::Unfinished { .. })
    ));
}

#[test]
fn several_scenarios_are_one_study_with_a_result_each() {
    let work = Workplace::new();
    let quick = STUDY.replace("repeat = 8", "repeat = 2");
    let files = [work.scenario("one", &quick), work.scenario("two", &quick)];
    let options = ["lab", "run", &files[0], &files[1], "--no-calibration", "--out", "out"];
    let finished = work.run(&options).expect(0).reports(&["one, two: 8 runs"]);
    let numbers: Vec<usize> = (1..=8)
        .map(|number| {
            finished.stderr.find(&format!("run {number} of 8")).unwrap_or_else(|| panic!("{finished:#?}"))
        })
        .collect();
    assert!(numbers.is_sorted());
    for name in ["one", "two"] {
        let document = complete(&work, &format!("out/{name}"));
        assert_eq!((document.runs.len(), document.scenario.name.as_str()), (4, name));
    }
}
