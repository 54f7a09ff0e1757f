//! Results written during the measurement, and rewritten at its end.

use crate::document;
use crate::lines;

use pathbench_record::directory::{ResultDirectory, ResultWriter};
use pathbench_record::document::ProbeLine;
use pathbench_record::end::MessageLine;
use pathbench_record::event::Event;
use pathbench_record::sample::Sample;
use std::fs;

fn message(sequence: u32, delay_ms: Option<f64>, due_ms: f64) -> MessageLine {
    MessageLine {
        sequence,
        due_ms,
        acknowledged_ms: delay_ms.map(|delay_ms| due_ms + delay_ms),
        delay_ms: delay_ms.unwrap_or(1000.0),
        unacknowledged: delay_ms.is_none(),
        ..lines::messages().remove(0)
    }
}

#[test]
fn the_last_line_of_a_message_counts_in_an_unfinished_result() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    writer.append(&[message(0, Some(20.0), 0.0), message(1, None, 100.0)]).unwrap();
    writer.append(&[message(2, None, 200.0), message(1, Some(2300.0), 100.0)]).unwrap();
    writer.write_partial(&document::document()).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let read = ResultDirectory::open(&dir).unwrap().messages().unwrap().items;
    let acknowledged: Vec<_> = read.iter().map(|line| (line.sequence, line.acknowledged_ms)).collect();
    assert_eq!(acknowledged, [(0, Some(20.0)), (1, Some(2400.0)), (2, None)]);
}

#[test]
fn rewritten_lines_replace_the_old_ones_only_at_the_end() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("result");
    let mut writer = ResultWriter::create(&dir).unwrap();
    let (samples, events) = (lines::samples(), lines::events());
    writer.append(&samples[..1]).unwrap();
    writer.append(&events[..1]).unwrap();
    writer.append(&[message(0, None, 0.0)]).unwrap();
    writer.append(&lines::probe_lines()).unwrap();
    writer.write_partial(&document::document()).unwrap();

    writer.begin_anew().unwrap();
    writer.append(&samples).unwrap();
    writer.append(&events).unwrap();
    writer.append(&lines::deliveries()).unwrap();
    writer.append(&[message(0, Some(20.0), 0.0)]).unwrap();
    // After a crash now, the result has the old lines.
    let killed = ResultDirectory::open(&dir).unwrap();
    assert_eq!(killed.lines::<Sample>().unwrap().items, samples[..1]);
    assert!(killed.messages().unwrap().items[0].unacknowledged);

    writer.finish(&document::document()).unwrap();
    let result = ResultDirectory::open(&dir).unwrap();
    assert_eq!(result.warning, None);
    assert_eq!(result.lines::<Sample>().unwrap().items, samples);
    assert_eq!(result.lines::<Event>().unwrap().items, events);
    assert_eq!(result.messages().unwrap().items, [message(0, Some(20.0), 0.0)]);
    // Probe lines are final from the start; they are not rewritten.
    assert_eq!(result.lines::<ProbeLine>().unwrap().items, lines::probe_lines());
    let hidden = fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}
