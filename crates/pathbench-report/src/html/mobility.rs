//! Handovers: why they came, how long both paths were in use, and mptcp against mpquic.

use super::tables::path_name;
use crate::narrative::{REASONS, reason_title};
use crate::quantity::{NONE, duration, percent, ratio, spread};
use crate::view::{View, variant_text};
use maud::{Markup, html};
use pathbench_record::document::{HandoverReason, HandoverSummary, MobilitySummary, RunRecord};

/// The table of reasons, and the ratios of the largest delays.
pub(super) fn handovers(view: &View) -> Markup {
    let summaries = &view.set.document.summary.mobility;
    let with_handovers = || summaries.iter().filter(|summary| !summary.handovers.is_empty());
    html! {
        @if with_handovers().next().is_some() {
            section {
                h2 { "Handovers" }
                div.scroll { table {
                    thead { tr {
                        th { "transport" } th { "from → to" } th.n { "handovers" }
                        @for reason in REASONS { th.n { (reason_title(reason)) } }
                        th.n { "last received after" } th.n { "last sent after" } th.n { "abrupt" }
                    } }
                    tbody { @for summary in with_handovers() { @for one in &summary.handovers {
                        (row(view, summary, one))
                    } } }
                } }
                p.muted { "Why: the first of the four that held of the first path when the second carried its first data. \
                           After: from then to the last packet received and sent on the first path, median with its 95 % CI or \
                           the range of fewer than six; abrupt: nothing was received on it any more." }
            }
        }
        @if summaries.iter().any(|summary| !summary.max_delay_ratios.is_empty()) && with_handovers().next().is_some() {
            section {
                h2 { "The slowest message, mptcp ÷ mpquic" }
                table.narrow {
                    thead { tr { th { "direction" } th.n { "repetitions" } th.n { "ratio, median" } th.n { "mptcp faster in" } } }
                    tbody { @for summary in summaries { @for (direction, ratios) in &summary.max_delay_ratios { tr {
                        th scope="row" { (direction) @if !summary.variant.is_empty() { small { (variant_text(&summary.variant)) } } }
                        td.n { (ratios.len()) }
                        td.n { (spread(ratios, ratio).unwrap_or_else(|| NONE.to_owned())) }
                        td.n { (ratios.iter().filter(|ratio| **ratio < 1.0).count()) }
                    } } } }
                }
            }
        }
    }
}

fn row(view: &View, summary: &MobilitySummary, one: &HandoverSummary) -> Markup {
    let runs: Vec<&RunRecord> = view
        .set
        .document
        .runs
        .iter()
        .filter(|run| run.valid && run.variant == summary.variant && run.label == one.label)
        .collect();
    let handovers = || runs.iter().filter_map(|run| run.handover.as_ref());
    let received: Vec<f64> = handovers().filter_map(|handover| handover.duration_received_ms).collect();
    let sent: Vec<f64> = handovers().filter_map(|handover| handover.duration_sent_ms).collect();
    let of = |reason: HandoverReason| match one.reasons.get(&reason) {
        Some(runs) => {
            format!("{runs} ({})", percent(f64::from(*runs) / f64::from(one.handovers.max(1))))
        }
        None => NONE.to_owned(),
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    html! { tr {
        th scope="row" { (one.label) @if !summary.variant.is_empty() { small { (variant_text(&summary.variant)) } } }
        td { @match handovers().next() {
            Some(first) => { (path_name(view, &first.from)) " → " (path_name(view, &first.to)) }
            None => { (NONE) }
        } }
        td.n { (one.handovers) " of " (one.runs) }
        @for reason in REASONS { td.n { (of(reason)) } }
        td.n { (or_none(spread(&received, duration))) }
        td.n { (or_none(spread(&sent, duration))) }
        td.n { (one.abrupt) }
    } }
}
