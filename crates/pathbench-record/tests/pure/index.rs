//! The index of a result's lines: it finds the same lines as a plain reading of the files, whatever their order.

use crate::document;
use crate::lines;

use pathbench_record::delivery::DeliveryLine;
use pathbench_record::directory::{Line, ReadError, ResultDirectory, ResultWriter, RunLines};
use pathbench_record::document::{LinkSample, ResultDocument, RunRecord};
use pathbench_record::event::Event;
use pathbench_record::sample::Sample;
use proptest::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Ids of runs: plain ones, one that JSON escapes, one beyond ASCII, and one that the document lacks.
const IDS: [&str; 5] = ["01-tcp-r1", "02-tcp", "a \"quoted\" run", "Läufe", "not-finished"];

fn document(ids: &[&str]) -> ResultDocument {
    let mut document = document::document();
    let run = document.runs.remove(0);
    document.runs = ids.iter().map(|id| RunRecord { id: (*id).to_owned(), ..run.clone() }).collect();
    document
}

/// A result with these files of lines.
fn result(directory: &Path, document: &ResultDocument, files: &[(&str, &str)]) -> ResultDirectory {
    let writer = ResultWriter::create(directory).unwrap();
    writer.finish(document).unwrap();
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
    ResultDirectory::open(directory).unwrap()
}

fn sample(run: &str, t_ms: f64) -> Sample {
    Sample { run: run.to_owned(), t_ms, ..lines::samples().remove(0) }
}

fn text_of<T: Line>(line: &T) -> String {
    serde_json::to_string(line).unwrap()
}

/// A sample as another program writes it: with spaces, or with `run` at another place.
fn written(sample: &Sample, style: u8) -> String {
    let value = serde_json::to_value(sample).unwrap();
    let mut text = match style {
        0..=5 => text_of(sample),
        6 => text_of(sample).replacen("\":\"", "\" : \"", 1),
        7 => format!("  {}  ", text_of(sample)),
        _ => {
            let fields = value.as_object().unwrap().iter().filter(|(key, _)| *key != "run");
            let mut text = String::from("{");
            fields.for_each(|(key, field)| write!(text, "\"{key}\":{field},").unwrap());
            text + &format!("\"run\":{}}}", value["run"])
        }
    };
    text.push_str(if style == 5 { "\r\n\n" } else { "\n" });
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_plain_reading_finds(
        order in proptest::collection::vec((0..IDS.len(), 0..10_u8, 1..4_usize), 0..60),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let parent = tempfile::tempdir().unwrap();
        let mut text = String::new();
        let mut links = String::new();
        for (position, (id, style, count)) in order.iter().enumerate() {
            for _ in 0..*count {
                text += &written(&sample(IDS[*id], position as f64), *style);
            }
            let line = LinkSample { run: IDS[*id].to_owned(), ..lines::link_samples().remove(0) };
            links += &(text_of(&line) + "\n");
        }
        if is_cut {
            // Within the last line: `é` is two bytes.
            let last = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
            let mut end = last + cut.index((text.len() - last).max(1));
            while !text.is_char_boundary(end) { end -= 1; }
            text.truncate(end);
        }
        let files = [("samples.jsonl", text.as_str()), ("links.jsonl", &links)];
        let result = result(&parent.path().join("result"), &document(&IDS[..4]), &files);
        let plain = result.lines::<Sample>().unwrap();
        let plain_links = result.lines::<LinkSample>().unwrap().items;
        let index = result.index().unwrap();
        prop_assert_eq!(index.warnings.iter().find(|text| text.contains("samples")), plain.warning.as_ref());
        for id in &IDS[..4] {
            let found = index.read(id).unwrap();
            let of_run: Vec<Sample> = plain.items.iter().filter(|line| line.run == *id).cloned().collect();
            prop_assert_eq!(found.samples, of_run);
            let of_run: Vec<_> = plain_links.iter().filter(|line| line.run == *id).cloned().collect();
            prop_assert_eq!(found.links, of_run);
        }
        prop_assert_eq!(index.read("not-finished").unwrap(), RunLines::default());
    }
}

#[test]
fn a_broken_line_is_found_when_its_run_is_read() {
    let parent = tempfile::tempdir().unwrap();
    let good = |run: &str| text_of(&sample(run, 1.0)) + "\n";
    let text = good("a") + "{\"run\":\"b\",\"t_ms\":true}\n" + &good("a") + &good("c");
    let result =
        result(&parent.path().join("result"), &document(&["a", "b", "c"]), &[("samples.jsonl", &text)]);
    let index = result.index().unwrap();
    assert_eq!(index.read("a").unwrap().samples.len(), 2);
    assert_eq!(index.read("c").unwrap().samples.len(), 1);
    let error = index.read("b").unwrap_err();
    assert!(matches!(error, ReadError::Broken { line: 2, .. }), "{error:?}");
    assert!(error.to_string().contains("samples.jsonl:2: invalid type"), "{error}");
}

/// RFC 8259, section 6: no leading zeros, no sign `+`, at least one digit.
#[test]
fn a_number_that_json_does_not_allow_is_an_error() {
    for number in ["007", "00", "01.5", "", "-", "+1", "1.", ".5"] {
        let line = |t_ms: &str, bytes: &str| {
            format!("{{\"run\":\"a\",\"direction\":\"upload\",\"t_ms\":{t_ms},\"bytes\":{bytes}}}\n")
        };
        for broken in [line(number, "1"), line("1.0", number)] {
            let parent = tempfile::tempdir().unwrap();
            let text = line("1.0", "1") + &broken;
            let files = [("delivery.jsonl", text.as_str())];
            let result = result(&parent.path().join("result"), &document(&["a"]), &files);
            let error = result.index().unwrap().read("a").unwrap_err();
            assert!(matches!(error, ReadError::Broken { line: 2, .. }), "{broken}: {error:?}");
        }
    }
}

#[test]
fn a_line_without_a_run_is_found_by_the_index() {
    for (number, broken) in
        ["nonsense", "[1]", "{\"t_ms\":1}", "{\"run\":7}", "{\"run\":\"a", "{\"run\":\"a\",", "\u{1}"]
            .into_iter()
            .enumerate()
    {
        let parent = tempfile::tempdir().unwrap();
        let good = text_of(&lines::events()[0]);
        let text = format!("{good}\n\n{good}\n{broken}\n{good}\n");
        let result = result(&parent.path().join("result"), &document(&["a"]), &[("events.jsonl", &text)]);
        let error = result.index().unwrap_err();
        assert!(matches!(error, ReadError::Broken { line: 4, .. }), "{number}: {error:?}");
        assert!(error.to_string().contains("events.jsonl:4: "), "{error}");
        let plain = result.lines::<Event>().unwrap_err();
        assert!(matches!(plain, ReadError::Broken { line: 4, .. }), "{number}: {plain:?}");
    }
}

#[test]
fn an_endless_line_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let good = text_of(&lines::deliveries()[0]);
    let text = format!("{good}\n{{\"run\":\"{}\"}}\n", "a".repeat(2 << 20));
    let result = result(&parent.path().join("result"), &document(&["a"]), &[("delivery.jsonl", &text)]);
    for error in [result.index().unwrap_err(), result.lines::<DeliveryLine>().unwrap_err()] {
        assert!(error.to_string().contains("delivery.jsonl:2: a line of more than 1048576 bytes"), "{error}");
    }
}

#[test]
fn the_index_reads_the_files_that_it_was_made_of() {
    let parent = tempfile::tempdir().unwrap();
    let text = text_of(&sample("a", 1.0)) + "\n";
    let result = result(&parent.path().join("result"), &document(&["a"]), &[("samples.jsonl", &text)]);
    let index = result.index().unwrap();
    assert_eq!(index.bytes("a"), text.len() as u64);
    // The command that measures renames its final lines into place.
    let place = result.path.join("samples.jsonl");
    fs::write(result.path.join("new"), "nonsense\n").unwrap();
    fs::rename(result.path.join("new"), &place).unwrap();
    assert_eq!(index.read("a").unwrap().samples, [sample("a", 1.0)]);
    // A file that became shorter is an error, not a run with fewer lines.
    fs::write(&place, &text).unwrap();
    let index = result.index().unwrap();
    fs::OpenOptions::new().write(true).open(&place).unwrap().set_len(10).unwrap();
    let error = index.read("a").unwrap_err();
    assert!(matches!(error, ReadError::Io { .. }), "{error:?}");
}
