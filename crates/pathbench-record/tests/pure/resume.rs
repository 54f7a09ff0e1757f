//! Studies whose command was killed, at any moment, and continued: no finished run is lost or made twice.

use crate::document;
use crate::lines;

use pathbench_record::directory::{
    CreateError, ReadError, ResultDirectory, ResultWriter, ResumeError, Resumed,
};
use pathbench_record::document::{
    ResultDocument, RunRecord, Shard, StopReason, StudyRecord, identity_differences, study_identity,
};
use pathbench_record::event::Event;
use pathbench_record::sample::Sample;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// What the tests do to a document that differs from the study's.
type Change = fn(&mut ResultDocument);

fn header() -> ResultDocument {
    let study = StudyRecord { planned_runs: 4, repetitions: 2, ..StudyRecord::default() };
    ResultDocument { runs: Vec::new(), study: Some(study), ..document::document() }
}

fn record(id: &str) -> RunRecord {
    RunRecord { id: id.to_owned(), ..document::document().runs.remove(0) }
}

fn samples(id: &str) -> Vec<Sample> {
    lines::samples().into_iter().map(|line| Sample { run: id.to_owned(), ..line }).collect()
}

fn write_run(writer: &mut ResultWriter, id: &str) {
    writer.append(&samples(id)).unwrap();
    writer.append_run(&record(id)).unwrap();
}

/// A killed study with the runs `a` and `b`, and some lines of the run `c`.
fn killed(dir: &Path) {
    let mut writer = ResultWriter::create(dir).unwrap();
    writer.begin_runs(&header()).unwrap();
    write_run(&mut writer, "a");
    write_run(&mut writer, "b");
    writer.append(&samples("c")).unwrap();
    writer
        .append(
            &lines::events()
                .into_iter()
                .map(|event| Event { run: "c".to_owned(), ..event })
                .collect::<Vec<_>>(),
        )
        .unwrap();
}

fn append(file: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(file).unwrap().write_all(bytes).unwrap();
}

fn resume(dir: &Path) -> (ResultWriter, ResultDocument) {
    match ResultWriter::resume(dir, |_| true).unwrap() {
        Resumed::Unfinished(writer, Some(document)) => (writer, *document),
        other => panic!("{other:?}"),
    }
}

fn ids(document: &ResultDocument) -> Vec<&str> {
    document.runs.iter().map(|run| run.id.as_str()).collect()
}

#[test]
fn an_unfinished_study_opens_with_its_finished_runs() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    killed(&dir);
    let result = ResultDirectory::open(&dir).unwrap();
    assert_eq!(ids(&result.document), ["a", "b"]);
    assert_eq!(result.document.summary.groups[0].runs, 2);
    assert!(result.warning.unwrap().contains("it holds the 2 runs that were"));
}

#[test]
fn a_resumed_study_has_every_run_once_and_only_lines_of_finished_runs() {
    // Killed while a line, and while a record was written.
    for cut in ["", "samples.jsonl", "runs.partial.jsonl"] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("result");
        killed(&dir);
        if !cut.is_empty() {
            append(&dir.join(cut), b"{\"id\":\"c\",\"run\":\"c\",\"t_ms\":1");
        }
        assert_eq!(ids(&ResultDirectory::open(&dir).unwrap().document), ["a", "b"], "{cut}");
        let (mut writer, mut found) = resume(&dir);
        assert_eq!(ids(&found), ["a", "b"], "{cut}");
        assert_eq!(found.study, header().study);
        assert_eq!(fs::read(dir.join("events.jsonl")).unwrap(), b"");

        writer.begin_runs(&found).unwrap();
        write_run(&mut writer, "c");
        found.runs.push(record("c"));
        drop(writer);
        // Killed again.
        let (mut writer, mut found) = resume(&dir);
        assert_eq!(ids(&found), ["a", "b", "c"], "{cut}");
        write_run(&mut writer, "d");
        found.runs.push(record("d"));
        found.study.as_mut().unwrap().stopped = Some(StopReason::Completed);
        writer.finish(&found).unwrap();

        let result = ResultDirectory::open(&dir).unwrap();
        assert_eq!((ids(&result.document), result.warning.as_ref()), (vec!["a", "b", "c", "d"], None));
        let expected: Vec<Sample> = ["a", "b", "c", "d"].into_iter().flat_map(samples).collect();
        assert_eq!(result.lines::<Sample>().unwrap().items, expected, "{cut}");
        let mut names: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["delivery.jsonl", "events.jsonl", "run.json", "samples.jsonl"]);
        assert!(matches!(ResultWriter::resume(&dir, |_| true).unwrap(), Resumed::Finished(_)), "{cut}");
        assert!(!dir.join("runs.partial.jsonl").exists());
    }
}

#[test]
fn only_one_process_writes_a_result() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    assert!(matches!(ResultWriter::resume(&dir, |_| true).unwrap_err(), ResumeError::Busy { .. }));
    writer.begin_runs(&header()).unwrap();
    write_run(&mut writer, "a");
    let error = ResultWriter::resume(&dir, |_| true).unwrap_err();
    assert!(
        matches!(error, ResumeError::Busy { .. }) && error.to_string().contains("another process"),
        "{error}"
    );
    assert!(matches!(ResultWriter::create(&dir).unwrap_err(), CreateError::HoldsResult { .. }));
    drop(writer);
    assert_eq!(ids(&resume(&dir).1), ["a"]);
}

#[test]
fn a_study_that_was_stopped_in_good_order_can_be_resumed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    killed(&dir);
    let (writer, mut found) = resume(&dir);
    let stopped = RunRecord { invalid_because: vec!["stopped".to_owned()], valid: false, ..record("b") };
    found.runs[1] = stopped;
    found.study.as_mut().unwrap().stopped = Some(StopReason::User);
    writer.finish(&found).unwrap();

    let resumed = ResultWriter::resume(&dir, |run| run.invalid_because != ["stopped"]).unwrap();
    let Resumed::Unfinished(mut writer, Some(found)) = resumed else { panic!("{resumed:?}") };
    assert_eq!(ids(&found), ["a"]);
    assert_eq!(
        ResultDirectory::open(&dir).unwrap().warning,
        None,
        "the earlier result stays until runs begin"
    );
    writer.begin_runs(&found).unwrap();
    let open = ResultDirectory::open(&dir).unwrap();
    assert_eq!(ids(&open.document), ["a"]);
    assert_eq!(open.lines::<Sample>().unwrap().items, samples("a"));
}

#[test]
fn a_study_killed_before_its_first_document_begins_anew() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    drop(ResultWriter::create(&dir).unwrap());
    let resumed = ResultWriter::resume(&dir, |_| true).unwrap();
    assert!(matches!(resumed, Resumed::Unfinished(_, None)), "{resumed:?}");
}

#[test]
fn damaged_and_other_directories_are_rejected_with_the_place() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let nothing = ResultWriter::resume(parent.path(), |_| true).unwrap_err();
    assert!(matches!(nothing, ResumeError::NotResumable { .. }), "{nothing}");

    killed(&dir);
    let records = dir.join("runs.partial.jsonl");
    let whole = fs::read_to_string(&records).unwrap();
    fs::write(&records, whole.replacen("\"id\"", "id", 1)).unwrap();
    let error = ResultWriter::resume(&dir, |_| true).unwrap_err();
    assert!(error.to_string().contains("runs.partial.jsonl:1: "), "{error}");
    assert!(matches!(ResultDirectory::open(&dir).unwrap_err(), ReadError::Broken { line: 1, .. }));
    fs::write(&records, &whole).unwrap();

    let partial = dir.join("run.partial.json");
    let text = fs::read(&partial).unwrap();
    fs::write(&partial, &text[..text.len() / 2]).unwrap();
    let error = ResultWriter::resume(&dir, |_| true).unwrap_err();
    assert!(error.to_string().contains("run.partial.json:"), "{error}");
    assert_eq!(fs::read_to_string(&records).unwrap(), whole, "nothing was removed");
    fs::write(&partial, &text).unwrap();

    append(&dir.join("samples.jsonl"), b"nonsense\n");
    let error = ResultWriter::resume(&dir, |_| true).unwrap_err();
    assert!(error.to_string().contains("samples.jsonl:13: "), "{error}");
}

#[test]
fn the_identity_is_that_of_the_set_of_runs() {
    let same: [Change; 5] = [
        |document| document.host.kernel = "another".to_owned(),
        |document| document.host.started = "another".to_owned(),
        |document| document.study.as_mut().unwrap().shard = Some(Shard { number: 2, of: 2 }),
        |document| document.study.as_mut().unwrap().time_limit_ms = Some(1.0),
        |document| {
            document.scenario.overrides.insert("run.repeat".to_owned(), 2.into());
        },
    ];
    for (number, change) in same.into_iter().enumerate() {
        let mut changed = header();
        change(&mut changed);
        assert_eq!(identity_differences(&header(), &changed), Vec::<String>::new(), "change {number}");
        assert_eq!(study_identity(&header()), study_identity(&changed), "change {number}");
    }
    let other: [(Change, &str); 8] = [
        (|document| document.seed = 99, "the seed: 1, not 99"),
        (|document| document.scenario.text.push('\n'), "the text of the scenario"),
        (|document| document.study.as_mut().unwrap().repetitions = 3, "the number of repetitions: 2, not 3"),
        (
            |document| document.study.as_mut().unwrap().warm_up = 1,
            "the number of warm-up repetitions: 0, not 1",
        ),
        (|document| document.study.as_mut().unwrap().labels.push("tcp".to_owned()), "the transports: "),
        (|document| document.host.pathbench = "9.9".to_owned(), "the version of Pathbench: "),
        (|document| document.servers.clear(), "the servers"),
        (
            |document| {
                document.scenario.overrides.insert("path.wlan.rate".to_owned(), "1mbit".into());
            },
            "the overrides",
        ),
    ];
    for (change, difference) in other {
        let mut changed = header();
        change(&mut changed);
        let found = identity_differences(&header(), &changed);
        assert!(found.len() == 1 && found[0].starts_with(difference), "{difference}: {found:?}");
        assert_ne!(study_identity(&header()), study_identity(&changed), "{difference}");
    }
}

#[test]
fn shards_are_whole_repetitions() {
    let shards: Vec<Shard> = (1..=3).map(|number| Shard { number, of: 3 }).collect();
    for repetition in 1..=10 {
        let having: Vec<u32> =
            shards.iter().filter(|shard| shard.has(repetition)).map(|shard| shard.number).collect();
        assert_eq!(having, [(repetition - 1) % 3 + 1]);
    }
    assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
    for wrong in ["", "2", "0/8", "9/8", "1/0", "a/b", "-1/2"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}

#[test]
fn a_study_that_was_stopped_early_has_further_runs() {
    for (reason, is_resumable) in [
        (StopReason::Completed, false),
        (StopReason::Precision, false),
        (StopReason::TimeLimit, true),
        (StopReason::User, true),
        (StopReason::Server, true),
    ] {
        assert_eq!(reason.is_resumable(), is_resumable, "{reason:?}");
    }
}
