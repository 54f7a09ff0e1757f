//! The sizes of the packets that crossed a run's links, in numbers.

use super::tables::path_name;
use crate::carriage::{self, Stage};
use crate::quantity::{NONE, bytes, percent};
use crate::view::View;
use maud::{Markup, html};
use pathbench_record::document::RunRecord;

/// Lengths of a link that are named.
const MOST_SIZES: usize = 6;

/// A row per path, direction and link; nothing where packets were not counted.
pub(super) fn of_run(view: &View, run: &RunRecord) -> Markup {
    let carriages = carriage::carriages(view, run);
    html! {
        @if !carriages.is_empty() {
            h3 { "Packets on the wire" }
            div.scroll { table {
                thead { tr {
                    th { "path" } th { "direction" } th { "link" } th.n { "MTU" } th.n { "packets" } th.n { "bytes" }
                    th { "length: part of the bytes (packets)" }
                } }
                tbody { @for one in &carriages { @for stage in one.stages() { tr {
                    th scope="row" { (path_name(view, one.path)) }
                    td { (one.direction.name()) }
                    td { (stage.link) }
                    td.n { (stage.mtu_bytes.map_or(NONE.to_owned(), |bytes| bytes.to_string())) }
                    td.n { (stage.packets()) }
                    td.n { (bytes(stage.bytes())) }
                    td { (sizes(&stage)) }
                } } } }
            } }
        }
    }
}

fn sizes(stage: &Stage) -> String {
    let ranked = stage.by_bytes();
    let count = |size: u32| stage.sizes.get(&size).copied().unwrap_or_default();
    let mut parts: Vec<String> = ranked
        .iter()
        .take(MOST_SIZES)
        .map(|(size, part)| format!("{size}: {} ({})", percent(*part), count(*size)))
        .collect();
    if ranked.len() > MOST_SIZES {
        parts.push(format!("… {} more lengths", ranked.len() - MOST_SIZES));
    }
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}
