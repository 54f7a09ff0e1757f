//! Time-sequence graphs for xplot (<http://www.xplot.org>), in the manner of tcptrace.

use super::error::ResultExportError;
use super::write_file;
use crate::section::trace::arrow;
use pathbench_record::file::OpenDirectory;
use pathbench_record::trace::{SequenceLine, SequenceSegment, TraceDocument};
use std::io::{self, Write};
use std::path::PathBuf;

/// Colours of the subflows at the data level. Red is for retransmissions, yellow for reinjections and green for
/// acknowledgments.
const SUBFLOWS: [&str; 6] = ["white", "blue", "orange", "magenta", "purple", "pink"];

/// Writes `connection-N-subflow-N-DIRECTION.xpl` and `connection-N-data-DIRECTION.xpl` into `out`.
///
/// # Errors
/// [`ResultExportError`], naming the file.
pub fn write_xplot(
    document: &TraceDocument,
    lines: &[SequenceLine],
    out: &OpenDirectory,
) -> Result<Vec<PathBuf>, ResultExportError> {
    let graphs = lines.iter().filter(|line| matches!(line.direction.as_str(), "upload" | "download"));
    graphs
        .map(|line| {
            let level = line.subflow.map_or_else(|| "data".to_owned(), |id| format!("subflow-{id}"));
            let name = format!("connection-{}-{level}-{}.xpl", line.connection, line.direction);
            write_file(out, &name, |file| write(document, line, file))
        })
        .collect()
}

fn write(document: &TraceDocument, line: &SequenceLine, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "timeval double\ntitle\n{}", title(document, line))?;
    let label = if line.subflow.is_some() { "sequence number" } else { "data sequence number" };
    writeln!(out, "xlabel\ntime since the first packet\nylabel\n{label}, relative")?;
    for segment in &line.segments {
        write_segment(line, segment, out)?;
    }
    writeln!(out, "green")?;
    for pair in line.acknowledgments.windows(2) {
        if let [(from, low), (to, high)] = pair {
            writeln!(out, "line {from:.6} {low} {to:.6} {low}\nline {to:.6} {low} {to:.6} {high}")?;
        }
    }
    writeln!(out, "go")
}

fn title(document: &TraceDocument, line: &SequenceLine) -> String {
    let connection = document.connections.iter().find(|one| one.id == line.connection);
    let subflow = connection.and_then(|one| one.subflows.iter().find(|it| Some(it.id) == line.subflow));
    let ends = match (connection, subflow) {
        (_, Some(subflow)) => arrow(subflow.client, subflow.server),
        (Some(connection), None) => arrow(connection.client, connection.server),
        (None, None) => String::new(),
    };
    let level = line.subflow.map_or_else(|| "data level".to_owned(), |id| format!("subflow {id}"));
    let thinned = if line.thinned > 1 { format!(", one of {} packets", line.thinned) } else { String::new() };
    format!(
        "connection {}, {level}, {}: {}{thinned}",
        line.connection,
        line.direction,
        ends.replace('→', "==>")
    )
}

/// An arrow from the first to the last byte.
fn write_segment(line: &SequenceLine, segment: &SequenceSegment, out: &mut impl Write) -> io::Result<()> {
    let SequenceSegment { at_s, start, end, .. } = segment;
    let mark = match segment.kind.as_str() {
        "retransmission" => Some(("red", "R")),
        "reinjection" => Some(("yellow", "I")),
        "out-of-order" => Some(("pink", "O")),
        _ => None,
    };
    let own = segment.subflow.and_then(|id| SUBFLOWS.get(id as usize % SUBFLOWS.len()).copied());
    let colour = match (line.subflow, mark) {
        (Some(_), Some((colour, _))) => colour,
        _ => own.unwrap_or(SUBFLOWS[0]),
    };
    writeln!(out, "{colour}\ndarrow {at_s:.6} {start}\nuarrow {at_s:.6} {end}")?;
    writeln!(out, "line {at_s:.6} {start} {at_s:.6} {end}")?;
    match mark {
        Some((colour, letter)) => writeln!(out, "{colour}\natext {at_s:.6} {end}\n{letter}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(at_s: f64, start: u64, kind: &str, subflow: Option<u32>) -> SequenceSegment {
        SequenceSegment { at_s, start, end: start + 1400, kind: kind.to_owned(), subflow }
    }

    fn written(line: &SequenceLine) -> String {
        let mut bytes = Vec::new();
        write(&TraceDocument::default(), line, &mut bytes).expect("a buffer");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_subflow_has_segments_retransmissions_and_acknowledgments() {
        let line = SequenceLine {
            connection: 3,
            subflow: Some(1),
            direction: "download".to_owned(),
            segments: vec![segment(0.5, 1, "data", None), segment(0.75, 1, "retransmission", None)],
            acknowledgments: vec![(0.6, 1), (0.8, 1401)],
            thinned: 1,
        };
        let expected = "timeval double\ntitle\nconnection 3, subflow 1, download: \n\
            xlabel\ntime since the first packet\nylabel\nsequence number, relative\n\
            white\ndarrow 0.500000 1\nuarrow 0.500000 1401\nline 0.500000 1 0.500000 1401\n\
            red\ndarrow 0.750000 1\nuarrow 0.750000 1401\nline 0.750000 1 0.750000 1401\n\
            red\natext 0.750000 1401\nR\n\
            green\nline 0.600000 1 0.800000 1\nline 0.800000 1 0.800000 1401\ngo\n";
        assert_eq!(written(&line), expected);
    }

    #[test]
    fn the_data_level_has_a_colour_for_each_subflow_and_marks_reinjections() {
        let line = SequenceLine {
            direction: "upload".to_owned(),
            segments: vec![segment(0.1, 1, "data", Some(0)), segment(0.2, 1, "reinjection", Some(1))],
            ..SequenceLine::default()
        };
        let text = written(&line);
        assert!(text.contains("data level, upload") && text.contains("data sequence number"));
        assert!(text.contains("white\ndarrow 0.100000 1\n"));
        assert!(
            text.contains("blue\ndarrow 0.200000 1\n") && text.contains("yellow\natext 0.200000 1401\nI\n")
        );
    }
}
