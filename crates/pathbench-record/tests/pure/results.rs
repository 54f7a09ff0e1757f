//! The result directory: written results are readable, after a crash, too; old results stay
//! readable.

use crate::document as example;
use crate::lines;

use example::{emulated, path_mtu};
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::directory::{
    CreateError, ReadError, ResultDirectory, ResultWriter, read_sequences, read_trace, write_sequences,
    write_trace,
};
use pathbench_record::document::{LinkSample, ProbeLine, ResultDocument};
use pathbench_record::end::MessageLine;
use pathbench_record::event::Event;
use pathbench_record::sample::Sample;
use pathbench_record::trace::{SequenceLine, TraceDocument};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Fields whose keys are data (path names, matrix keys, figure names), not part of the schema.
const MAPS: [&str; 21] = [
    "self",
    "foreign",
    "path",
    "phases",
    "path_upload_mbps",
    "path_download_mbps",
    "given",
    "overrides",
    "variant",
    "counters",
    "cpu",
    "shares",
    "asked",
    "in_force",
    "figures",
    "detail",
    "client",
    "dropped_packets",
    "middlebox",
    "reasons",
    "max_delay_ratios",
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn write_example(dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut writer = ResultWriter::create(dir)?;
    writer.append(&lines::samples())?;
    writer.append(&lines::events())?;
    writer.append(&lines::deliveries())?;
    let messages = lines::messages();
    writer.append(&messages[..1])?;
    writer.append(&messages[1..])?;
    writer.append(&lines::link_samples())?;
    let probes = lines::probe_lines();
    writer.append(&probes[..2])?;
    writer.append(&probes[2..])?;
    Ok(writer.finish(&example::document())?)
}

#[test]
fn a_written_result_can_be_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("not/yet/there");
    let document = write_example(&dir).unwrap();
    assert_eq!(document, dir.join("run.json"));
    for path in [&dir, &document] {
        let result = ResultDirectory::open(path).unwrap();
        assert_eq!(result.document, example::document());
        assert_eq!((&result.path, result.warning.as_ref()), (&dir, None));
        let (samples, events, deliveries) = (
            result.lines::<Sample>().unwrap(),
            result.lines::<Event>().unwrap(),
            result.lines::<DeliveryLine>().unwrap(),
        );
        assert_eq!((samples.items, samples.warning), (lines::samples(), None));
        assert_eq!((events.items, events.warning), (lines::events(), None));
        assert_eq!((deliveries.items, deliveries.warning), (lines::deliveries(), None));
        let messages = result.messages().unwrap();
        assert_eq!((messages.items, messages.warning), (lines::messages(), None));
        let (links, probes) = (result.lines::<LinkSample>().unwrap(), result.lines::<ProbeLine>().unwrap());
        assert_eq!((links.items, links.warning), (lines::link_samples(), None));
        assert_eq!((probes.items, probes.warning), (lines::probe_lines(), None));
    }
    let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "delivery.jsonl",
            "events.jsonl",
            "links.jsonl",
            "messages.jsonl",
            "probes.jsonl",
            "run.json",
            "samples.jsonl"
        ]
    );
}

#[test]
fn a_missing_file_is_reported_only_if_a_run_needs_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    writer.append::<MessageLine>(&[]).unwrap();
    writer.append::<LinkSample>(&[]).unwrap();
    writer.append::<ProbeLine>(&[]).unwrap();
    let mut document = example::document();
    let run = &mut document.runs[0];
    (run.delay_ms, run.ping, run.probes) = (None, None, Vec::new());
    run.links[0].emulation = None;
    writer.finish(&document).unwrap();
    let result = ResultDirectory::open(&dir).unwrap();
    let (messages, links, probes) = (
        result.messages().unwrap(),
        result.lines::<LinkSample>().unwrap(),
        result.lines::<ProbeLine>().unwrap(),
    );
    assert_eq!((messages.items.len(), messages.warning), (0, None));
    assert_eq!((links.items.len(), links.warning), (0, None));
    assert_eq!((probes.items.len(), probes.warning), (0, None));

    // Where a run has delays, emulated links or probes, the lines are missed.
    let dir = parent.path().join("lost");
    write_example(&dir).unwrap();
    for name in ["messages.jsonl", "links.jsonl", "probes.jsonl"] {
        assert!(!parent.path().join("result").join(name).exists(), "{name}");
        fs::remove_file(dir.join(name)).unwrap();
    }
    let result = ResultDirectory::open(&dir).unwrap();
    let warnings = [
        result.messages().unwrap().warning.unwrap(),
        result.lines::<LinkSample>().unwrap().warning.unwrap(),
        result.lines::<ProbeLine>().unwrap().warning.unwrap(),
    ];
    assert!(warnings[0].ends_with("messages.jsonl is missing"), "{warnings:?}");
    assert!(warnings[1].ends_with("links.jsonl is missing"), "{warnings:?}");
    assert!(warnings[2].ends_with("probes.jsonl is missing"), "{warnings:?}");
}

#[test]
fn nothing_is_ever_overwritten() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    write_example(&dir).unwrap();
    let error = ResultWriter::create(&dir).unwrap_err();
    assert!(matches!(error, CreateError::HoldsResult { .. }), "{error:?}");
    assert!(error.to_string().contains("--out"), "{error}");

    let other = parent.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.tex"), "years of work").unwrap();
    let error = ResultWriter::create(&other).unwrap_err();
    assert!(matches!(error, CreateError::NotEmpty { .. }), "{error:?}");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);

    let file = other.join("thesis.tex");
    assert!(matches!(ResultWriter::create(&file).unwrap_err(), CreateError::NotADirectory { .. }));
    let below = ResultWriter::create(&file.join("below")).unwrap_err();
    assert!(matches!(below, CreateError::Io { .. }), "{below:?}");
}

#[test]
fn two_commands_of_one_second_get_two_directories() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("failover-20261121-203354");
    let writers: Vec<_> = (0..3).map(|_| ResultWriter::create_beside(&dir).unwrap()).collect();
    let names: Vec<_> = writers.iter().map(|w| w.path.file_name().unwrap().to_owned()).collect();
    assert_eq!(
        names,
        ["failover-20261121-203354", "failover-20261121-203354-2", "failover-20261121-203354-3"]
    );
}

#[test]
fn a_crash_loses_nothing_that_was_finished() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    assert!(matches!(ResultDirectory::open(&dir).unwrap_err(), ReadError::NotAResult { .. }));
    writer.append(&lines::samples()).unwrap();
    writer.append(&lines::events()).unwrap();
    writer.append(&lines::deliveries()).unwrap();
    writer.write_partial(&example::document()).unwrap();
    drop(writer);
    // The next run's lines were being written.
    let samples = dir.join("samples.jsonl");
    let whole = fs::read(&samples).unwrap();
    fs::write(&samples, [&whole[..], b"{\"run\":\"02-tcp-r1\",\"t_ms\":0.0,\"ho"].concat()).unwrap();

    let result = ResultDirectory::open(&dir).unwrap();
    assert_eq!(result.document, example::document());
    assert!(result.warning.as_ref().unwrap().contains("never finished"), "{:?}", result.warning);
    let read = result.lines::<Sample>().unwrap();
    assert_eq!(read.items, lines::samples());
    let warning = read.warning.unwrap();
    assert!(warning.contains("samples.jsonl:5: the last line is cut off"), "{warning}");
    assert_eq!(result.lines::<Event>().unwrap().warning, None);
}

#[test]
fn a_broken_line_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    write_example(&dir).unwrap();
    let events = dir.join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    let mut text_lines: Vec<&str> = text.lines().collect();
    text_lines[2] = "{\"run\": 7}";
    fs::write(&events, text_lines.join("\n") + "\n").unwrap();
    let error = ResultDirectory::open(&dir).unwrap().lines::<Event>().unwrap_err();
    assert!(matches!(error, ReadError::Broken { line: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("events.jsonl:3: "), "{error}");

    fs::write(dir.join("delivery.jsonl"), b"\xff\xfe\n").unwrap();
    assert!(ResultDirectory::open(&dir).unwrap().lines::<DeliveryLine>().is_err());
    fs::remove_file(dir.join("delivery.jsonl")).unwrap();
    let missing = ResultDirectory::open(&dir).unwrap().lines::<DeliveryLine>().unwrap();
    assert!(missing.items.is_empty() && missing.warning.unwrap().ends_with("delivery.jsonl is missing"));
}

#[test]
fn only_a_result_of_a_known_version_opens() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let file = write_example(&dir).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let opened = |schema: &str| {
        fs::write(&file, text.replace("\"pathbench.result/1\"", schema)).unwrap();
        ResultDirectory::open(&dir)
    };
    assert!(opened("\"pathbench.result/1\"").is_ok());
    let newer = opened("\"pathbench.result/2\"").unwrap_err();
    assert!(matches!(newer, ReadError::Newer { .. }), "{newer:?}");
    assert!(newer.to_string().contains("newer Pathbench (schema pathbench.result/2"), "{newer}");
    for other in ["\"pathbench.result/0\"", "\"pathbench.result/x\"", "\"pathbench\"", "null"] {
        let error = opened(other).unwrap_err();
        assert!(matches!(error, ReadError::OtherDocument { .. }), "{other}: {error:?}");
    }
    fs::write(&file, "{\n  \"schema\": \"pathbench.result/1\",\n  nonsense").unwrap();
    let error = ResultDirectory::open(&dir).unwrap_err();
    assert!(matches!(error, ReadError::Broken { line: 3, .. }), "{error:?}");
    assert!(matches!(ResultDirectory::open(parent.path()).unwrap_err(), ReadError::NotAResult { .. }));
    let nowhere = ResultDirectory::open(&parent.path().join("nowhere")).unwrap_err();
    assert!(matches!(nowhere, ReadError::NotAResult { .. }), "{nowhere:?}");
}

#[test]
fn a_written_analysis_of_captures_can_be_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let document = TraceDocument {
        schema: "pathbench.trace/1".to_owned(),
        started: "2026-11-21T20:33:54Z".to_owned(),
        duration_s: 1.25,
        ..TraceDocument::default()
    };
    let file = write_trace(dir, &document).unwrap();
    assert_eq!(file, dir.join("trace.json"));
    for path in [dir, &file] {
        assert_eq!(read_trace(path).unwrap(), document);
    }
    fs::write(&file, "{\"schema\":\"pathbench.trace/2\"}").unwrap();
    assert!(matches!(read_trace(&file), Err(ReadError::Newer { .. })));

    assert_eq!(read_sequences(dir).unwrap(), (Vec::new(), None), "no file");
    let line = |connection| SequenceLine {
        connection,
        subflow: Some(1),
        direction: "upload".to_owned(),
        acknowledgments: vec![(0.5, 1_449)],
        thinned: 1,
        ..SequenceLine::default()
    };
    let file = write_sequences(dir, &[line(1), line(2)]).unwrap();
    assert_eq!(file, dir.join("sequence.jsonl"));
    assert_eq!(read_sequences(dir).unwrap(), (vec![line(1), line(2)], None));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 9]).unwrap();
    let (lines, warning) = read_sequences(dir).unwrap();
    assert_eq!(lines, [line(1)]);
    assert!(warning.unwrap().contains("sequence.jsonl:2: the last line is cut off"));
}

/// Adds a field that this version does not know to every object that is not a map of data.
fn add_unknown(value: &mut Value) {
    match value {
        // Sizes of packets, which are numbers, are data.
        Value::Object(fields) if fields.keys().all(|key| key.parse::<u32>().is_ok()) => {}
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if !MAPS.contains(&key.as_str()) {
                    add_unknown(field);
                }
            }
            fields.insert("from_the_future".to_owned(), Value::from(1));
        }
        Value::Array(items) => items.iter_mut().for_each(add_unknown),
        _ => {}
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let mut value = serde_json::to_value(example::document()).unwrap();
    add_unknown(&mut value);
    let document: ResultDocument = serde_json::from_value(value).unwrap();
    assert_eq!(document, example::document());
    for line in lines::samples() {
        let mut value = serde_json::to_value(&line).unwrap();
        add_unknown(&mut value);
        assert_eq!(serde_json::from_value::<Sample>(value).unwrap(), line);
    }
}

#[test]
fn additions_to_the_first_schema_stay_readable() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-messages");
    let result = ResultDirectory::open(&dir).unwrap();
    let text = fs::read_to_string(dir.join("run.json")).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_within(&stored, &serde_json::to_value(&result.document).unwrap(), "run.json");
    let run = &result.document.runs[0];
    assert!(run.encrypted && run.touched_by.len() == 1 && result.document.servers[0].chosen);
    assert_eq!(run.delay_ms.as_ref().map(|delay| (delay.messages, delay.unacknowledged)), Some((100, 1)));
    assert_eq!(result.document.summary.groups[0].pattern, "throughput");
    assert_eq!(result.messages().unwrap().items, lines::messages());
    let figures = &result.lines::<Sample>().unwrap().items[0].figures;
    assert_eq!((figures.path_id, figures.lost_bytes, figures.black_holes), (Some(1), Some(1_200), Some(1)));
}

#[test]
fn emulated_links_and_handovers_stay_readable() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-emulated");
    let result = ResultDirectory::open(&dir).unwrap();
    let text = fs::read_to_string(dir.join("run.json")).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_within(&stored, &serde_json::to_value(&result.document).unwrap(), "run.json");
    let run = &result.document.runs[0];
    assert_eq!(run.handover, Some(emulated::handover()));
    assert_eq!(run.links[0].emulation, Some(emulated::emulation()));
    assert_eq!(
        (&run.probes, &result.document.summary.mobility[0]),
        (&emulated::probes(), &emulated::mobility())
    );
    assert_eq!(result.lines::<LinkSample>().unwrap().items, lines::link_samples());
    assert_eq!(result.lines::<ProbeLine>().unwrap().items, lines::probe_lines());
}

#[test]
fn path_mtus_and_diagnoses_stay_readable() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-mtu");
    let result = ResultDirectory::open(&dir).unwrap();
    let text = fs::read_to_string(dir.join("run.json")).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_within(&stored, &serde_json::to_value(&result.document).unwrap(), "run.json");
    let run = &result.document.runs[0];
    assert_eq!(result.document.mtu, Some(path_mtu::examination()));
    let mut routers = path_mtu::routers();
    // The file is older than the field.
    routers[0].middlebox.clear();
    assert_eq!((&run.diagnoses, &run.routers), (&path_mtu::diagnoses(), &routers));
    assert_eq!(run.links[0].packet_sizes, Some(path_mtu::packet_sizes()));
}

/// Asserts that `now` has everything that `stored` has, with the same values; it may have more.
fn assert_within(stored: &Value, now: &Value, place: &str) {
    match (stored, now) {
        (Value::Object(stored), Value::Object(now)) => {
            for (key, value) in stored {
                let found = now.get(key).unwrap_or_else(|| panic!("{place}.{key} got lost"));
                assert_within(value, found, &format!("{place}.{key}"));
            }
        }
        (Value::Array(stored), Value::Array(now)) => {
            assert_eq!(stored.len(), now.len(), "{place}");
            stored.iter().zip(now).for_each(|(stored, now)| assert_within(stored, now, place));
        }
        _ => assert_eq!(stored, now, "{place}"),
    }
}

#[test]
fn the_first_schema_stays_readable() {
    let result = ResultDirectory::open(&golden()).unwrap();
    let document = &result.document;
    assert_eq!(document.schema, "pathbench.result/1");
    let run = &document.runs[0];
    assert_eq!((run.id.as_str(), run.goodput_mbps, run.recovery_ms), (lines::RUN, Some(1214.5), Some(230.9)));
    assert_eq!((run.paths[1].name.as_str(), run.paths[1].share), ("wlan", 0.23));
    assert_eq!(run.phases[1].shares.get("eth"), Some(&1.0));
    assert_eq!(document.summary.groups[0].figures["goodput_mbps"].ci95, Some([1190.0, 1233.25]));
    let samples = result.lines::<Sample>().unwrap().items;
    assert_eq!((samples.len(), samples[3].figures.bytes_received), (4, 23_310_000));
    let events = result.lines::<Event>().unwrap().items;
    assert_eq!((events.len(), events[0].due_ms), (4, Some(3000.0)));
    assert_eq!(
        result.lines::<DeliveryLine>().unwrap().items.iter().map(|line| line.bytes).sum::<u64>(),
        46_790_000
    );

    // Reading and writing by this version loses no field.
    let text = fs::read_to_string(golden().join("run.json")).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_within(&stored, &serde_json::to_value(document).unwrap(), "run.json");
    // Fields added later read as the only value possible before.
    assert_eq!((run.encrypted, document.summary.groups[0].pattern.as_str()), (false, "throughput"));
    let messages = result.messages().unwrap();
    assert_eq!((messages.items.len(), messages.warning), (0, None));
}
