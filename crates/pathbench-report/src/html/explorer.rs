//! The interactive part of the page: linked panels that a script draws from data blocks.

use super::payload::{MOST_BYTES, MOST_RUNS, Payload};
use crate::view::View;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

/// uPlot 1.6.32, MIT licence (`assets/LICENSE-uPlot.txt`).
const CHARTS: &str = include_str!("../../assets/uPlot.iife.min.js");
const CHARTS_CSS: &str = include_str!("../../assets/uPlot.min.css");

/// The parts share one scope, so that the page has no global names beside uPlot's.
const EXPLORER: &str = concat!(
    "(function () {\n\"use strict\";\n",
    include_str!("../../assets/payload.js"),
    include_str!("../../assets/words.js"),
    include_str!("../../assets/figures.js"),
    include_str!("../../assets/spread.js"),
    include_str!("../../assets/panels.js"),
    include_str!("../../assets/distribution.js"),
    include_str!("../../assets/explorer.js"),
    "})();\n",
);
const EXPLORER_CSS: &str = include_str!("../../assets/explorer.css");

pub(super) const SCRIPTS: [&str; 2] = [CHARTS, EXPLORER];
pub(super) const STYLES: [&str; 2] = [CHARTS_CSS, EXPLORER_CSS];

/// The section of the panels with their data; empty without a run.
pub(super) fn panels(view: &View) -> Markup {
    if view.groups.iter().all(|group| group.runs.is_empty()) {
        return html! {};
    }
    let payload = Payload::new(view);
    let all = payload.index["all_runs"].as_u64().unwrap_or_default() as usize;
    html! {
        section.explorer {
            h2 { "Over time" }
            (block("explorer-index", None, &payload.index))
            @for (position, samples) in &payload.runs { (block("explorer-run", Some(*position), samples)) }
            @if let Some(note) = note(all, payload.runs.len()) { p.muted.explorer-note { (note) } }
        }
    }
}

fn note(all: usize, full: usize) -> Option<String> {
    let shown = all.min(MOST_RUNS);
    let windows = (full < shown).then(|| {
        format!(
            "This page contains all samples of {full} of {all} runs, the representative runs first, and windows of goodput of \
             the others: samples are limited to {} MB a result.",
            MOST_BYTES >> 20
        )
    });
    let more = (shown < all).then(|| {
        format!(
            "The panels show {shown} of {all} runs, the representative ones first; the tables contain all."
        )
    });
    let said: Vec<String> = [windows, more].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// A data block. Nothing in it can end the element or begin another one.
fn block(class: &str, run: Option<usize>, value: &Value) -> Markup {
    let json = value.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    html! { script type="application/json" class=(class) data-run=[run] { (PreEscaped(json)) } }
}
