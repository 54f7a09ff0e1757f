//! Results that are written while they are measured, and written anew at their end.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "support/document.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod document;
#[path = "support/lines.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod lines;

use pathbench_record::directory::{ResultDirectory, ResultWriter};
use pathbench_record::message::MessageLine;
use std::fs;

fn message(sequence: u32, delay_ms: Option<f64>, due_ms: f64) -> MessageLine {
    MessageLine {
        sequence,
        due_ms,
        acknowledged_ms: delay_ms.map(|delay_ms| due_ms + delay_ms),
        delay_ms: delay_ms.unwrap_or(1000.0),
        late: delay_ms.is_none(),
        ..lines::messages().remove(0)
    }
}

#[test]
fn the_last_word_on_a_message_counts_where_a_result_was_never_finished() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    writer.append_messages(&[message(0, Some(20.0), 0.0), message(1, None, 100.0)]).unwrap();
    writer.append_messages(&[message(2, None, 200.0), message(1, Some(2300.0), 100.0)]).unwrap();
    writer.write_partial(&document::document()).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let read = ResultDirectory::open(&dir).unwrap().messages().unwrap().items;
    let said: Vec<_> = read.iter().map(|line| (line.sequence, line.acknowledged_ms)).collect();
    assert_eq!(said, [(0, Some(20.0)), (1, Some(2400.0)), (2, None)]);
}

#[test]
fn what_is_written_anew_takes_its_place_at_the_end_and_not_before() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    let (samples, events) = (lines::samples(), lines::events());
    writer.append_run(&samples[..1], &events[..1], &[]).unwrap();
    writer.append_messages(&[message(0, None, 0.0)]).unwrap();
    writer.append_probes(&lines::probe_lines()).unwrap();
    writer.write_partial(&document::document()).unwrap();

    writer.begin_anew().unwrap();
    writer.append_run(&samples, &events, &lines::deliveries()).unwrap();
    writer.append_messages(&[message(0, Some(20.0), 0.0)]).unwrap();
    // Killed now, it would be what it was.
    let killed = ResultDirectory::open(&dir).unwrap();
    assert_eq!(killed.samples().unwrap().items, samples[..1]);
    assert!(killed.messages().unwrap().items[0].late);

    writer.finish(&document::document()).unwrap();
    let result = ResultDirectory::open(&dir).unwrap();
    assert_eq!(result.warning(), None);
    assert_eq!(result.samples().unwrap().items, samples);
    assert_eq!(result.events().unwrap().items, events);
    assert_eq!(result.messages().unwrap().items, [message(0, Some(20.0), 0.0)]);
    // Probes are what they are from the first.
    assert_eq!(result.probes().unwrap().items, lines::probe_lines());
    let hidden = fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}
