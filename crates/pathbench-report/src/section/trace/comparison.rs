//! Subflows at two points of capture.

use super::cell::{arrow, capture_name, distribution, part};
use crate::narrative::Tone;
use crate::quantity::duration;
use crate::section::content::{Cell, Items, Section};
use pathbench_record::trace::{
    CaptureRecord, DirectionComparison, SubflowComparison, TracedConnection, TracedSubflow,
};

struct Row<'a> {
    subflow: &'a TracedSubflow,
    compared: &'a SubflowComparison,
    direction: &'static str,
    figures: &'a DirectionComparison,
}

pub(super) fn section(connection: &TracedConnection, captures: &[CaptureRecord]) -> Option<Section> {
    let compared =
        connection.subflows.iter().filter_map(|subflow| Some((subflow, subflow.comparison.as_ref()?)));
    let rows = compared.flat_map(|(subflow, compared)| {
        [
            Row { subflow, compared, direction: "upload", figures: &compared.upload },
            Row { subflow, compared, direction: "download", figures: &compared.download },
        ]
    });
    Items::new(rows)
        .words("direction", |row| Cell::text(row.direction))
        .with_hidden_title()
        .number("sent", |row| Cell::bytes(row.figures.sent_bytes))
        .number("received", |row| Cell::bytes(row.figures.received_bytes))
        .number("lost", |row| changed(row.figures.lost_bytes, row.figures.sent_bytes))
        .number("reordered", |row| changed(row.figures.reordered_bytes, row.figures.received_bytes))
        .number("one-way delay", |row| distribution(row.figures.delay_ms.as_ref()))
        .each(|row, item| {
            let subflow = item.subflow;
            row.group = format!("{}  {}", subflow.id, arrow(subflow.client, subflow.server));
            if item.direction == "download" {
                row.notes = notes(item.compared, captures);
            }
        })
        .section("Two points of capture", "payload at the sender's and at the receiver's point of capture")
}

fn changed(count: u64, of: u64) -> Cell {
    let percent = part(count, of).value;
    let cell = Cell::bytes(count);
    if count == 0 { cell } else { cell.with_line(percent.shown()) }
}

fn notes(compared: &SubflowComparison, captures: &[CaptureRecord]) -> Vec<(Tone, String)> {
    let mut facts = vec![format!(
        "nearer to the client: {}; nearer to the server: {}",
        capture_name(compared.client_capture, captures),
        capture_name(compared.server_capture, captures)
    )];
    facts.extend(compared.clock_offset_ms.map(|offset| {
        let uncertainty = compared.clock_offset_uncertainty_ms;
        let uncertainty = uncertainty.map_or(String::new(), |width| format!(" ± {}", duration(width)));
        format!("clock offset {}{uncertainty}", duration(offset))
    }));
    let mut notes = vec![(Tone::Neutral, facts.join("; "))];
    notes.extend(compared.middlebox.iter().map(|change| {
        let text = match change.as_str() {
            "sequence-rewritten" => "sequence numbers were rewritten between the points of capture",
            "payload-rewritten" => "the payload was changed between the points of capture",
            "options-removed" => "TCP options were removed between the points of capture",
            "mss-clamped" => "the MSS option was lowered between the points of capture",
            "hop-limit" => "the hop limit differs between the points of capture",
            other => other,
        };
        let tone = if change == "hop-limit" { Tone::Neutral } else { Tone::Mixed };
        (tone, text.to_owned())
    }));
    notes
}
